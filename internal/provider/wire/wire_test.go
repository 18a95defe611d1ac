package wire_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// read takes any answer for a success.
func read(into *string) wire.Reader {
	return func(a wire.Answer) (bool, error) {
		*into = string(a.Body)
		return true, nil
	}
}

// against is a client of a vendor that answers everything in one way.
func against(t *testing.T, cfg wire.Config, answer http.HandlerFunc) *wire.Client {
	t.Helper()
	web := httptest.NewServer(answer)
	t.Cleanup(web.Close)
	base, err := outward.Rule{}.Origin(web.URL + "/api")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Provider, cfg.Role, cfg.Base = "acme", "issuer", base
	return wire.New(cfg)
}

func TestRequestIsSentAsItIs(t *testing.T) {
	var seen *http.Request
	var body string
	c := against(t, wire.Config{Authorize: func(h http.Header, body []byte) {
		h.Set("Authorization", "key for "+string(body))
	}}, func(_ http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		seen, body = r, string(all)
	})
	var got string
	err := c.Send(t.Context(), wire.Request{
		Op: "open", Method: http.MethodPost, Path: []string{"cards", "a/../b?c"}, Query: url.Values{"page": {"1 2"}},
		Header: http.Header{"Idempotency-Key": {"k"}}, Body: map[string]int{"amount": 1},
	}, read(&got))
	if err != nil {
		t.Fatal(err)
	}
	if uri := seen.URL.EscapedPath() + "?" + seen.URL.RawQuery; uri != "/api/cards/a%2F..%2Fb%3Fc?page=1+2" {
		t.Errorf("sent to %s", uri)
	}
	for name, want := range map[string]string{
		"Accept": "application/json", "Content-Type": "application/json", "Idempotency-Key": "k",
		"Authorization": `key for {"amount":1}`,
	} {
		if seen.Header.Get(name) != want {
			t.Errorf("%s is %q", name, seen.Header.Get(name))
		}
	}
	if body != `{"amount":1}` {
		t.Errorf("the body is %s", body)
	}
	err = c.Send(t.Context(), wire.Request{Op: "read", Method: http.MethodGet, Path: []string{"cards"}}, read(&got))
	if err != nil || body != "" || seen.Header.Get("Content-Type") != "" {
		t.Errorf("a request without a body has %q, %q: %v", body, seen.Header.Get("Content-Type"), err)
	}
}

// TestBrokenRoundTripsAreUnknown: nothing of them reaches the reader, nor is any repeated.
func TestBrokenRoundTripsAreUnknown(t *testing.T) {
	const answer = `{"number":"4000001234567899"}`
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		most   int64
	}{
		"no answer": {answer: func(w http.ResponseWriter, _ *http.Request) { vendorfake.HangUp(w) }},
		"half":      {answer: func(w http.ResponseWriter, _ *http.Request) { vendorfake.Half(w, []byte(answer)) }},
		"huge":      {answer: func(w http.ResponseWriter, _ *http.Request) { vendorfake.Padded(w, []byte(answer), 1<<20) }},
		"too long":  {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }, most: 28},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			client := against(t, wire.Config{}, func(w http.ResponseWriter, r *http.Request) {
				asked++
				c.answer(w, r)
			})
			for _, confidential := range []bool{false, true} {
				asked = 0
				err := client.Send(t.Context(), wire.Request{
					Op: "read", Method: http.MethodGet, Path: []string{"cards", "secret-name"}, Most: c.most,
					Confidential: confidential,
				}, func(wire.Answer) (bool, error) {
					t.Error("the reader was asked")
					return true, nil
				})
				if err == nil || asked != 1 {
					t.Errorf("%v after %d requests", err, asked)
				}
				if no, refused := errors.AsType[*fulfilment.Refusal](err); refused {
					t.Errorf("it is refused: %v", no)
				}
				if err != nil && (strings.Contains(err.Error(), "4000") || strings.Contains(err.Error(), "secret-name")) {
					t.Errorf("the error quotes the answer or the address: %v", err)
				}
			}
		})
	}
}

// TestCallerWhoLeavesIsNoOutage: what the vendor would have answered is unknown, and nobody says that it is down.
func TestCallerWhoLeavesIsNoOutage(t *testing.T) {
	asked := make(chan struct{})
	client := against(t, wire.Config{}, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-asked
		leave()
	}()
	var got string
	err := client.Send(ctx, wire.Request{Op: "read", Method: http.MethodGet}, read(&got))
	if _, refused := errors.AsType[*fulfilment.Refusal](err); refused || fault.Of(err) != fault.Canceled {
		t.Errorf("%v, want that the caller has left", err)
	}
	client = against(t, wire.Config{Timeout: time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	})
	err = client.Send(t.Context(), wire.Request{Op: "read", Method: http.MethodGet}, read(&got))
	if code := fault.Of(err); err == nil || code == fault.Canceled || code == fault.DeadlineExceeded {
		t.Errorf("%v, and the caller has not left", err)
	}
}

