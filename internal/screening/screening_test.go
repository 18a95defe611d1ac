package screening_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/screening"
	"github.com/roamcard/roamcard/internal/x402"
)

var (
	listed, other = x402.Address{0: 1, 19: 1}, x402.Address{0: 2, 19: 2}
	start         = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
)

func TestPublishedFormatsAreRead(t *testing.T) {
	const sdn = `<?xml version="1.0" standalone="yes"?>
<sdnList xmlns="https://sanctionslistservice.ofac.treas.gov/api/PublicationPreview/exports/XML">
  <sdnEntry><uid>1</uid><idList>
    <id><uid>2</uid><idType>Digital Currency Address - ETH</idType><idNumber>%1</idNumber></id>
    <id><uid>3</uid><idType>Digital Currency Address - XBT</idType>
      <idNumber>12QtD5BFwRsdNsAZY76UVE1xyCGNTojH9h</idNumber></id>
    <id><uid>4</uid><idType>Passport</idType><idNumber>A 12</idNumber></id>
  </idList></sdnEntry>
  <sdnEntry><uid>5</uid><idList>
    <id><uid>6</uid><idType>Digital Currency Address - USDC</idType><idNumber>%2</idNumber></id>
  </idList></sdnEntry>
</sdnList>`
	for name, text := range map[string]string{
		"text":          "# published today\n%1\n\n  %2  # two\r\n",
		"text, marked":  "\xef\xbb\xbf%1\n%2",
		"in capitals":   strings.ToUpper("%1\n%2"),
		"other chains":  "%1\nTCzq6m2zxnQkrZrf8cqYcK6bbXQYAfWYKC\n%2\nbc1qnew4mvqzq8l3x8m0t9q4xj3zqq5d0d4d8d3v5r\n",
		"twice":         "%1\n%2\n%1\n",
		"a longer one":  "%1\n%2\n0x" + strings.Repeat("ab", 32),
		"JSON":          `["%1", "%2"]`,
		"JSON, spaced":  "\n [\"%1\",\n\"%2\"]\n",
		"the SDN list":  sdn,
		"SDN, repeated": sdn + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("%1", listed.Lower(), "%2", other.Lower()).Replace(text)
			// One byte at a time, as a slow source sends it.
			got, err := screening.Parse(iotest.OneByteReader(strings.NewReader(text)))
			if err != nil || !slices.Equal(got, []x402.Address{listed, other}) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// TestListThatIsCutOffSaysWhere, by the number of the line in the file.
func TestListThatIsCutOffSaysWhere(t *testing.T) {
	_, err := screening.Parse(strings.NewReader("\n# published today\n" + listed.Lower() + "\n" + other.Lower()[:20]))
	if err == nil || !strings.HasPrefix(err.Error(), "line 4: ") || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("%v, want what is cut off in line 4", err)
	}
}

// TestErrorsQuoteNoList: a location may lead to what is no list, such as a secret of this machine.
func TestErrorsQuoteNoList(t *testing.T) {
	for _, text := range []string{
		"hunter2", "0xhunter2", "a: hunter2", `["hunter2"]`, `["0xhunter2"]`, `[hunter2]`, `["a", hunter2]`,
		`[{"hunter2":1}]`,
		"<hunter2>", "<a><hunter2></a>", "<a hunter2></a>", "<a>&hunter2;</a>", "<?xml version='hunter2'?><a/>",
		"<sdnList>" + sdnID("hunter2") + "</sdnList>", "<!hunter2", "<sdnList><id><idType>hunter2</id></sdnList>",
		`<?xml version="1.0" encoding="hunter2"?><a/>`,
	} {
		if _, err := screening.Parse(strings.NewReader(text)); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// filler repeats a text until so many bytes were read, and counts them.
type filler struct {
	text string
	left int
	off  int
}

func (f *filler) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), f.left)], f.text[f.off:])
	f.off, f.left = (f.off+n)%len(f.text), f.left-n
	return n, nil
}

