package vendorfake_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/vendorfake"
)

// shop is a vendor of one operation that counts up, and of another that lists what was counted.
type shop struct {
	*vendorfake.Front
	url  string
	made int
	hid  bool
}

func open(t *testing.T) *shop {
	t.Helper()
	s := &shop{}
	s.Front = vendorfake.New(vendorfake.Vendor{
		Ops: []string{"make", "list"},
		Authenticate: func(c vendorfake.Call) (vendorfake.Reply, bool) {
			return vendorfake.Text(http.StatusUnauthorized, "who?"), c.Header.Get("Key") != "k"
		},
		Reference: func(body []byte) string { return string(body) },
		Modes: map[vendorfake.Mode][]string{
			vendorfake.WrongAmount: {"make"}, vendorfake.WrongCurrency: nil, vendorfake.Reordered: {"list"},
			vendorfake.Repeated: {"list"}, vendorfake.Duplicate: {"list"}, vendorfake.Contradiction: {"list"},
			vendorfake.Late: {"make"},
		},
		Refuse: func(f vendorfake.Fault, _ *http.Request) (vendorfake.Reply, bool) {
			status, ok := map[vendorfake.Mode]int{
				vendorfake.ErrorBefore: 503, vendorfake.RateLimited: 429, vendorfake.Unauthorized: 401,
			}[f.Mode]
			return vendorfake.JSON(status, nil), ok
		},
		Failed:  func(text string) vendorfake.Reply { return vendorfake.Text(http.StatusBadGateway, text) },
		Conceal: func() { s.hid = true },
		Huge:    1000,
		Lists:   []string{"all"},
		Edit: func(mode vendorfake.Mode, one map[string]any) {
			vendorfake.Change(one, mode, "cents", "absent")
			vendorfake.Replace(one, "EUR", "currency", "absent")
		},
	})
	t.Cleanup(s.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /made", s.Serve(vendorfake.Always("make"), func(vendorfake.Call) vendorfake.Reply {
		s.made++
		return vendorfake.JSON(http.StatusOK, map[string]any{"cents": s.made, "currency": "USD"})
	}))
	mux.HandleFunc("GET /made", s.Serve(vendorfake.Always("list"), func(vendorfake.Call) vendorfake.Reply {
		all := []any{}
		for n := range s.made {
			all = append(all, map[string]any{"cents": n + 1, "currency": "USD"})
		}
		return vendorfake.JSON(http.StatusOK, map[string]any{"all": all, "currency": "USD"})
	}))
	s.Control(mux, "/control/", func() (any, error) { return map[string]int{"made": s.made}, nil })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// ask sends a request; -1 is a connection that broke before the answer was there.
func (s *shop) ask(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Key", "k")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return -1, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return -1, err.Error()
	}
	return res.StatusCode, string(answer)
}

// TestEachModeDoesWhatItSays spoils one request by each mode, and looks at the answer and at its effect.
func TestEachModeDoesWhatItSays(t *testing.T) {
	const right = `{"cents":3,"currency":"USD"}`
	for mode, want := range map[vendorfake.Mode]struct {
		status int
		answer string
		made   int
	}{
		vendorfake.ErrorBefore:   {503, "null", 2},
		vendorfake.RateLimited:   {429, "null", 2},
		vendorfake.Unauthorized:  {401, "null", 2},
		vendorfake.TimeoutBefore: {-1, "", 2},
		vendorfake.Hang:          {-1, "", 2},
		vendorfake.TimeoutAfter:  {-1, "", 3},
		vendorfake.Late:          {-1, "", 3},
		vendorfake.Truncated:     {-1, "", 3},
		vendorfake.ErrorAfter:    {502, "while answering " + right + "\n", 3},
		vendorfake.Malformed:     {200, "<html><body>" + right + "</body></html>", 3},
		vendorfake.Huge:          {200, strings.Repeat(" ", 1000) + right, 3},
		vendorfake.Slow:          {200, right, 3},
		vendorfake.WrongAmount:   {200, `{"cents":4,"currency":"EUR"}`, 3},
		vendorfake.WrongCurrency: {200, `{"cents":3,"currency":"EUR"}`, 3},
	} {
		t.Run(string(mode), func(t *testing.T) {
			s := open(t)
			s.made = 2
			if !s.Fault("make", mode) || !slices.Contains(s.Modes("make"), mode) {
				t.Fatal("it cannot go wrong so")
			}
			status, answer := s.ask(t, http.MethodPost, "/made", "ref")
			if status != want.status || status != -1 && answer != want.answer || s.made != want.made {
				t.Errorf("%d %s, %d are made", status, answer, s.made)
			}
			if s.hid != (mode == vendorfake.Late) {
				t.Error("concealed:", s.hid)
			}
			if status, answer = s.ask(t, http.MethodPost, "/made", ""); status != http.StatusOK {
				t.Errorf("the next one: %d %s", status, answer)
			}
			if s.Requests()["make"] != 2 || len(s.Sent()) != 1 || s.Sent()["ref"] != 1 {
				t.Errorf("%v arrived, %v", s.Requests(), s.Sent())
			}
		})
	}
}

