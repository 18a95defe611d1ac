package edge

import (
	"maps"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	connectcors "connectrpc.com/cors"
	"github.com/rs/cors"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

const headerRequestID = "X-Request-Id"

// pays reports whether a request brings a payment.
func pays(r *http.Request) bool { return r.Header.Get(x402.HeaderSignature) != "" }

// chain puts the layers around the routes, outermost first.
func (s *Server) chain(routes http.Handler) http.Handler {
	layers := []func(http.Handler) http.Handler{
		s.identify, // sets the request id; refuses nothing
		s.host,     // before anything of another host's request is read
		s.cors,     // outside every layer that refuses, so that browsers may read refusals
		s.observe,  // one span and one line per request
		s.recover,  // a panic is a 500 and not a cut connection
		s.harden,   // security and cache headers
		s.throttle, // rates, by address
		s.limit,    // sizes
		s.count,    // bytes that are held
	}
	h := routes
	for _, layer := range slices.Backward(layers) {
		h = layer(h)
	}
	return h
}

// identify sets the request id, the caller's own when it is valid, in the context and the answer. It adds the
// client's address to the context.
func (s *Server) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := telemetry.RequestIDFrom(r.Header.Get(headerRequestID))
		w.Header().Set(headerRequestID, id)
		ctx := limit.WithAddress(telemetry.WithRequestID(r.Context(), id), limit.AddressOf(r, s.cfg.TrustedProxies))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// cors lets pages of other origins call us and read the headers that x402 and Connect clients need. There are no
// cookies, so credentials are never allowed.
func (s *Server) cors(next http.Handler) http.Handler {
	origins := s.cfg.Origins
	if len(origins) == 0 {
		origins = []string{"*"}
	}
	policy := cors.New(cors.Options{
		AllowedOrigins: origins,
		// Methods of documented paths, not of Connect.
		AllowedMethods: append(connectcors.AllowedMethods(), http.MethodPut, http.MethodHead),
		AllowedHeaders: append(connectcors.AllowedHeaders(),
			"Authorization", rpcx.HeaderIdempotencyKey, x402.HeaderSignature, x402.HeaderSignatureV1, x402.HeaderSignIn,
			rpcx.HeaderDeliveryToken, rpcx.HeaderWatchToken, headerRequestID,
			// x402 clients send this response header with the paid request.
			"Access-Control-Expose-Headers",
			// MCP clients.
			"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name",
		),
		ExposedHeaders: append(connectcors.ExposedHeaders(),
			x402.HeaderRequired, x402.HeaderResponse, "Retry-After", "Location", "Www-Authenticate", headerRequestID,
			"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset",
			// A payer compares its clock before it signs.
			"Date",
		),
		MaxAge: 7200,
	})
	open := policy.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, prefix := range s.cfg.NoCORS {
			if strings.HasPrefix(r.URL.Path, prefix) {
				next.ServeHTTP(w, r)
				return
			}
		}
		open.ServeHTTP(w, r)
	})
}

// recover answers a panic with a fault, or closes the connection when the answer has begun.
func (s *Server) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			s.cfg.Log.ErrorContext(r.Context(), "panic",
				"route", routeOf(r.Pattern), "panic", panicText(v), "stack", string(debug.Stack()))
			if answer, ok := w.(*recorder); ok && answer.status != 0 {
				panic(http.ErrAbortHandler)
			}
			s.instead(w, r, fault.New(fault.Internal, ""), nil)
		}()
		next.ServeHTTP(w, r)
	})
}

// instead answers with a fault in place of what a handler was about to answer.
func (s *Server) instead(w http.ResponseWriter, r *http.Request, f *fault.Fault, headers http.Header) {
	maps.DeleteFunc(w.Header(), func(name string, _ []string) bool { return !outer(name) })
	s.secure(w, r)
	maps.Copy(w.Header(), headers)
	s.refuse(w, r, f)
}

// outer reports whether a header was set before the handler began.
func outer(name string) bool {
	return name == headerRequestID || name == "Vary" || strings.HasPrefix(name, "Access-Control-")
}

// panicText is what is logged of a panic: messages of the runtime and of our code. Other values may contain data
// of the request, and are left out.
func panicText(v any) string {
	switch v := v.(type) {
	case runtime.Error:
		return v.Error()
	case string:
		return v
	default:
		return "a value that is not shown"
	}
}

// harden sets the default security headers; a handler may replace them.
func (s *Server) harden(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.secure(w, r)
		next.ServeHTTP(w, r)
	})
}

// safeHeaders are the default headers of the answers of a service at the address.
func safeHeaders(baseURL string) http.Header {
	h := http.Header{}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if strings.HasPrefix(baseURL, "https://") {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	return h
}

func (s *Server) secure(w http.ResponseWriter, r *http.Request) {
	maps.Copy(w.Header(), s.safe)
	if s.isProcedure(r.URL.Path) {
		w.Header().Set("Cache-Control", rpcx.PrivateNoStore)
	}
}

// limit refuses payment headers that no wallet makes, and two of a header that has one value: it is unclear which of
// the two is the payment, or who calls.
func (s *Server) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			// net/http ignores a Content-Length next to chunks. A proxy in front may have used it, and then what
			// follows on this connection is one caller's bytes in another's request.
			w.Header().Set("Connection", "close")
		}
		payments := r.Header.Values(x402.HeaderSignature)
		var wrong *fault.Fault
		switch {
		case len(payments) > 1:
			wrong = fault.Newf(fault.PaymentMalformed, "Send one %s header.", x402.HeaderSignature)
		case len(payments) == 1 && len(payments[0]) > x402.MaxHeader:
			wrong = fault.Newf(fault.PaymentMalformed,
				"The %s header may have %d bytes.", x402.HeaderSignature, x402.MaxHeader)
		default:
			wrong = rpcx.Doubled(r.Header)
		}
		if wrong == nil {
			next.ServeHTTP(w, r)
			return
		}
		if excess, ok := fault.As(limit.Excess(r.Context())); ok {
			wrong = excess
		}
		s.refuse(w, r, wrong)
	})
}