// allocated is how many bytes f asks for, and what it returns.
func allocated(f func() error) (uint64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

// TestListIsReadAsItComes: what its source sends without an end costs no memory.
func TestListIsReadAsItComes(t *testing.T) {
	const size = 16 << 20 // enough to tell, and little enough for a reader that keeps it all
	one := listed.Lower()
	for name, c := range map[string]struct {
		begin, text, want string
	}{
		"lines":                  {"", one + "\n", "more than 100000 addresses"},
		"lines of other chains":  {one + "\n", "TCzq6m2zxnQkrZrf8cqYcK6bbXQYAfWYKC\n", "more than 100000 addresses"},
		"a line":                 {one + "\n", "a", "too long"},
		"space":                  {"", " ", "more than 65536 bytes"},
		"a JSON array":           {"[", `"` + one + `",`, "more than 100000 addresses"},
		"a JSON string":          {`["`, "a", "more than 65536 bytes"},
		"JSON and space":         {`["` + one + `"`, " ", "more than 65536 bytes"},
		"JSON in JSON":           {"[", "[", "number 1 in the JSON array is no string"},
		"XML, ids":               {"<sdnList>", sdnID(one), "more than 100000 addresses"},
		"XML, elements in each":  {"<sdnList>", "<a>", "more than 32 elements"},
		"XML, ids in each":       {"<sdnList>", "<id>", "more than 65536 bytes"},
		"XML, a text":            {"<sdnList>", "a", "more than 65536 bytes"},
		"XML, an attribute":      {`<sdnList a="`, "a", "more than 65536 bytes"},
		"XML, attributes":        {"<sdnList", ` a="a"`, "more than 65536 bytes"},
		"XML, a name":            {"<", "a", "more than 65536 bytes"},
		"XML, a comment":         {"<sdnList><!--", "a", "more than 65536 bytes"},
		"XML, an id that is one": {"<sdnList><id><idType>", "a", "more than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			source := &filler{text: c.text, left: size}
			used, err := allocated(func() error {
				_, err := screening.Parse(io.MultiReader(strings.NewReader(c.begin), source))
				return err
			})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
			read := size - source.left
			t.Logf("read %d bytes, allocated %d", read, used)
			// XML takes most: an id is decoded into values of its own, which nobody keeps.
			if used > 8<<20+uint64(12*read) {
				t.Errorf("%d bytes are allocated for %d of the list", used, read)
			}
		})
	}
}

