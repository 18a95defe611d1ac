package sandbox

import (
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/roamcard/roamcard/internal/secret"
)

// front is what every request to a vendor goes through: its key, its latency and its faults.
type front struct {
	apiKey  secret.Text
	latency time.Duration
	log     *slog.Logger
	faults  *faults
	seen    *tally
	closing chan struct{}
}

func newFront(cfg Config, latency time.Duration, closing chan struct{}) *front {
	f := &front{apiKey: cfg.APIKey, latency: latency, log: cfg.Log, faults: &faults{}, seen: newTally(), closing: closing}
	if f.apiKey.IsZero() {
		f.apiKey = secret.New(DevKey)
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	return f
}

// call is one request to the vendor's API, its body read.
type call struct {
	request *http.Request
	body    []byte
	// hide is how long its effect stays out of look-ups.
	hide time.Duration
}

const maxRequest = 64 << 10

// vendor wraps an operation in what every request of the vendor's API goes through.
func (f *front) vendor(op string, do func(call) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// Read to the end first: only then does the server notice that the client has hung up.
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			write(w, answered(nil, &problem{http.StatusBadRequest, codeInvalidRequest, "the body cannot be read"}))
			return
		}
		f.seen.count(op, body)
		if !f.authentic(r) {
			write(w, answered(nil, &problem{http.StatusUnauthorized, codeUnauthorized, "the API key is not valid"}))
			return
		}
		if f.latency > 0 && !f.wait(r, f.latency) {
			return
		}
		bad, faulty := f.faults.take(op)
		f.log.InfoContext(r.Context(), "sandbox request", "op", op, "fault", bad.Mode)
		if !faulty {
			data, err := do(call{request: r, body: body})
			write(w, answered(data, err))
			return
		}
		f.misbehave(w, bad, call{request: r, body: body}, do)
	}
}

func (f *front) authentic(r *http.Request) bool {
	return secret.New(r.Header.Get("Authorization")).Equal(secret.New("Bearer " + f.apiKey.Reveal()))
}

// wait is false when the client or the server went away meanwhile.
func (f *front) wait(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-f.closing:
	}
	return false
}
