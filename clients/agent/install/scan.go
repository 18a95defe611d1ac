package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// value is a JSON value in a text: where it is, and of an object where its members are.
type value struct {
	kind       byte // '{', '[', '"' or 0
	start, end int
	members    []named
	// comma is the place of a final comma, or -1.
	comma int
}

type named struct {
	name string
	// start is where the name begins.
	start int
	value value
}

// find is a member's value. A member that is there twice is an error.
func (v value) find(name string) (value, bool, error) {
	var at value
	found := false
	for _, m := range v.members {
		if m.name != name {
			continue
		}
		if found {
			return value{}, false, fmt.Errorf("it has %q twice", name)
		}
		at, found = m.value, true
	}
	return at, found, nil
}

// indent is what stands before the object's members.
func (v value) indent(text string) string {
	if len(v.members) > 0 {
		if white, first := lineStart(text, v.members[0].start); first {
			return white
		}
	}
	return v.outer(text) + "  "
}

// outer is what stands before the line that the object begins in.
func (v value) outer(text string) string {
	white, _ := lineStart(text, v.start)
	return white
}

// lineStart is the white space at the beginning of the line of a place, and whether nothing else is before it.
func lineStart(text string, at int) (string, bool) {
	line := text[strings.LastIndexByte(text[:at], '\n')+1 : at]
	rest := strings.TrimLeft(line, " \t")
	return line[:len(line)-len(rest)], rest == ""
}

// shift moves all places.
func (v value) shift(by int) value {
	v.start, v.end = v.start+by, v.end+by
	if v.comma >= 0 {
		v.comma += by
	}
	members := make([]named, len(v.members))
	for i, m := range v.members {
		members[i] = named{m.name, m.start + by, m.value.shift(by)}
	}
	v.members = members
	return v
}

// scanner reads JSON with comments and final commas, as VS Code does, and remembers places.
type scanner struct {
	text string
	at   int
	// plain is the text with white space for what is not JSON.
	plain []byte
}

var errJSON = errors.New("it is not JSON")

// maxDepth is deeper than any real settings.
const maxDepth = 200

// scan reads the first value.
func scan(text string) (value, error) {
	s := scanner{text: text, plain: []byte(text)}
	return s.document(false)
}

// decode gives the values of a whole text, checked by the standard library once what is not JSON is blank.
func decode(text []byte) (any, error) {
	s := scanner{text: string(text), plain: []byte(string(text))}
	if _, err := s.document(true); err != nil {
		return nil, err
	}
	var v any
	if err := json.Unmarshal(s.plain, &v); err != nil {
		return nil, fmt.Errorf("%w: %w", errJSON, err)
	}
	return v, nil
}

func (s *scanner) document(whole bool) (value, error) {
	const mark = "\ufeff" // a byte order mark, as editors on Windows write it
	if strings.HasPrefix(s.text, mark) {
		s.skip(len(mark))
	}
	if err := s.space(); err != nil {
		return value{}, err
	}
	v, err := s.value(0)
	if err != nil || !whole {
		return v, err
	}
	if err := s.space(); err != nil {
		return v, err
	}
	if s.at != len(s.text) {
		return v, errJSON
	}
	return v, nil
}

// skip passes over what is not JSON.
func (s *scanner) skip(n int) {
	for i := s.at; i < s.at+n; i++ {
		if s.plain[i] != '\n' {
			s.plain[i] = ' '
		}
	}
	s.at += n
}

func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// space passes over white space and comments.
func (s *scanner) space() error {
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			s.at++
		case strings.HasPrefix(rest, "//"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			s.skip(n)
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				return errJSON
			}
			s.skip(n + 4)
		default:
			return nil
		}
	}
	return nil
}

func (s *scanner) value(depth int) (value, error) {
	if depth > maxDepth {
		return value{}, errJSON
	}
	v := value{kind: s.peek(), start: s.at, comma: -1}
	switch v.kind {
	case '{', '[':
		if err := s.inside(&v, depth); err != nil {
			return v, err
		}
	case '"':
		if err := s.string(); err != nil {
			return v, err
		}
	default:
		v.kind = 0
		for s.at < len(s.text) && strings.IndexByte(" \t\r\n,]}/:", s.text[s.at]) < 0 {
			s.at++
		}
		if s.at == v.start {
			return v, errJSON
		}
	}
	v.end = s.at
	return v, nil
}

// inside reads an object's or an array's members and its end.
func (s *scanner) inside(v *value, depth int) error {
	closing := map[byte]byte{'{': '}', '[': ']'}[v.kind]
	s.at++
	for first := true; ; first = false {
		if err := s.space(); err != nil {
			return err
		}
		if s.peek() == closing {
			if v.comma >= 0 {
				s.plain[v.comma] = ' '
			}
			s.at++
			return nil
		}
		if !first && v.comma < 0 {
			return errJSON
		}
		v.comma = -1
		if err := s.member(v, depth); err != nil {
			return err
		}
		if err := s.space(); err != nil {
			return err
		}
		if s.peek() == ',' {
			v.comma = s.at
			s.at++
		}
	}
}

func (s *scanner) member(v *value, depth int) error {
	m := named{start: s.at}
	if v.kind == '{' {
		if err := s.string(); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(s.text[m.start:s.at]), &m.name); err != nil {
			return errJSON
		}
		if err := s.space(); err != nil {
			return err
		}
		if s.peek() != ':' {
			return errJSON
		}
		s.at++
		if err := s.space(); err != nil {
			return err
		}
	}
	var err error
	if m.value, err = s.value(depth + 1); err != nil {
		return err
	}
	if v.kind == '{' {
		v.members = append(v.members, m)
	}
	return nil
}

func (s *scanner) string() error {
	if s.peek() != '"' {
		return errJSON
	}
	for i := s.at + 1; i < len(s.text); i++ {
		switch s.text[i] {
		case '\\':
			i++
		case '"':
			s.at = i + 1
			return nil
		case '\n':
			return errJSON
		}
	}
	return errJSON
}
