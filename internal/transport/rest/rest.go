// Package rest serves the documented paths: google.api.http routes transcoded onto the Connect handlers, failures as problem documents.
//
// A call comes in by its REST path, becomes a unary Connect call in JSON, and is served by the same
// handler that serves Connect and gRPC, so that policy, validation and tracing exist once:
//
//	request -> size, media type, strict JSON, path and query -> Connect handler
//	answer  <- compact JSON, or application/problem+json      <- Connect answer
package rest

import (
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// Config is what a Router needs.
type Config struct {
	// Log hears of answers that no caller can be shown. Nil discards.
	Log *slog.Logger
}

// Router serves REST routes and, beside them, handlers given as they are. Every path it does not
// serve is answered with a problem document. It is complete before it serves; adding to it later is
// a race.
type Router struct {
	log *slog.Logger
	mux *http.ServeMux
	// operations are the patterns of transcoded routes. The mux would let HEAD run them.
	operations map[string]bool
	rates      map[string]limit.Class
}

// New makes a router without routes.
func New(cfg Config) *Router {
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Router{log: log, mux: http.NewServeMux(), operations: map[string]bool{}, rates: map[string]limit.Class{}}
}

// Mount adds the REST routes of a service. servicePath and handler are what the generated
// New...Handler returns; procedures themselves are not routed. A rule that cannot be served, or that
// overlaps another, is an error.
func (rt *Router) Mount(servicePath string, handler http.Handler) error {
	name := protoreflect.FullName(strings.Trim(servicePath, "/"))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return fmt.Errorf("mount %s: %w", name, err)
	}
	service, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return fmt.Errorf("mount %s: not a service", name)
	}
	bindings, err := bindingsOf(service)
	if err != nil {
		return fmt.Errorf("mount %s: %w", name, err)
	}
	for _, b := range bindings {
		pattern := b.method + " " + b.path
		if err := rt.add(pattern, &route{binding: b, handler: handler, log: rt.log}); err != nil {
			return fmt.Errorf("mount %s: %w", b.procedure, err)
		}
		rt.operations[pattern] = true
		rt.rates[pattern] = rpcx.RateOf(b.policy)
	}
	return nil
}

// Rate is the class of requests under a pattern of an operation; empty for other patterns.
func (rt *Router) Rate(pattern string) limit.Class { return rt.rates[pattern] }

// Handle adds a handler under a pattern of http.ServeMux, which answers for itself. As in the mux, a
// GET pattern also gets HEAD.
func (rt *Router) Handle(pattern string, handler http.Handler) error {
	if err := rt.add(pattern, handler); err != nil {
		return err
	}
	if root, subtree := strings.CutSuffix(pattern, "/"); subtree && strings.Contains(root, "/") {
		// Without this the mux redirects to the subtree.
		return rt.add(root, http.HandlerFunc(notFound))
	}
	return nil
}

// add registers a pattern; what the mux calls a panic is an error here.
func (rt *Router) add(pattern string, handler http.Handler) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("route %s: %v", pattern, v)
		}
	}()
	rt.mux.Handle(pattern, handler)
	return nil
}

// Pattern is the pattern that serves the request, or empty when nothing does.
func (rt *Router) Pattern(r *http.Request) string {
	if !isClean(r.URL.EscapedPath()) {
		return ""
	}
	_, pattern := rt.mux.Handler(r)
	return pattern
}

// ServeHTTP implements http.Handler.
func (rt *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pattern := r.Pattern // known when the edge has asked already
	if pattern == "" {
		pattern = rt.Pattern(r)
	}
	switch {
	case pattern == "" && !isClean(r.URL.EscapedPath()):
		// The mux would redirect; a client that follows would repeat its payment elsewhere.
		notFound(w, r)
	case pattern == "":
		if allowed := rt.allowed(r); len(allowed) > 0 {
			methodNotAllowed(w, r, allowed)
			return
		}
		notFound(w, r)
	case r.Method == http.MethodHead && rt.operations[pattern]:
		methodNotAllowed(w, r, rt.allowed(r))
	default:
		rt.mux.ServeHTTP(w, r)
	}
}

// allowed lists the methods that the request's path takes.
func (rt *Router) allowed(r *http.Request) []string {
	probe := *r
	// No pattern has this method, so the mux answers 405 with the list, or 404.
	probe.Method = "PROBE"
	handler, pattern := rt.mux.Handler(&probe)
	if pattern != "" {
		return nil
	}
	var answer rpcx.Answer
	handler.ServeHTTP(&answer, &probe)
	var methods []string
	for method := range strings.SplitSeq(answer.Header().Get("Allow"), ",") {
		if method = strings.TrimSpace(method); method != "" {
			methods = append(methods, method)
		}
	}
	probe.Method = http.MethodGet
	if _, get := rt.mux.Handler(&probe); rt.operations[get] {
		methods = slices.DeleteFunc(methods, func(m string) bool { return m == http.MethodHead })
	}
	return methods
}

func notFound(w http.ResponseWriter, r *http.Request) {
	Problem(w, r, fault.New(fault.RouteNotFound, ""))
}

func methodNotAllowed(w http.ResponseWriter, r *http.Request, allowed []string) {
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	Problem(w, r, fault.New(fault.MethodNotAllowed, ""))
}

// isClean says whether the mux would serve the escaped path as it is.
func isClean(escaped string) bool {
	if escaped == "/" {
		return true
	}
	return strings.HasPrefix(escaped, "/") && path.Clean(escaped) == strings.TrimSuffix(escaped, "/")
}
