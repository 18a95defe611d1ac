package esimaccess_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimaccess/esimaccessfake"
	"github.com/roamcard/roamcard/internal/secret"
)

// direct calls a vendor without a network, so that it works in a bubble of time.
type direct struct {
	http.Handler

	mu      sync.Mutex
	arrived []time.Time
	ids     []string
}

func (d *direct) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	d.arrived = append(d.arrived, time.Now())
	d.ids = append(d.ids, r.Header.Get("RT-RequestID"))
	d.mu.Unlock()
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// inBubble dials a vendor that is called directly.
func inBubble(t *testing.T, d *direct, perSecond int) *esimaccess.Supplier {
	t.Helper()
	s, err := esimaccess.Dial(esimaccess.Config{
		URL: "https://esimaccess.example", HTTP: &http.Client{Transport: d}, PerSecond: perSecond,
		AccessCode: secret.New(esimaccessfake.DevAccessCode), Secret: secret.New(esimaccessfake.DevSecret),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNoSecondHasMoreRequestsThanTheVendorTakes(t *testing.T) {
	for _, c := range []struct{ perSecond, limit int }{{0, 8}, {3, 3}} {
		synctest.Test(t, func(t *testing.T) {
			d := &direct{Handler: esimaccessfake.New(esimaccessfake.Config{})}
			s := inBubble(t, d, c.perSecond)
			var called sync.WaitGroup
			for range 10 {
				called.Go(func() {
					if _, err := s.Order(t.Context(), request(france)); err != nil {
						t.Errorf("Order: %v", err)
					}
				})
			}
			called.Wait()
			if len(d.arrived) != 20 {
				t.Fatalf("%d requests for 10 orders and their prices", len(d.arrived))
			}
			for i := c.limit; i < len(d.arrived); i++ {
				if d.arrived[i].Sub(d.arrived[i-c.limit]) < time.Second {
					t.Errorf("requests %d to %d arrived within %s", i-c.limit, i, d.arrived[i].Sub(d.arrived[i-c.limit]))
				}
			}
			// The rate is used: nothing waits for longer than it has to.
			if took := d.arrived[19].Sub(d.arrived[0]); took > 19*time.Second/time.Duration(c.limit)+time.Millisecond {
				t.Errorf("20 requests took %s", took)
			}
		})
	}
}

// A call that would have to wait for longer than it may is not sent.
func TestCallWithoutTimeIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &direct{Handler: esimaccessfake.New(esimaccessfake.Config{})}
		s := inBubble(t, d, 1)
		if _, err := s.Listings(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err := s.Ordered(ctx, fulfilmenttest.NewRef())
		fulfilmenttest.Handles{}.WantUnknown(t, err)
		if len(d.arrived) != 1 {
			t.Errorf("%d requests arrived", len(d.arrived))
		}
	})
}

func TestEveryRequestHasAnIDOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &direct{Handler: esimaccessfake.New(esimaccessfake.Config{})}
		s := inBubble(t, d, 0)
		for range 4 {
			if _, err := s.Check(t.Context(), france); err != nil {
				t.Fatal(err)
			}
		}
		seen := map[string]bool{}
		for _, id := range d.ids {
			if parsed, err := uuid.Parse(id); err != nil || parsed.Version() != 4 || seen[id] {
				t.Errorf("%q is no id, or one again", id)
			}
			seen[id] = true
		}
	})
}

func TestDeadlineIsTheCallers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := scripted(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client has gone
		cancel()
		<-r.Context().Done()
	})
	if _, err := s.Check(ctx, france); !errors.Is(err, context.Canceled) {
		t.Errorf("Check = %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := inBubble(t, &direct{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Error("the request arrived")
		})}, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		<-ctx.Done()
		if _, err := s.Check(ctx, france); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Check after its deadline = %v", err)
		}
	})
}

// The vendor quotes credentials and activation data wherever it can.
func TestSecretsStayOutOfErrorsLogsAndSpans(t *testing.T) {
	const ac, iccid = "LPA:1$rsp.example.com$C5F541D4E3174EA38A74", "8910300000044404757"
	const accessCode, key = "access-code-of-the-test", "secret-of-the-test"
	secrets := []string{"C5F541D4E3174EA38A74", iccid, accessCode, key}
	quoted := fmt.Sprintf("%s %s %s", ac, iccid, strings.ReplaceAll(ac, "$", " "))
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	var out bytes.Buffer
	for _, c := range []struct {
		status int
		body   string
	}{
		{200, `{"success":true,"errorCode":"0","obj":{"orderNo":"` + quoted + `","pager":{"total":1},"esimList":["` + quoted +
			`"]}}`},
		{200, `{"success":true,"errorCode":"` + quoted + `","obj":{}}`},
		{200, `{"success":"` + quoted + `"}`},
		{200, `{"success":false,"errorCode":"900001","errorMsg":"` + quoted + `"}`},
		{200, `{"success":false,"errorCode":"200011","errorMsg":"` + quoted + `"}`},
		{200, `{"success":false,"errorCode":"200002","errorMsg":"` + quoted + `"}`},
		{200, quoted},
		{500, quoted},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		s, err := esimaccess.Dial(esimaccess.Config{
			URL: web.URL, HTTP: web.Client(), Tracer: tracer, PerSecond: 10_000, AccessCode: secret.New(accessCode),
			Secret: secret.New(key),
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, call := range map[string]func() error{
			"check":   func() error { _, err := s.Check(t.Context(), france); return err },
			"order":   func() error { _, err := s.Order(t.Context(), request(france)); return err },
			"ordered": func() error { _, err := s.Ordered(t.Context(), fulfilmenttest.NewRef()); return err },
			"cancel":  func() error { return cancelled(t, s, "231") },
		} {
			err := call()
			if err == nil {
				t.Errorf("%s took %s", name, c.body)
			}
			slog.New(slog.NewJSONHandler(&out, nil)).Error(name, "err", err)
			fmt.Fprintf(&out, "%v %+v %#v %+v\n", err, err, err, s.Traits())
		}
		web.Close()
	}
	ended := spans.Ended()
	if len(ended) == 0 {
		t.Error("no call has a span")
	}
	for _, span := range ended {
		fmt.Fprintf(&out, "%s %v %v %v\n", span.Name(), span.Attributes(), span.Status(), span.Events())
	}
	for _, hidden := range secrets {
		if strings.Contains(out.String(), hidden) {
			t.Errorf("%q shows in %s", hidden, out.String())
		}
	}
}

func TestVendorsTimestampIsOurClock(t *testing.T) {
	b := start(t, esimaccessfake.Config{})
	fast, err := esimaccess.Dial(esimaccess.Config{
		URL: b.web.URL, HTTP: b.web.Client(), AccessCode: secret.New(esimaccessfake.DevAccessCode),
		Secret: secret.New(esimaccessfake.DevSecret), Now: func() time.Time { return b.clock.now().Add(10 * time.Minute) },
	})
	if err != nil {
		t.Fatal(err)
	}
	// A clock that is wrong concerns every order: it refuses none.
	_, err = fast.Listings(t.Context())
	if err == nil || !strings.Contains(err.Error(), "101001") {
		t.Errorf("Listings with a wrong clock = %v", err)
	}
	_, err = fast.Ordered(t.Context(), fulfilmenttest.NewRef())
	if err == nil || errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("Ordered with a wrong clock = %v", err)
	}
}
