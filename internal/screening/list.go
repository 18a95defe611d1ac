package screening

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/x402"
)

// ErrNoAddress says that a list has no address of this chain, which is taken for a mistake.
var ErrNoAddress = errors.New("there is no address on the list")

// What is larger than any list that is published: SDN.XML has some 30 MB. A list is read as it comes: no more of it is
// held than one entry and the addresses.
const (
	maxList  = 128 << 20
	maxEntry = 64 << 10
	// maxAddresses counts those of other chains, too.
	maxAddresses = 100_000
	// maxDepth is how many elements of XML may be open.
	maxDepth = 32
)

// Parse reads the addresses of a list in one of the formats in which sanctions lists are published:
//
//   - text: an address on each line; what follows # is a comment
//   - JSON: an array of strings
//   - XML: the SDN list of the Office of Foreign Assets Control (SDN.XML), of which each id whose type begins
//     "Digital Currency Address" is read
//
// Addresses of other chains are left out. What is no address at all is an error: a page that says "not found" is no
// list without entries. So is a part of an address: the list may be cut off there. They come in order, each once. No
// error quotes the list: it may be something else that was read by mistake.
func Parse(r io.Reader) ([]x402.Address, error) {
	in := &input{Reader: bufio.NewReaderSize(r, maxEntry), list: maxList, entry: maxEntry}
	first, line, err := firstByte(in)
	if err != nil {
		return nil, fmt.Errorf("read the list: %w", err)
	}
	var found addresses
	switch first {
	case '[':
		err = found.parseJSON(in)
	case '<':
		err = found.parseSDN(in)
	default:
		err = found.parseText(in, line)
	}
	if err == nil && len(found.ours) == 0 {
		err = ErrNoAddress
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found.ours, func(a, b x402.Address) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(found.ours), nil
}

// input is a list as it is read, with what is left of its bounds.
type input struct {
	*bufio.Reader
	list, entry int
	// failed is why no more of it can be read; nil at its end.
	failed error
}

// next says that an entry was read.
func (in *input) next() { in.entry = maxEntry }

// spend counts what was read, and notes what failed.
func (in *input) spend(n int, err error) error {
	in.list, in.entry = in.list-n, in.entry-n
	switch {
	case in.list < 0:
		err = fmt.Errorf("the list has more than %d bytes", maxList)
	case in.entry < 0:
		err = fmt.Errorf("an entry of the list has more than %d bytes", maxEntry)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		in.failed = err
	}
	return err
}

// unreadable is why a decoder stopped, without its own words, which quote the list.
func (in *input) unreadable(format string, where int64) error {
	if in.failed != nil {
		return fmt.Errorf("read the list: %w", in.failed)
	}
	return fmt.Errorf("the list is cut off or "+format, where)
}

// Read implements io.Reader. It fills p: a decoder looks at all that it holds again whenever a byte comes.
func (in *input) Read(p []byte) (int, error) {
	n, err := io.ReadFull(in.Reader, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // the next one says that it ends
	}
	return n, in.spend(n, err)
}

// ReadByte implements io.ByteReader.
func (in *input) ReadByte() (byte, error) {
	b, err := in.Reader.ReadByte()
	return b, in.spend(1, err)
}

// firstByte is the first that is neither space nor a byte order mark, and the number of its line. It stays unread.
func firstByte(in *input) (first byte, line int, err error) {
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
			in.next()
			return b, line, in.UnreadByte()
		}
	}
}

// isForeign says that a text looks like an address of another chain.
func isForeign(text string) bool {
	return len(text) >= 20 && len(text) <= 120 && strings.IndexFunc(text, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune(":_-", r)
	}) < 0
}

// isPart says that a text looks like a part of an address of this chain. Some chains have longer ones, which begin
// alike.
func isPart(text string) bool {
	const length = 2 * len(x402.Address{})
	digits, begins := strings.CutPrefix(strings.ToLower(text), "0x")
	hex := strings.Trim(digits, "0123456789abcdef") == ""
	if begins {
		return len(digits) < length || !hex
	}
	return len(digits) == length && hex
}

// addresses are those of a list so far.
type addresses struct {
	ours  []x402.Address
	count int
}

// add takes an address of this chain, leaves out another chain's, and refuses what is neither.
func (all *addresses) add(text string) error {
	if all.count++; all.count > maxAddresses {
		return fmt.Errorf("the list has more than %d addresses", maxAddresses)
	}
	text = strings.TrimSpace(text)
	a, err := x402.ParseAddress(text)
	if err != nil {
		// Lists write addresses in capitals, too, and with checksums that are none.
		a, err = x402.ParseAddress(strings.ToLower(text))
	}
	switch {
	case err == nil:
		all.ours = append(all.ours, a)
	case isPart(text):
		return errors.New("it is cut off or not an address: those of this chain are 0x and 40 hex digits")
	case !isForeign(text):
		return errors.New("it is not an address")
	}
	return nil
}

func (all *addresses) parseText(in *input, first int) error {
	lines := bufio.NewScanner(in)
	for n := first; lines.Scan(); n++ {
		in.next()
		line, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if err := all.add(line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the list: %w", err)
	}
	return nil
}

func (all *addresses) parseJSON(in *input) error {
	decoder := json.NewDecoder(in)
	for first := true; ; first = false {
		token, err := decoder.Token()
		in.next()
		text, isText := token.(string)
		switch {
		case err != nil:
			return in.unreadable("not a JSON array, at byte %d", decoder.InputOffset())
		case first: // it begins with [
		case token == json.Delim(']'):
			if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
				return errors.New("there is something behind the JSON array")
			}
			return nil
		case !isText:
			return fmt.Errorf("number %d in the JSON array is no string", all.count+1)
		default:
			if err := all.add(text); err != nil {
				return fmt.Errorf("number %d: %w", all.count, err)
			}
		}
	}
}

// parseSDN reads the ids of an SDN list.
func (all *addresses) parseSDN(in *input) error {
	decoder := xml.NewDecoder(in)
	line := func() int64 {
		line, _ := decoder.InputPos()
		return int64(line)
	}
	for depth, ended := 0, false; ; in.next() {
		token, err := decoder.Token()
		switch {
		case errors.Is(err, io.EOF) && ended:
			return nil
		case err != nil:
			return in.unreadable("not XML, in line %d", line())
		}
		switch t := token.(type) {
		case xml.EndElement:
			depth--
			ended = t.Name.Local == "sdnList"
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return fmt.Errorf("line %d: more than %d elements are open", line(), maxDepth)
			}
			if t.Name.Local != "id" {
				continue
			}
			depth-- // it is read to its end
			var id struct {
				Type   string `xml:"idType"`
				Number string `xml:"idNumber"`
			}
			if decoder.DecodeElement(&id, &t) != nil {
				return in.unreadable("not XML, in line %d", line())
			}
			if !strings.HasPrefix(id.Type, "Digital Currency Address") {
				continue
			}
			if err := all.add(id.Number); err != nil {
				return fmt.Errorf("line %d: %w", line(), err)
			}
		}
	}
}
