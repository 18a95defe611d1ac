package server

import (
	"maps"
	"net/http"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
)

// throttle counts requests by the address they come from, and refuses those of who asks too often. A
// request that carries a payment is let by: whether it is a repeat, which is never refused, only the
// records can say, so new payments are counted there.
func (s *Server) throttle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		class := s.rate(r.Pattern)
		if class == "" || (class == limit.Unpaid && r.Header.Get(headerPaymentSignature) != "") {
			next.ServeHTTP(w, r)
			return
		}
		state, limited, err := s.cfg.Limits.Take(class, limit.Address(r.Context()))
		if limited {
			maps.Copy(w.Header(), state.Headers())
		}
		if f, refused := fault.As(err); refused {
			s.cfg.Metrics.Limited(r.Context(), string(class))
			s.refuse(w, r, f)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// rate is the class of the requests under a pattern; empty for what is not limited.
func (s *Server) rate(pattern string) limit.Class {
	if class := s.router.Rate(pattern); class != "" {
		return class
	}
	return s.rates[pattern]
}
