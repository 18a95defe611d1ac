package roamcard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// scripted is a service that answers as it was told, in turn, and after that with an empty message.
type scripted struct {
	*httptest.Server
	mu      sync.Mutex
	answers []http.HandlerFunc
	seen    []*http.Request
}

func script(t *testing.T, answers ...http.HandlerFunc) *scripted {
	t.Helper()
	s := &scripted{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server see that its caller has gone
		if r.Header.Get("X-Hang") != "" {
			<-r.Context().Done()
			return
		}
		s.mu.Lock()
		s.seen = append(s.seen, r)
		answer := says(http.StatusOK, "{}")
		if len(s.answers) > 0 {
			answer, s.answers = s.answers[0], s.answers[1:]
		}
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *scripted) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func (s *scripted) client(t *testing.T, changes ...func(*roamcard.Config)) *roamcard.Client {
	t.Helper()
	cfg := roamcard.Config{BaseURL: s.URL}
	for _, change := range changes {
		change(&cfg)
	}
	c, err := roamcard.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func says(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// cut ends the connection, before the answer or within it.
func cut(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if body != "" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(body))
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}
}

func retries(n int) func(*roamcard.Config) {
	return func(c *roamcard.Config) { c.MaxRetries = &n }
}

func TestReadsAreMadeAgainWhereThatHelps(t *testing.T) {
	t.Parallel()
	busy := says(http.StatusTooManyRequests, "{}", "Retry-After", "0")
	for name, c := range map[string]struct {
		answers []http.HandlerFunc
		sent    int
		fails   bool
	}{
		"network, 429 and 502":   {[]http.HandlerFunc{cut(""), busy, says(http.StatusBadGateway, "<html>")}, 4, false},
		"503, 504 and half":      {[]http.HandlerFunc{says(503, "{}"), says(504, ""), cut(`{"plans": [`)}, 4, false},
		"as often as it was set": {[]http.HandlerFunc{busy, busy, busy, busy}, 4, true},
		"500":                    {[]http.HandlerFunc{says(500, "{}")}, 1, true},
		"404":                    {[]http.HandlerFunc{says(404, "{}")}, 1, true},
		"no JSON":                {[]http.HandlerFunc{says(200, "<html>")}, 1, true},
		"much later":             {[]http.HandlerFunc{says(503, "{}", "Retry-After", "3600")}, 1, true},
		"too long":               {[]http.HandlerFunc{says(200, strings.Repeat(" ", 2<<20))}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := script(t, c.answers...)
			_, err := roamcard.Collect(s.client(t, retries(3)).Plans.List(t.Context(), "", ""))
			if n := len(s.requests()); n != c.sent || (err != nil) != c.fails {
				t.Errorf("%d requests and %v, want %d", n, err, c.sent)
			}
		})
	}
	s := script(t, says(503, "{}"), says(200, `{"contractVersion": 1}`))
	if document, err := s.client(t).Discovery.Agent(t.Context()); err != nil || len(s.requests()) != 2 ||
		!strings.Contains(string(document), "1") {
		t.Errorf("the contract: %s, %v after %d requests", document, err, len(s.requests()))
	}
}

func TestOnlyReadsAreMadeAgain(t *testing.T) {
	t.Parallel()
	s := script(t, says(503, "{}"))
	_, err := s.client(t).Services.Auth.CreateChallenge(t.Context(), &roamcardv1.CreateChallengeRequest{Address: payTo})
	if n := len(s.requests()); n != 1 || !errors.Is(err, roamcard.ErrUnavailable) {
		t.Errorf("%d requests and %v", n, err)
	}
}

func TestCancelledReadIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := script(t, func(http.ResponseWriter, *http.Request) { cancel(); panic(http.ErrAbortHandler) })
	if _, err := s.client(t).Discovery.Card(ctx); err == nil || len(s.requests()) != 1 {
		t.Errorf("%v after %d requests", err, len(s.requests()))
	}
}