// TestConfidentialBreaksAreToldInOurWords: a transport may quote what it read.
func TestConfidentialBreaksAreToldInOurWords(t *testing.T) {
	const quoted = "malformed: 4000001234567899"
	for _, c := range []struct {
		confidential bool
		broken, want error
		text         string
	}{
		{false, errors.New(quoted), nil, quoted},
		{true, errors.New(quoted), nil, "no answer: the connection broke"},
		{true, context.DeadlineExceeded, context.DeadlineExceeded, "no answer: context deadline exceeded"},
		{true, io.ErrUnexpectedEOF, io.ErrUnexpectedEOF, "no answer: unexpected EOF"},
	} {
		client := against(t, wire.Config{HTTP: &http.Client{Transport: broken{c.broken}}}, nil)
		var got string
		err := client.Send(t.Context(), wire.Request{
			Op: "read", Method: http.MethodGet, Confidential: c.confidential,
		}, read(&got))
		if err == nil || !strings.Contains(err.Error(), c.text) || (c.want != nil && !errors.Is(err, c.want)) {
			t.Errorf("confidential %t: %v, want %s", c.confidential, err, c.text)
		}
	}
}

type broken struct{ err error }

func (b broken) RoundTrip(*http.Request) (*http.Response, error) { return nil, b.err }

func TestRedirectsAreNotFollowed(t *testing.T) {
	followed := false
	client := against(t, wire.Config{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			followed = true
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	err := client.Send(t.Context(), wire.Request{Op: "read", Method: http.MethodGet},
		func(a wire.Answer) (bool, error) {
			if a.Status != http.StatusTemporaryRedirect || a.Header.Get("Location") != "/elsewhere" {
				t.Errorf("status %d to %q", a.Status, a.Header.Get("Location"))
			}
			return false, wire.Undocumented
		})
	if !errors.Is(err, wire.Undocumented) || followed {
		t.Errorf("%v, followed %t", err, followed)
	}
}

// A request that would have to wait for longer than it may is not sent.
func TestRequestWithoutTimeIsNotSent(t *testing.T) {
	client := against(t, wire.Config{Quota: limit.NewQuota(1), Timeout: time.Second},
		func(http.ResponseWriter, *http.Request) {})
	var got string
	if err := client.Send(t.Context(), wire.Request{Op: "read", Method: http.MethodGet}, read(&got)); err != nil {
		t.Fatal(err)
	}
	err := client.Send(t.Context(), wire.Request{Op: "read", Method: http.MethodGet}, func(wire.Answer) (bool, error) {
		t.Error("it was sent")
		return true, nil
	})
	if err == nil || !strings.HasPrefix(err.Error(), "wait for the rate limit: ") {
		t.Errorf("sent beyond the rate: %v", err)
	}
}

func TestSpansTellRefusedFromUnknown(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	client := against(t, wire.Config{Tracer: tracer}, func(http.ResponseWriter, *http.Request) {})
	refusal := &fulfilment.Refusal{Code: "sold_out", Message: "none"}
	for _, answer := range []struct {
		settled bool
		err     error
	}{{true, nil}, {true, refusal}, {true, errors.New("not there")}, {false, wire.Undocumented}} {
		err := client.Send(t.Context(), wire.Request{
			Op: "read", Method: http.MethodGet, Path: []string{"cards", "7"}, Route: "/cards/{id}",
		}, func(wire.Answer) (bool, error) { return answer.settled, answer.err })
		if !errors.Is(err, answer.err) {
			t.Errorf("Send = %v, want %v", err, answer.err)
		}
	}
	ended := spans.Ended()
	if len(ended) != 4 {
		t.Fatalf("%d spans", len(ended))
	}
	for n, want := range []otelcodes.Code{otelcodes.Unset, otelcodes.Unset, otelcodes.Unset, otelcodes.Error} {
		said := attribute.NewSet(ended[n].Attributes()...)
		refused, _ := said.Value("issuer.refusal")
		template, _ := said.Value("url.template")
		if ended[n].Name() != "issuer read" || ended[n].Status().Code != want || template.AsString() != "/cards/{id}" ||
			(refused.AsString() == "sold_out") != (n == 1) {
			t.Errorf("span %d: %s %v %v", n, ended[n].Name(), ended[n].Status(), ended[n].Attributes())
		}
	}
}
