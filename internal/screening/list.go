package screening

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/x402"
)

// ErrNoAddress says that a list has no address of this chain, which is taken for a mistake.
var ErrNoAddress = errors.New("there is no address on the list")

// Parse reads the addresses of a list in one of the formats in which sanctions lists are published:
//
//   - text: an address on each line; what follows # is a comment
//   - JSON: an array of strings
//   - XML: the SDN list of the Office of Foreign Assets Control (SDN.XML), of which each id whose type begins
//     "Digital Currency Address" is read
//
// Addresses of other chains are left out. What is no address at all is an error: a page that says "not found" is no
// list without entries. So is a part of an address: the list may be cut off there. One that is there twice counts once.
func Parse(r io.Reader) ([]x402.Address, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	first, line, err := firstByte(in)
	if err != nil {
		return nil, fmt.Errorf("read the list: %w", err)
	}
	var all []x402.Address
	switch first {
	case '[':
		all, err = parseJSON(in)
	case '<':
		all, err = parseSDN(in)
	default:
		all, err = parseText(in, line)
	}
	if err == nil && len(all) == 0 {
		err = ErrNoAddress
	}
	if err != nil {
		return nil, err
	}
	return once(all), nil
}

// once leaves out what is there already.
func once(all []x402.Address) []x402.Address {
	seen := make(map[x402.Address]bool, len(all))
	return slices.DeleteFunc(all, func(a x402.Address) bool {
		defer func() { seen[a] = true }()
		return seen[a]
	})
}

// firstByte is the first that is neither space nor a byte order mark, and the number of its line. It stays unread.
func firstByte(in *bufio.Reader) (first byte, line int, err error) {
	if mark, err := in.Peek(3); err == nil && bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		if _, err := in.Discard(3); err != nil {
			return 0, 0, err
		}
	}
	for line = 1; ; {
		b, err := in.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return 0, 0, ErrNoAddress
		case err != nil:
			return 0, 0, err
		case b == '\n':
			line++
		case strings.IndexByte(" \t\r", b) < 0:
			return b, line, in.UnreadByte()
		}
	}
}

// foreign is what addresses of other chains look like.
var foreign = regexp.MustCompile(`^[A-Za-z0-9:_-]{20,120}$`)

// part is what parts of addresses of this chain look like. Some chains have longer ones, which begin alike.
var part = regexp.MustCompile(`(?i)^(0x.{0,39}|0x.*[^0-9a-f].*|[0-9a-f]{40})$`)

// add appends an address of this chain, leaves out another chain's, and refuses what is neither.
func add(all []x402.Address, text string) ([]x402.Address, error) {
	text = strings.TrimSpace(text)
	if a, err := x402.ParseAddress(text); err == nil {
		return append(all, a), nil
	}
	// Lists write addresses in capitals, too, and with checksums that are none.
	if a, err := x402.ParseAddress(strings.ToLower(text)); err == nil {
		return append(all, a), nil
	}
	if part.MatchString(text) {
		return nil, fmt.Errorf("%q is cut off or not an address: those of this chain are 0x and 40 hex digits", text)
	}
	if !foreign.MatchString(text) {
		return nil, fmt.Errorf("%.60q is not an address", text)
	}
	return all, nil
}

func parseText(in io.Reader, first int) (all []x402.Address, err error) {
	lines := bufio.NewScanner(in)
	for n := first; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if all, err = add(all, line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the list: %w", err)
	}
	return all, nil
}

func parseJSON(in io.Reader) (all []x402.Address, err error) {
	var texts []string
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&texts); err != nil {
		return nil, fmt.Errorf("read the list as a JSON array of strings: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something behind the JSON array")
	}
	for _, text := range texts {
		if all, err = add(all, text); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// parseSDN reads the ids of an SDN list, which is far too large to be kept.
func parseSDN(in io.Reader) (all []x402.Address, err error) {
	decoder := xml.NewDecoder(in)
	ended := false
	for {
		token, err := decoder.Token()
		switch {
		case errors.Is(err, io.EOF) && ended:
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("read the list as XML: %w", err)
		}
		switch t := token.(type) {
		case xml.EndElement:
			ended = t.Name.Local == "sdnList"
		case xml.StartElement:
			if t.Name.Local != "id" {
				continue
			}
			var id struct {
				Type   string `xml:"idType"`
				Number string `xml:"idNumber"`
			}
			if err := decoder.DecodeElement(&id, &t); err != nil {
				return nil, fmt.Errorf("read an id of the list: %w", err)
			}
			if !strings.HasPrefix(id.Type, "Digital Currency Address") {
				continue
			}
			if all, err = add(all, id.Number); err != nil {
				return nil, err
			}
		}
	}
}
