// Package rest serves the documented REST paths by calls of the methods that Connect and gRPC call, in process.
//
// A request to a google.api.http route becomes a unary call, so that policy, validation and tracing exist once.
// Failures are problem documents (RFC 9457):
//
//	request -> size, media type, path and query -> strict JSON -> method
//	answer  <- compact JSON, or application/problem+json       <- message, or problem
package rest

import (
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"strings"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// Config is what a Router needs.
type Config struct {
	// Log gets the answers that cannot be shown to a caller. Nil discards them.
	Log *slog.Logger
	// Pages are what browsers get in place of the answers to GET, by procedure. It may be nil.
	Pages map[string]Page
	// Missing is what browsers get at a path without a route. Nil gives them what everybody gets.
	Missing Page
}

// Page is what people see of an operation. The operation runs as for everyone; its status and its headers stay.
type Page interface {
	// Wanted reports whether a request asks for the page.
	Wanted(r *http.Request) bool
	// Send writes the headers of the page, the status and the page.
	Send(w http.ResponseWriter, r *http.Request, status int)
}

// Router serves REST routes, and other handlers under their patterns. Every other path is answered with a
// problem document. All routes are added before it serves; adding one later is a race.
type Router struct {
	log     *slog.Logger
	pages   map[string]Page
	missing Page
	mux     *http.ServeMux
	rates   map[string]limit.Class
}

// New makes a router without routes.
func New(cfg Config) *Router {
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Router{
		log: log, pages: cfg.Pages, missing: cfg.Missing, mux: http.NewServeMux(), rates: map[string]limit.Class{},
	}
}

// Mount adds the REST routes of a server's methods; the procedures are not routed here. As in the mux, a GET route also
// gets HEAD: the server leaves the body out and keeps the headers. A rule that cannot be served, or that overlaps
// another, is an error.
func (rt *Router) Mount(server *connect.Server) error {
	for spec := range server.Specs() {
		method, ok := spec.Schema.(protoreflect.MethodDescriptor)
		if !ok {
			return fmt.Errorf("mount %s: it has no descriptor", spec.Procedure)
		}
		bindings, err := bindingsOf(method)
		if err != nil {
			return fmt.Errorf("mount %s: %w", spec.Procedure, err)
		}
		for _, b := range bindings {
			pattern := b.method + " " + b.path
			var serve http.Handler = &route{binding: b, server: server, log: rt.log}
			if page, ok := rt.pages[b.procedure]; ok && b.method == http.MethodGet {
				serve = paged{serve, page}
			}
			if err := rt.add(pattern, serve); err != nil {
				return fmt.Errorf("mount %s: %w", b.procedure, err)
			}
			rt.rates[pattern] = rpcx.RateOf(b.policy)
		}
	}
	return nil
}

// Rate is the class of requests under a pattern of an operation; empty for other patterns.
func (rt *Router) Rate(pattern string) limit.Class { return rt.rates[pattern] }

// Handle adds a handler under a pattern of http.ServeMux. As in the mux, a GET pattern also gets HEAD.
func (rt *Router) Handle(pattern string, handler http.Handler) error {
	if err := rt.add(pattern, handler); err != nil {
		return err
	}
	if root, subtree := strings.CutSuffix(pattern, "/"); subtree && strings.Contains(root, "/") {
		// Without a handler of its own the root would be redirected to the subtree.
		return rt.add(root, http.HandlerFunc(notFound))
	}
	return nil
}

// add registers a pattern; a panic of the mux becomes an error.
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
	pattern := r.Pattern // set when the edge has looked it up
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
		read := r.Method == http.MethodGet || r.Method == http.MethodHead
		if read && rt.missing != nil && rt.missing.Wanted(r) {
			rt.missing.Send(w, r, http.StatusNotFound)
			return
		}
		notFound(w, r)
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
	return methods
}

// NotFound answers as a path without a route does.
func NotFound(w http.ResponseWriter, r *http.Request) { notFound(w, r) }

func notFound(w http.ResponseWriter, r *http.Request) {
	Problem(w, r, fault.New(fault.RouteNotFound, ""))
}

func methodNotAllowed(w http.ResponseWriter, r *http.Request, allowed []string) {
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	Problem(w, r, fault.New(fault.MethodNotAllowed, ""))
}

// isClean reports whether the mux serves the escaped path without a redirect.
func isClean(escaped string) bool {
	if escaped == "/" {
		return true
	}
	return strings.HasPrefix(escaped, "/") && path.Clean(escaped) == strings.TrimSuffix(escaped, "/")
}
