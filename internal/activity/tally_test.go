package activity_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/activity"
)

// days is a store of some days that are counted.
type days struct {
	activity.Store
	tallies []activity.Tally
}

func (d days) Tallies(context.Context, time.Time) ([]activity.Tally, error) { return d.tallies, nil }

func reported(t *testing.T, tallies ...activity.Tally) activity.Summary {
	t.Helper()
	a := activity.New(activity.Config{Store: days{tallies: tallies}, Now: time.Now})
	r, err := a.Report(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	return r.Summary
}

// sketchOf is the sketch of the visitors from..to, whose digests are random.
func sketchOf(digests [][]byte) activity.Sketch {
	some := slices.Clone(digests)
	slices.SortFunc(some, bytes.Compare)
	return slices.Concat(some[:min(len(some), activity.SketchSize)]...)
}

func digests(n int) [][]byte {
	source := rand.NewChaCha8([32]byte{1})
	all := make([][]byte, n)
	for i := range all {
		all[i] = make([]byte, activity.DigestSize)
		_, _ = source.Read(all[i]) // never fails
	}
	return all
}

// TestVisitorsOfSeveralDaysAreCountedOnce, exactly while they are few and nearly when they are many.
func TestVisitorsOfSeveralDaysAreCountedOnce(t *testing.T) {
	for n, within := range map[int]float64{0: 0, 1: 0, 3: 0, 2000: 0, 10_000: 0.1, 300_000: 0.1} {
		all := digests(n)
		third := n / 3
		got := reported(t,
			activity.Tally{Events: 1, Visitors: sketchOf(all[:2*third])},
			activity.Tally{Events: 1, Visitors: sketchOf(all[third:])}, // some of them come again
		).Visitors
		if off := float64(got - n); max(off, -off) > within*float64(n) {
			t.Errorf("%d visitors are counted as %d", n, got)
		}
	}
}

// TestSummaryAddsDaysUp by each subject, the most frequent first.
func TestSummaryAddsDaysUp(t *testing.T) {
	monday := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	tuesday := monday.AddDate(0, 0, 1)
	v := digests(3)
	got := reported(t,
		activity.Tally{Day: monday, Subject: activity.All, Events: 3, Visitors: sketchOf(v[:2])},
		activity.Tally{Day: monday, Subject: activity.ByName, Value: "b", Events: 1, Visitors: sketchOf(v[:1])},
		activity.Tally{Day: monday, Subject: activity.ByName, Value: "a", Events: 2, Visitors: sketchOf(v[:2])},
		activity.Tally{Day: tuesday, Subject: activity.All, Events: 4, Visitors: sketchOf(v[1:])},
		activity.Tally{Day: tuesday, Subject: activity.ByName, Value: "b", Events: 4, Visitors: sketchOf(v[1:])},
		activity.Tally{Day: tuesday, Subject: activity.Property + "x", Value: "1", Events: 1, Visitors: sketchOf(v[2:])},
	)
	want := activity.Summary{
		Events: 7, Visitors: 3,
		ByName: []activity.Count{{Value: "b", Events: 5, Visitors: 3}, {Value: "a", Events: 2, Visitors: 2}},
		ByDay: []activity.Count{
			{Value: "2026-11-24", Events: 4, Visitors: 2}, {Value: "2026-11-23", Events: 3, Visitors: 2},
		},
		ByProperty: map[string][]activity.Count{"x": {{Value: "1", Events: 1, Visitors: 1}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
