package activity

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	// SketchSize is how many visitors a sketch counts exactly. Of more, it has the least digests.
	SketchSize = 2048
	// DigestSize is how many bytes of a visitor's digest a sketch has.
	DigestSize = 8
	// MostValues is how many values of a property are counted in a day: the most frequent ones.
	MostValues = 300
)

// The subjects of tallies. That of a property is Property and its name.
const (
	All      = ""
	ByName   = "name"
	Property = "property."
)

// Tally is how many events of a day had a value, and who sent them.
type Tally struct {
	Day            time.Time
	Subject, Value string
	Events         int
	Visitors       Sketch
}

// Sketch is the first DigestSize bytes of the digests of some visitors, in their order and each once: all of them, or
// the least SketchSize. The sketch of several days is the least of all of theirs.
type Sketch []byte

// count is how many visitors the sketches have together. Digests are spread evenly, so from SketchSize on it is told by
// how far the least ones reach: within 5 % of the truth nearly always.
func count(sketches []Sketch) int {
	var digests []uint64
	for _, s := range sketches {
		for digest := range slices.Chunk(s, DigestSize) {
			digests = append(digests, binary.BigEndian.Uint64(digest))
		}
	}
	slices.Sort(digests)
	digests = slices.Compact(digests)
	if len(digests) < SketchSize {
		return len(digests)
	}
	reach := (float64(digests[SketchSize-1]) + 1) / math.MaxUint64
	return int(math.Round((SketchSize - 1) / reach))
}

// sum adds up tallies.
func sum(tallies []Tally) Summary {
	type seen struct {
		events   int
		sketches []Sketch
	}
	all := map[[2]string]*seen{}
	add := func(subject, value string, t Tally) {
		key := [2]string{subject, value}
		if all[key] == nil {
			all[key] = &seen{}
		}
		all[key].events += t.Events
		all[key].sketches = append(all[key].sketches, t.Visitors)
	}
	const byDay = "day"
	for _, t := range tallies {
		add(t.Subject, t.Value, t)
		if t.Subject == All {
			add(byDay, t.Day.UTC().Format(time.DateOnly), t)
		}
	}
	s := Summary{ByProperty: map[string][]Count{}}
	for key, of := range all {
		c := Count{Value: key[1], Events: of.events, Visitors: count(of.sketches)}
		property, isProperty := strings.CutPrefix(key[0], Property)
		switch {
		case isProperty:
			s.ByProperty[property] = append(s.ByProperty[property], c)
		case key[0] == ByName:
			s.ByName = append(s.ByName, c)
		case key[0] == byDay:
			s.ByDay = append(s.ByDay, c)
		default:
			s.Events, s.Visitors = c.Events, c.Visitors
		}
	}
	byFrequency := func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), strings.Compare(a.Value, b.Value))
	}
	slices.SortFunc(s.ByName, byFrequency)
	slices.SortFunc(s.ByDay, byFrequency)
	for _, values := range s.ByProperty {
		slices.SortFunc(values, byFrequency)
	}
	return s
}
