package edge

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/roamcard/roamcard/internal/telemetry"
)

// observe makes one span and writes one log line per request, with the call that served it. Both name the route
// and never the path, the query or a header, which may contain secrets. The logger adds the request id.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := s.cfg.Now()
		pattern := s.router.Pattern(r)
		route, method := routeOf(pattern), methodOf(r)
		// Only the ids of a caller's trace are used. The rest is text of the caller's choice, which would be
		// exported with our spans.
		r.Header.Del("Tracestate")
		r.Header.Del("Baggage")
		remote := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		// A trace of our own, which is linked with theirs: a stranger does not decide what is sampled.
		ctx, span := s.tracer.Start(r.Context(), strings.TrimSpace(method+" "+route),
			trace.WithSpanKind(trace.SpanKindServer), trace.WithNewRoot(), trace.WithLinks(linksTo(remote)...),
			trace.WithAttributes(
				attribute.String("http.request.method", method),
				attribute.String("http.route", route),
				attribute.String("network.protocol.version", protocolOf(r)),
			))
		var calls telemetry.Calls
		answer := &recorder{ResponseWriter: w}
		defer func() {
			status := answer.status
			if status == 0 {
				status = http.StatusOK
			}
			call, took := calls.Last(), s.cfg.Now().Sub(start)
			span.SetAttributes(attribute.Int("http.response.status_code", status))
			if call.Procedure != "" {
				span.SetAttributes(attribute.String("rpc.method", call.Method()),
					attribute.String("error.type", call.Problem))
			}
			if status >= 500 {
				span.SetStatus(codes.Error, "")
			}
			span.End()
			s.cfg.Metrics.Served(ctx, telemetry.Request{
				Method: method, Route: route, Status: status, Call: call, Took: took,
			})
			var room [10]slog.Attr
			level := call.Level()
			if status == http.StatusInternalServerError {
				level = slog.LevelError
			}
			s.cfg.Log.LogAttrs(ctx, level, "request", call.AppendAttrs(append(room[:0],
				slog.String("method", method), slog.String("route", route), slog.String("protocol", r.Proto),
				slog.Int("status", status), slog.Int64("bytes", answer.bytes), slog.Duration("duration", took)))...)
		}()
		r = r.WithContext(telemetry.WithCalls(ctx, &calls))
		r.Pattern = pattern
		next.ServeHTTP(answer, r)
	})
}

// linksTo are the links to the span of a context, if it has one.
func linksTo(ctx context.Context) []trace.Link {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	return []trace.Link{trace.LinkFromContext(ctx)}
}

// routeOf is the path of a mux pattern.
func routeOf(pattern string) string {
	if i := strings.IndexByte(pattern, '/'); i >= 0 {
		return pattern[i:]
	}
	return ""
}

// methodOf is the method for logs and span names; unknown ones become _OTHER.
func methodOf(r *http.Request) string {
	known := []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions,
	}
	if slices.Contains(known, r.Method) {
		return r.Method
	}
	return "_OTHER"
}

func protocolOf(r *http.Request) string { return strings.TrimPrefix(r.Proto, "HTTP/") }

// recorder records the status and size of an answer.
type recorder struct {
	http.ResponseWriter
	// status is 0 until the answer begins.
	status int
	bytes  int64
}

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(code int) {
	if w.status == 0 && code >= 200 {
		w.status = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Flush implements http.Flusher, which connect asks for by its type.
func (w *recorder) Flush() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	flush(w.ResponseWriter)
}

// Unwrap serves http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