func TestCallHasHeadersOfItsOwn(t *testing.T) {
	t.Parallel()
	s := script(t)
	ctx := roamcard.WithHeader(t.Context(), "x-trace", "1")
	for _, name := range []string{"authorization", "PAYMENT-SIGNATURE", "content-type", "connect-protocol-version"} {
		ctx = roamcard.WithHeader(ctx, name, "mine")
	}
	c := s.client(t)
	if _, err := c.Discovery.Card(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Discovery.Agent(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Discovery.Card(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, r := range s.requests() {
		if want := map[bool]string{true: "1"}[i < 2]; r.Header.Get("X-Trace") != want {
			t.Errorf("request %d has the trace %q, want %q", i, r.Header.Get("X-Trace"), want)
		}
		if agent := r.UserAgent(); !strings.HasPrefix(agent, "roamcard-go/"+roamcard.Version+" (go") {
			t.Errorf("request %d is by %q", i, agent)
		}
		for _, name := range []string{"Authorization", "Payment-Signature", "Content-Type", "Connect-Protocol-Version"} {
			if r.Header.Get(name) == "mine" {
				t.Errorf("request %d has the caller's %s", i, name)
			}
		}
	}
}

func TestCallHasATimeoutOfItsOwn(t *testing.T) {
	t.Parallel()
	c := script(t).client(t, retries(0))
	ctx := roamcard.WithTimeout(roamcard.WithHeader(t.Context(), "X-Hang", "1"), 20*time.Millisecond)
	if _, err := c.Discovery.Card(ctx); err == nil {
		t.Error("a call outlasted its timeout")
	}
	if _, err := c.Discovery.Agent(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the contract: %v", err)
	}
	if _, err := c.Discovery.Card(t.Context()); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// A paid call's timeout bounds one answer; then the same bytes go out again.
func TestPaidCallHasATimeoutOfItsOwn(t *testing.T) {
	t.Parallel()
	s := open(t)
	hung := false
	p, signed := payer(t, roamcard.NewMemoryStore())
	next := s.Client().Transport
	p.Next = transport(func(req *http.Request) (*http.Response, error) {
		if req.Header.Get("Payment-Signature") != "" && !hung {
			hung = true
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		return next.RoundTrip(req)
	})
	req, err := http.NewRequestWithContext(roamcard.WithTimeout(t.Context(), 500*time.Millisecond), http.MethodPost,
		s.URL+roamcard.OpCard, strings.NewReader(`{"idempotencyKey":"k"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := p.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusOK || signed.n != 1 || !hung {
		t.Errorf("%v, %v, %d signed", res, err, signed.n)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestListsHavePages(t *testing.T) {
	t.Parallel()
	first, last := says(200, `{"findings": [{"code": "a"}], "nextPageToken": "two"}`),
		says(200, `{"findings": [{"code": "b"}]}`)
	s := script(t, first, last, first, last)
	c := s.client(t)
	for _, req := range []*roamcardv1.ListFindingsRequest{{Status: proto.String("open")}, nil} {
		if all, err := roamcard.Collect(c.Admin().Findings(t.Context(), req)); err != nil || len(all) != 2 {
			t.Errorf("%d findings, %v", len(all), err)
		}
	}
}

func TestComparisonsHavePages(t *testing.T) {
	t.Parallel()
	s := script(t, says(200, `{"reconciliations": [{"id": "2", "outcome": "failed", "unread": "chain"}],
		"nextPageToken": "2"}`), says(200, `{"reconciliations": [{"id": "1", "outcome": "failed", "opened": 3}]}`))
	all, err := roamcard.Collect(s.client(t).Admin().Reconciliations(t.Context(),
		&roamcardv1.ListReconciliationsRequest{Outcome: proto.String("failed")}))
	if err != nil || len(all) != 2 || all[0].GetUnread() != "chain" || all[1].GetOpened() != 3 {
		t.Errorf("%v, %v", all, err)
	}
}

type showsCode struct{ shown *string }

func (s showsCode) PresentESIM(_ context.Context, e roamcard.ESIM) (roamcard.Presented, error) {
	*s.shown = e.LPA.Reveal()
	return roamcard.Presented{}, nil
}

// TestActivationCodeMayNameItsServer: the server's object identifier is an optional part of the code.
func TestActivationCodeMayNameItsServer(t *testing.T) {
	t.Parallel()
	const answer = `{"credentials": {"lpa": %q, "smdpAddress": "a.example", "matchingId": "X-1", "iccid": "89", ` +
		`"qrPng": "data:image/png;base64,AA=="}}`
	ctx := roamcard.WithDeliveryToken(t.Context(), roamcard.NewSecret("token"))
	for _, code := range []string{"LPA:1$a.example$X-1", "LPA:1$a.example$X-1$1.3.6.1.4.1.31746"} {
		var shown string
		s := script(t, says(http.StatusOK, fmt.Sprintf(answer, code)))
		if _, err := s.client(t).ESIM.Install(ctx, "ord_1", showsCode{&shown}); err != nil || shown != code {
			t.Errorf("%s is shown as %q, %v", code, shown, err)
		}
	}
	for _, code := range []string{"LPA:1$a.example$X-1$", "LPA:1$a.example$X-1$1.3$1", "LPA:1$a.example$X-1$x"} {
		s := script(t, says(http.StatusOK, fmt.Sprintf(answer, code)))
		if _, err := s.client(t).ESIM.Install(ctx, "ord_1", showsNothing{t}); err == nil {
			t.Errorf("%s is an eSIM", code)
		}
	}
}

type showsNothing struct{ t *testing.T }

func (s showsNothing) PresentESIM(context.Context, roamcard.ESIM) (roamcard.Presented, error) {
	s.t.Error("it was shown")
	return roamcard.Presented{}, nil
}

func TestWhatATerminalWouldObeyIsNoESIM(t *testing.T) {
	t.Parallel()
	const code = `{"credentials": {"lpa": "LPA:1$a.example$%[1]s", "smdpAddress": "a.example", "matchingId": "%[1]s", ` +
		`"iccid": "%[2]s", "qrPng": "data:image/png;base64,AA=="}}`
	ctx := roamcard.WithDeliveryToken(t.Context(), roamcard.NewSecret("token"))
	for _, of := range [][2]string{{`X\u001b[2J`, "89"}, {"X", `89\u202e`}, {"X Y", "89"}} {
		s := script(t, says(http.StatusOK, fmt.Sprintf(code, of[0], of[1])))
		if _, err := s.client(t).ESIM.Install(ctx, "ord_1", showsNothing{t}); err == nil ||
			err.Error() != "what came is not an eSIM" {
			t.Errorf("%v: %v", of, err)
		}
	}
}
