package edge

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/transport/rest"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// mounted are the handlers of procedures by their paths, as connecthttp.Mount adds them.
type mounted map[string]http.Handler

// Handle implements connecthttp.ServeMux.
func (m mounted) Handle(path string, handler http.Handler) { m[path] = handler }

// addProcedures adds a route for each procedure of a server, so that logs and traces name it, and refuses unknown
// ones of its services in the caller's protocol.
func (s *Server) addProcedures(server *connect.Server) error {
	// A server's methods have one limit, so there are as many as there are limits.
	limited := map[int]mounted{}
	for spec := range server.Specs() {
		method, ok := spec.Schema.(protoreflect.MethodDescriptor)
		if !ok {
			return fmt.Errorf("%s has no descriptor", spec.Procedure)
		}
		policy, err := rpcx.PolicyOf(method)
		if err != nil {
			return err
		}
		s.rates[spec.Procedure] = rpcx.RateOf(policy)
		most := rpcx.MaxBody(policy)
		if limited[most] == nil {
			limited[most] = mounted{}
			connecthttp.Mount(limited[most], server, rpcx.OverHTTP(most)...)
		}
		if err := s.router.Handle(spec.Procedure, withStatus(limited[most][spec.Procedure])); err != nil {
			return err
		}
		if err := s.addService(string(method.Parent().FullName())); err != nil {
			return err
		}
	}
	return nil
}

// addService refuses what is below a service's path and is no procedure of it.
func (s *Server) addService(name string) error {
	if slices.Contains(s.services, name) {
		return nil
	}
	path := "/" + name + "/"
	s.services, s.procedures = append(s.services, name), append(s.procedures, path)
	return s.router.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, fault.New(fault.RouteNotFound, "There is no such procedure."))
	}))
}

// withStatus answers a failed call with the HTTP status of its problem, see rpcx.CallInfo.
func withStatus(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := rpcx.CallInfo{Resource: r.URL.Path}
		answer := &statusWriter{ResponseWriter: w, status: func() int { return int(info.Problem().GetStatus()) }}
		next.ServeHTTP(answer, r.WithContext(rpcx.WithCallInfo(r.Context(), &info)))
	})
}

// statusWriter sets the status of a call's problem on errors of the unary Connect protocol. gRPC and gRPC-Web
// always answer 200.
type statusWriter struct {
	http.ResponseWriter
	// status is that of the call's problem, once it has failed.
	status func() int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(code int) {
	if chosen := w.status(); chosen != 0 && code >= 400 &&
		w.Header().Get("Content-Type") == "application/json" {
		code = chosen
		if code == http.StatusUnauthorized {
			// Not in the error's metadata, which would make it a trailer on gRPC.
			w.Header().Set("Www-Authenticate", "Bearer")
		}
	}
	w.ResponseWriter.WriteHeader(code)
}

// Flush implements http.Flusher, which connect asks for by its type.
func (w *statusWriter) Flush() { flush(w.ResponseWriter) }

// Unwrap serves http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func flush(w http.ResponseWriter) {
	// A writer that cannot flush does not buffer either.
	_ = http.NewResponseController(w).Flush()
}

// refuse answers in the protocol of the call: as an RPC error below a service's path, as a problem
// document elsewhere.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, f *fault.Fault) {
	if !s.isProcedure(r.URL.Path) || !s.refusal.IsSupported(r) {
		rest.Problem(w, r, f)
		return
	}
	shown := rpcx.Show(r.Context(), f)
	maps.Copy(w.Header(), shown.Headers)
	answer := &statusWriter{ResponseWriter: w, status: func() int { return f.Status }}
	// A failed write means that the caller has disconnected.
	_ = s.refusal.Write(answer, r, shown.Error())
}

func (s *Server) isProcedure(path string) bool {
	return slices.ContainsFunc(s.procedures, func(below string) bool { return strings.HasPrefix(path, below) })
}
