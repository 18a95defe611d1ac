package edge

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/transport/rest"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// addService adds a route for each procedure of a service, so that logs and traces name it, and refuses unknown
// ones in the caller's protocol.
func (s *Server) addService(service Service) error {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service.name()))
	if err != nil {
		return fmt.Errorf("service %s: %w", service.name(), err)
	}
	descriptor, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return fmt.Errorf("service %s: not a service", service.name())
	}
	called := withStatus(service.Handler)
	for i := range descriptor.Methods().Len() {
		method := descriptor.Methods().Get(i)
		procedure := service.Path + string(method.Name())
		policy, err := rpcx.PolicyOf(method)
		if err != nil {
			return err
		}
		s.rates[procedure] = rpcx.RateOf(policy)
		if err := s.router.Handle(procedure, called); err != nil {
			return err
		}
	}
	return s.router.Handle(service.Path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, fault.New(fault.RouteNotFound, "There is no such procedure."))
	}))
}

// withStatus answers a failed call with the HTTP status of its problem, see rpcx.CallInfo.
func withStatus(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := rpcx.CallInfo{Resource: r.URL.Path}
		next.ServeHTTP(&statusWriter{ResponseWriter: w, callInfo: &info},
			r.WithContext(rpcx.WithCallInfo(r.Context(), &info)))
	})
}

// statusWriter sets the status of a call's problem on errors of the unary Connect protocol. gRPC and gRPC-Web
// always answer 200.
type statusWriter struct {
	http.ResponseWriter
	callInfo *rpcx.CallInfo
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(code int) {
	if chosen := int(w.callInfo.Problem().GetStatus()); chosen != 0 && code >= 400 &&
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
	var info rpcx.CallInfo
	err := rpcx.ToConnect(rpcx.WithCallInfo(r.Context(), &info), f)
	// A failed write means that the caller has disconnected.
	_ = s.refusal.Write(&statusWriter{ResponseWriter: w, callInfo: &info}, r, err)
}

func (s *Server) isProcedure(path string) bool {
	return slices.ContainsFunc(s.procedures, func(below string) bool { return strings.HasPrefix(path, below) })
}