func TestListsGoWrongAsWholes(t *testing.T) {
	for mode, want := range map[vendorfake.Mode]string{
		vendorfake.WrongCurrency: `[1 EUR] [2 EUR]`,
		vendorfake.Reordered:     `[2 USD] [1 USD]`,
		vendorfake.Repeated:      `[1 USD] [1 USD] [2 USD] [2 USD]`,
		vendorfake.Duplicate:     `[1 USD] [2 USD] [1 USD] [2 USD]`,
		vendorfake.Contradiction: `[1 USD] [2 USD] [1 EUR] [2 EUR]`,
	} {
		s := open(t)
		s.made = 2
		if !s.Fault("list", mode) {
			t.Fatal(mode, "does not fit a list")
		}
		_, answer := s.ask(t, http.MethodGet, "/made", "")
		var got struct {
			All []struct {
				Cents    json.Number
				Currency string
			}
			Currency string
		}
		if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Currency != "USD" {
			t.Fatal(err, answer)
		}
		var all []string
		for _, one := range got.All {
			all = append(all, "["+one.Cents.String()+" "+one.Currency+"]")
		}
		if said := strings.Join(all, " "); said != want {
			t.Errorf("%s: %s, want %s", mode, said, want)
		}
	}
}

// TestControlAPIOrdersFaults orders, shows and clears them as a developer does.
func TestControlAPIOrdersFaults(t *testing.T) {
	s := open(t)
	order := func(body string) (int, string) { return s.ask(t, http.MethodPost, "/control/faults", body) }
	failures := func() (n int) {
		for range 4 {
			if status, _ := s.ask(t, http.MethodGet, "/made", ""); status != http.StatusOK {
				n++
			}
		}
		return n
	}
	for body, want := range map[string]int{
		`{"op":"list","mode":"error_before"}`:               1,
		`{"op":"*","mode":"error_before","times":2}`:        2,
		`{"op":"list","mode":"error_before","times":0}`:     4,
		`{"op":"make","mode":"error_before","times":0}`:     0,
		`{"op":"list","mode":"slow","delayMs":1,"times":9}`: 0,
	} {
		if status, answer := order(body); status != http.StatusOK {
			t.Fatal(status, answer)
		}
		if n := failures(); n != want {
			t.Errorf("%s: %d of 4 fail, want %d", body, n, want)
		}
		s.ask(t, http.MethodDelete, "/control/faults", "")
		if n := failures(); n != 0 {
			t.Errorf("%s: cleared, %d of 4 fail", body, n)
		}
	}
	for _, body := range []string{
		`{"op":"list","mode":"wrong_amount"}`, `{"op":"nothing","mode":"slow"}`, `{"op":"list","mode":"nonsense"}`,
		`{"op":"list","mode":"slow","times":-1}`, `{"op":"list","mode":"slow","delayMs":-1}`, `{"op":"list","moda":"slow"}`,
		`{"op":"list","mode":"slow"}{}`, ``,
	} {
		if status, answer := order(body); status != http.StatusBadRequest || !strings.Contains(answer, "fault") {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if _, answer := order(`{"op":"list","mode":"wrong_amount"}`); !strings.Contains(answer, "duplicate") ||
		strings.Contains(answer, "late") {
		t.Error("the refusal does not say what can go wrong:", answer)
	}
	_, answer := s.ask(t, http.MethodGet, "/control/faults", "")
	var said struct {
		Faults []vendorfake.Fault
		Modes  map[string][]vendorfake.Mode
	}
	if err := json.Unmarshal([]byte(answer), &said); err != nil || len(said.Faults) != 0 || len(said.Modes) != 2 ||
		!slices.Contains(said.Modes["list"], vendorfake.Duplicate) ||
		slices.Contains(said.Modes["make"], vendorfake.Duplicate) {
		t.Error("faults:", err, answer)
	}
	if _, answer := s.ask(t, http.MethodGet, "/control/books", ""); answer != `{"made":0}` {
		t.Error("books:", answer)
	}
}

type absent struct{ error }

func (absent) HTTPStatus() int { return http.StatusNotFound }

func TestControlAPIIsForThisMachine(t *testing.T) {
	handler := vendorfake.Local(func(c vendorfake.Call) (any, error) {
		switch string(c.Body) {
		case "x":
			return nil, absent{errors.New("no such thing")}
		case "full":
			return nil, errors.New("the disk is full")
		}
		return "here", nil
	})
	for _, c := range []struct {
		from, body string
		status     int
		answer     string
	}{
		{"127.0.0.1:4000", "", 200, `"here"`}, {"[::1]:4000", "", 200, `"here"`},
		{"127.0.0.1:4000", "x", 404, `{"error":"no such thing"}`},
		{"127.0.0.1:4000", "full", 500, `{"error":"the disk is full"}`},
		{"192.0.2.7:4000", "", 403, `{"error":"the control API answers this machine only"}`},
		{"nobody", "", 403, `{"error":"the control API answers this machine only"}`},
	} {
		r := httptest.NewRequest(http.MethodPost, "/control/x", bytes.NewReader([]byte(c.body)))
		r.RemoteAddr = c.from
		w := httptest.NewRecorder()
		handler(w, r)
		if w.Code != c.status || w.Body.String() != c.answer {
			t.Errorf("from %s: %d %s", c.from, w.Code, w.Body)
		}
	}
}

// TestCloseReleasesWhatIsHeld holds a request for longer than any test, and closes.
func TestCloseReleasesWhatIsHeld(t *testing.T) {
	s := open(t)
	s.Add(vendorfake.Fault{Op: "make", Mode: vendorfake.TimeoutBefore, DelayMS: time.Hour.Milliseconds(), Times: 1})
	answered := make(chan int)
	go func() {
		status, _ := s.ask(t, http.MethodPost, "/made", "")
		answered <- status
	}()
	for s.Requests()["make"] == 0 {
		time.Sleep(time.Millisecond) // clock: until it has arrived
	}
	s.Close()
	if status := <-answered; status != -1 || s.made != 0 {
		t.Errorf("%d, %d made", status, s.made)
	}
}