// TestPackedListIsBounded: on the way it is short.
func TestPackedListIsBounded(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	list := &filler{text: `"` + listed.Lower() + `",`, left: 16 << 20}
	_, err := io.Copy(w, io.MultiReader(strings.NewReader("["), list))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	}))
	t.Cleanup(server.Close)
	source, err := screening.ParseSource(server.URL, outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	used, err := allocated(func() error {
		_, err := source.Read(t.Context())
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "more than 100000 addresses") || used > 64<<20 {
		t.Errorf("%d bytes on the way, %d allocated: %v", packed.Len(), used, err)
	}
}

func sdnID(address string) string {
	return "<id><idType>Digital Currency Address - ETH</idType><idNumber>" + address + "</idNumber></id>"
}

func TestWhatIsNoListIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty":            "",
		"space":            " \n",
		"comments":         "# nobody\n",
		"a page":           "<!doctype html><html><body>Not found</body></html>",
		"words":            "not found",
		"cut off":          listed.Lower() + "\n" + other.Lower()[:41],
		"cut off early":    listed.Lower() + "\n0x",
		"without its 0x":   listed.Lower() + "\n" + other.Lower()[2:] + "\n",
		"JSON, one cut":    `["` + listed.Lower() + `", "` + other.Lower()[:30] + `"]`,
		"a short address":  "0x1234",
		"JSON, cut off":    `["` + listed.Lower() + `"`,
		"JSON of objects":  `[{"address":"` + listed.Lower() + `"}]`,
		"JSON, followed":   `["` + listed.Lower() + `"] ["x"]`,
		"JSON, empty":      `[]`,
		"the SDN, cut off": `<sdnList><sdnEntry><idList><id><idType>Digital Currency Address - ETH</idType>`,
		"the SDN, unclosed": `<sdnList><id><idType>Digital Currency Address - ETH</idType><idNumber>` + listed.Lower() +
			`</idNumber></id>`,
		"no address of ours": "12QtD5BFwRsdNsAZY76UVE1xyCGNTojH9h\n",
		"a long line":        strings.Repeat("a", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := screening.Parse(strings.NewReader(text)); err == nil || got != nil {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	broken := io.MultiReader(strings.NewReader(listed.Lower()+"\n"), iotest.ErrReader(errors.New("reset")))
	if _, err := screening.Parse(broken); err == nil {
		t.Error("a source that breaks: no error")
	}
}

func TestSourceIsAFileOrHTTPS(t *testing.T) {
	for _, location := range []string{"", "list.txt", "http://example.com/list", "ftp://example.com/list", "https://",
		"https://example.com/list#part", "file:///etc/list"} {
		if _, err := screening.ParseSource(location, outward.Rule{}); err == nil {
			t.Errorf("%q: no error", location)
		}
	}
	s, err := screening.ParseSource("https://user:secret@example.com/list.txt?token=secret", outward.Rule{})
	if err != nil || s.Name() != "https://example.com/list.txt" {
		t.Errorf("%q, %v", s.Name(), err)
	}
	// A key may be a part of the path, and the names of two lists differ.
	names := map[string]bool{}
	for _, key := range []string{"5ec2e70123456789abcd", "5ec2e70123456789abce"} {
		s, err := screening.ParseSource("https://example.com/"+key+"/list.txt", outward.Rule{})
		name := s.Name()
		if err != nil || strings.Contains(name, "5ec2e7") || !strings.HasPrefix(name, "https://example.com/[redacted]/list") {
			t.Errorf("%q, %v", name, err)
		}
		names[name] = true
	}
	if len(names) != 2 {
		t.Errorf("two lists have the names %v", names)
	}
	named := outward.Rule{Plaintext: []string{"lists.internal"}}
	if _, err := screening.ParseSource("http://lists.internal/list.txt", named); err != nil {
		t.Errorf("a host that is named: %v", err)
	}
}

func TestSourceIsReadFromFileAndWeb(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list.txt")
	if err := os.WriteFile(file, []byte(listed.Lower()), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/list", http.StatusFound)
		case "/elsewhere":
			http.Redirect(w, r, "https://example.com/secret?secret", http.StatusFound)
		case "/cut":
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, listed.Lower()+"\n")
		case "/list":
			_, _ = io.WriteString(w, listed.Lower()+"\n")
		default:
			http.Error(w, listed.Lower(), http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	for location, good := range map[string]bool{
		file: true, file + ".gone": false,
		server.URL + "/list": true, server.URL + "/moved": false, server.URL + "/elsewhere": false,
		server.URL + "/cut": false, server.URL + "/gone?token=secret": false,
	} {
		s, err := screening.ParseSource(location, outward.Rule{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Read(t.Context())
		if good != (err == nil) || good != slices.Equal(got, []x402.Address{listed}) {
			t.Errorf("%s: %v, %v", location, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", location, err)
		}
	}
}

// story is a screening with all that it depends on.
type story struct {
	screening.Config
	now     time.Time
	lists   map[string]screening.List
	audited []string
	down    error
	// named is whom the service names, silent its error, and asked how often it was asked.
	named  x402.Address
	silent error
	asked  int
}

func (s *story) ReplaceList(_ context.Context, l screening.List) error {
	s.lists[l.Name] = l
	return s.down
}

func (s *story) LookUp(
	_ context.Context, names []string, payer x402.Address,
) (map[string]screening.Entry, error) {
	all := map[string]screening.Entry{}
	for name, l := range s.lists {
		if slices.Contains(names, name) {
			all[name] = screening.Entry{ReadAt: l.ReadAt, Listed: slices.Contains(l.Addresses, payer)}
		}
	}
	return all, s.down
}

func (s *story) AuditRefusal(_ context.Context, payer x402.Address, by string) error {
	s.audited = append(s.audited, by+" "+payer.Lower())
	return s.down
}

func (s *story) Name() string { return "vendor" }

func (s *story) Sanctioned(_ context.Context, payer x402.Address) (bool, error) {
	s.asked++
	return payer == s.named, s.silent
}

// told is a story with one list in a file that holds an address.
func told(t *testing.T, strict bool) (*story, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "list.txt")
	if err := os.WriteFile(file, []byte(listed.Lower()), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := screening.ParseSource(file, outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	s := &story{now: start, lists: map[string]screening.List{}}
	s.Config = screening.Config{
		Store: s, Lists: []screening.Source{source}, MaxAge: time.Hour, Strict: strict,
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return s.now },
	}
	return s, file
}

// want wants what Screen says of a payer.
func (s *story) want(t *testing.T, payer x402.Address, code fault.Code) {
	t.Helper()
	if err := screening.New(s.Config).Screen(t.Context(), payer); fault.Of(err) != code && (err != nil || code != "") {
		t.Errorf("%s: %v, want %q", payer, err, code)
	}
}

func TestListedPayerIsRefusedAndAudited(t *testing.T) {
	s, file := told(t, true)
	if err := screening.New(s.Config).Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.want(t, other, "")
	s.want(t, listed, fault.PayerNotAccepted)
	if want := []string{file + " " + listed.Lower()}; !slices.Equal(s.audited, want) {
		t.Errorf("audited %q, want %q", s.audited, want)
	}
	s.down = errors.New("the database is down")
	s.want(t, listed, fault.DependencyDown)
}

func TestStaleListClosesSalesWhereItIsStrict(t *testing.T) {
	for strict, code := range map[bool]fault.Code{true: fault.DependencyDown, false: ""} {
		s, file := told(t, strict)
		screens := screening.New(s.Config)
		s.want(t, other, code) // never read
		if err := screens.Ready(t.Context()); (err != nil) != strict {
			t.Errorf("never read, strict %t: ready %v", strict, err)
		}
		if err := screens.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.now = start.Add(time.Hour)
		s.want(t, other, "")
		if err := screens.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		// It cannot be read any more. What is known refuses still, however old it is.
		if err := os.WriteFile(file, []byte("<html>gone"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := screens.Refresh(t.Context()); err == nil {
			t.Error("an unreadable list: no error")
		}
		s.now = start.Add(time.Hour + time.Second)
		s.want(t, other, code)
		s.want(t, listed, fault.PayerNotAccepted)
	}
}

func TestServiceIsAskedNextToTheLists(t *testing.T) {
	s, _ := told(t, true)
	s.Service, s.named = s, other
	if err := screening.New(s.Config).Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.want(t, other, fault.PayerNotAccepted)
	s.want(t, listed, fault.PayerNotAccepted)
	s.want(t, x402.Address{19: 3}, "")
	s.silent = errors.New("no answer")
	s.want(t, other, fault.DependencyDown)
	s.want(t, listed, fault.PayerNotAccepted) // the list knows
	s.Strict = false
	s.want(t, other, "")
	s.Lists = nil
	s.silent = nil
	s.want(t, other, fault.PayerNotAccepted)
}

// TestServiceIsAskedOncePerPayer, however often the payer is screened, and not at all about what is only Known.
func TestServiceIsAskedOncePerPayer(t *testing.T) {
	s, _ := told(t, true)
	s.Lists, s.Service, s.named = nil, s, other
	screens := screening.New(s.Config)
	honest := x402.Address{19: 3}
	screen := func(payer x402.Address, want fault.Code, asked int) {
		t.Helper()
		if err := screens.Screen(t.Context(), payer); fault.Of(err) != want || s.asked != asked {
			t.Errorf("%v after %d questions, want %q after %d", err, s.asked, want, asked)
		}
	}
	err := errors.Join(screens.Known(t.Context(), honest), screens.Known(t.Context(), other))
	if err != nil || s.asked != 0 {
		t.Errorf("%v after %d questions", err, s.asked)
	}
	for range 3 {
		screen(honest, "", 1)
	}
	for range 3 {
		screen(other, fault.PayerNotAccepted, 2)
	}
	if err := screens.Known(t.Context(), other); fault.Of(err) != fault.PayerNotAccepted {
		t.Errorf("%v of whom the service has named", err)
	}
	s.now = start.Add(screening.AnswerFor)
	screen(honest, "", 3)
}

// TestServiceThatRefusesIsToldByReady, until somebody may ask again. One answer opens the sale.
func TestServiceThatRefusesIsToldByReady(t *testing.T) {
	for _, strict := range []bool{true, false} {
		s, _ := told(t, strict)
		s.Lists, s.Service, s.silent = nil, s, errors.New("the quota is used up")
		screens := screening.New(s.Config)
		fails := func(payer byte) {
			if err := screens.Screen(t.Context(), x402.Address{19: payer}); (err != nil) != strict {
				t.Errorf("strict %t: %v", strict, err)
			}
		}
		for n := byte(1); n <= 3; n++ {
			if err := screens.Ready(t.Context()); err != nil {
				t.Errorf("after %d failures: %v", n-1, err)
			}
			fails(n)
		}
		if err := screens.Ready(t.Context()); (err != nil) != strict {
			t.Errorf("strict %t: ready %v", strict, err)
		}
		s.now = s.now.Add(5 * time.Second)
		if err := screens.Ready(t.Context()); err != nil {
			t.Errorf("nobody may ask again: %v", err)
		}
		fails(4)
		if err := screens.Ready(t.Context()); (err != nil) != strict {
			t.Errorf("strict %t, still refused: ready %v", strict, err)
		}
		s.silent = nil
		if err := screens.Screen(t.Context(), other); err != nil {
			t.Error(err)
		}
		if err := screens.Ready(t.Context()); err != nil {
			t.Errorf("it has answered: %v", err)
		}
	}
}

// absent is a service whose caller leaves while it is asked.
type absent struct{ leave context.CancelFunc }

func (absent) Name() string { return "vendor" }
func (a absent) Sanctioned(ctx context.Context, _ x402.Address) (bool, error) {
	a.leave()
	<-ctx.Done()
	return false, ctx.Err()
}

// TestCallerWhoLeavesIsNotLetPass: a payer who was not screened does not pay, also where an outage lets everybody pass,
// and it is no outage.
func TestCallerWhoLeavesIsNotLetPass(t *testing.T) {
	for _, strict := range []bool{true, false} {
		s, _ := told(t, strict)
		if err := screening.New(s.Config).Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		s.Service = absent{leave}
		if err := screening.New(s.Config).Screen(ctx, other); fault.Of(err) != fault.Canceled {
			t.Errorf("strict %t: %v, want that the caller has left", strict, err)
		}
	}
}

func TestRefreshReplacesAList(t *testing.T) {
	s, file := told(t, true)
	screens := screening.New(s.Config)
	for _, want := range [][]x402.Address{{listed}, {listed, other}, {other}} {
		text := make([]string, 0, 2*len(want))
		for _, a := range slices.Backward(want) {
			text = append(text, a.Lower(), strings.ToUpper(a.Lower()))
		}
		if err := os.WriteFile(file, []byte(strings.Join(text, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := screens.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := slices.Collect(maps.Values(s.lists)); len(got) != 1 || !slices.Equal(got[0].Addresses, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
