package edge

import (
	"context"
	"maps"
	"net/http"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
)

// throttle counts requests by address and what their answers weigh, and refuses those over the address's rate or over
// its number of concurrent requests; one that is refused too often loses its connections. A request with a payment is
// counted as an unpaid one and continues, see limit.Presume: whether the payment is valid, or repeats a paid request,
// which is never refused, is known only later.
func (s *Server) throttle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address := limit.Address(r.Context())
		refuse := func(f *fault.Fault) {
			if s.conns.refused(r.Context()) {
				w.Header().Set("Connection", "close") // ends one of HTTP/2, too
			}
			s.refuse(w, r, f)
		}
		leave, err := s.enter(address)
		if f, refused := fault.As(err); refused {
			refuse(f)
			return
		}
		defer leave()
		class := s.rate(r.Pattern)
		if class == limit.Unpaid && pays(r) {
			ctx := s.cfg.Limits.Presume(r.Context())
			defer limit.Answered(ctx)
			next.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		if f := s.take(w.Header(), class, address); f != nil {
			refuse(f)
			return
		}
		answer := &weighed{ResponseWriter: w, server: s, request: r, class: class, address: address}
		defer answer.settle()
		next.ServeHTTP(answer, r)
	})
}

// enter counts a running request, against the limit of its address and the limit of the process.
func (s *Server) enter(address string) (leave func(), err error) {
	one, err := s.cfg.Limits.Enter(limit.Concurrent, address)
	if err != nil {
		return nil, err
	}
	if n := s.underWay.Add(1); s.cfg.MaxRequests > 0 && n > int64(s.cfg.MaxRequests) {
		s.underWay.Add(-1)
		one()
		s.cfg.Metrics.Limited(context.Background(), "requests")
		return nil, fault.New(fault.RateLimited, "There are too many requests under way.").After(limit.Beat)
	}
	return func() { s.underWay.Add(-1); one() }, nil
}

// take counts a request, and sets the rate limit headers. It returns the refusal of one over the limit.
func (s *Server) take(h http.Header, class limit.Class, address string) *fault.Fault {
	state, limited, err := s.cfg.Limits.Take(class, address)
	if limited {
		maps.Copy(h, state.Headers())
	}
	f, _ := fault.As(err)
	return f
}

// rate is the class of the requests under a pattern; limit.Poll by default, and for paths without a route.
func (s *Server) rate(pattern string) limit.Class {
	if class := s.router.Rate(pattern); class != "" {
		return class
	}
	if class := s.rates[pattern]; class != "" {
		return class
	}
	return limit.Poll
}
