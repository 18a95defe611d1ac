package edge

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/roamcard/roamcard/gen/go/roamcard/v1/roamcardv1connect"
	"github.com/roamcard/roamcard/internal/fault"
)

// held is a body of which some arrives, and the rest when it is let go on.
type held struct {
	*bytes.Reader
	once    sync.Once
	arrived chan<- struct{}
	goOn    <-chan struct{}
}

// Read implements io.Reader.
func (h *held) Read(p []byte) (int, error) {
	if n, err := h.Reader.Read(p); err == nil {
		return n, nil
	}
	h.once.Do(func() { h.arrived <- struct{}{} })
	<-h.goOn
	return 0, io.EOF
}

// padded asks for a card's balance, with spaces to so many bytes.
func padded(size int) []byte {
	text := `{"id":"018f3c1e-7b1a-7c3e-8f00-1234567890ab"}`
	return []byte(text + strings.Repeat(" ", max(0, size-len(text))))
}

// TestProceduresHaveTheLimitsOfTheirRoutes: of a purchase more is read by no protocol.
func TestProceduresHaveTheLimitsOfTheirRoutes(t *testing.T) {
	e := start(t, &shop{}, nil)
	for _, path := range []string{"/api/card/purchase", roamcardv1connect.CardServicePurchaseCardProcedure} {
		for size, status := range map[int]int{4096: http.StatusOK, 4097: http.StatusRequestEntityTooLarge} {
			body := `{"idempotencyKey":"k"}`
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body+strings.Repeat(" ", size-len(body))))
			r.Host = e.addr
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			e.Handler().ServeHTTP(w, r)
			if w.Code != status {
				t.Errorf("%s, %d bytes: %d %s, want %d", path, size, w.Code, w.Body, status)
			}
		}
	}
}

// TestBodiesThatAreHeldAreBounded, by address and in all, and whoever sends a small one is served meanwhile.
func TestBodiesThatAreHeldAreBounded(t *testing.T) {
	e := start(t, &shop{}, nil)
	e.bodies.Each, e.bodies.All = 16<<10, 24<<10
	post := func(from int, body io.Reader) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, roamcardv1connect.CardServiceGetCardBalanceProcedure, body)
		r.ContentLength = -1
		r.Host = e.addr
		r.RemoteAddr = fmt.Sprintf("203.0.113.%d:1", from)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer x")
		w := httptest.NewRecorder()
		e.Handler().ServeHTTP(w, r)
		return w
	}
	arrived, goOn := make(chan struct{}), make(chan struct{})
	var waiting sync.WaitGroup
	for from := range 2 {
		ended := make(chan struct{})
		waiting.Go(func() {
			defer close(ended)
			w := post(from, &held{Reader: bytes.NewReader(padded(14 << 10)), arrived: arrived, goOn: goOn})
			if w.Code != http.StatusOK {
				t.Errorf("a body that is held, from %d: %d %s", from, w.Code, w.Body)
			}
		})
		select {
		case <-arrived:
		case <-ended:
		}
	}
	if got := e.bodies.Held(); got != 20<<10 {
		t.Errorf("%d bytes are held", got)
	}
	for from, why := range map[int]string{1: "another of the same address", 7: "one more of all"} {
		w := post(from, bytes.NewReader(padded(14<<10)))
		if w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), string(fault.RateLimited)) ||
			w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d %s, %v", why, w.Code, w.Body, w.Header())
		}
	}
	if w := post(1, bytes.NewReader(padded(0))); w.Code != http.StatusOK {
		t.Errorf("a small body meanwhile: %d %s", w.Code, w.Body)
	}
	close(goOn)
	waiting.Wait()
	if got := e.bodies.Held(); got != 0 {
		t.Errorf("%d bytes are held by nobody", got)
	}
	if w := post(1, bytes.NewReader(padded(14<<10))); w.Code != http.StatusOK {
		t.Errorf("after it: %d %s", w.Code, w.Body)
	}
}
