package edge

import (
	"io"
	"net/http"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
)

const (
	// smallBody is what every request may have without being counted: more than a purchase has.
	smallBody = 4 << 10
	// BodiesEach and BodiesAll are how many bytes of longer bodies are held at once, for an address and in all. They
	// bound what slow senders hold; whoever sends a small body is never refused for them.
	BodiesEach = 4 << 20
	BodiesAll  = 64 << 20
)

// count counts the bytes of a request's body as they arrive, until the request ends.
func (s *Server) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody || r.ContentLength > 0 && r.ContentLength <= smallBody {
			next.ServeHTTP(w, r)
			return
		}
		body := &countedBody{ReadCloser: r.Body, bytes: &s.bodies, caller: limit.Address(r.Context())}
		body.refuse = func() error {
			s.cfg.Metrics.Limited(r.Context(), "bodies")
			return fault.New(fault.RateLimited, "Too many bytes of requests are under way.").After(limit.Beat)
		}
		defer body.give()
		r.Body = body
		next.ServeHTTP(w, r)
	})
}

// countedBody is a body whose bytes are counted. It is read by one goroutine.
type countedBody struct {
	io.ReadCloser
	bytes      *limit.Bytes
	caller     string
	refuse     func() error
	read, held int64
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if more := b.read - smallBody - b.held; more > 0 {
		if !b.bytes.Take(b.caller, more) {
			return 0, b.refuse()
		}
		b.held += more
	}
	return n, err
}

func (b *countedBody) give() {
	if b.held > 0 {
		b.bytes.Give(b.caller, b.held)
	}
}
