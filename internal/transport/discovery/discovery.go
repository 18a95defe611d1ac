// Package discovery is the documents from which agents and people learn what the service offers.
//
// They are made at start-up from the OpenAPI description, which is generated from the protos that serve the
// routes, the catalogue of faults, and the configuration. The same Config always makes the same documents; only
// whether sales are paused is asked per request.
package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/transport/static"
)

// Config is the settings of one deployment that the documents show.
type Config struct {
	// OpenAPI is the generated description; its server is relative.
	OpenAPI []byte
	// BaseURL is the service's own origin, without a slash at the end.
	BaseURL string
	// Environment is production or sandbox.
	Environment string
	// Version is the version of the program.
	Version string
	// Contact is the operator's e-mail address; registries check ownership by it.
	Contact string
	Terms   payment.Terms
	// Protocol is the documented version of MCP, Protocols all supported ones.
	Protocol  string
	Protocols []string
	// Started is when the process started; security.txt expires by it.
	Started time.Time
	// Paused names the products whose sale is closed for now, by the paths at which they are bought. It may be nil.
	Paused func(ctx context.Context) map[string]bool
	// DID is the DID document with the keys of offers and receipts; nil when none are signed.
	DID []byte
	// NotFound answers for a failure that there is none of; by default as net/http does.
	NotFound http.Handler
}

// Site is every document of a deployment.
type Site struct {
	Config
	api *description
	// card is the MCP server card.
	card       []byte
	extensions map[string]object
	// identifier declares payment-identifier.
	identifier json.RawMessage
	pages      map[string]*static.Body
	// reference are the handlers of the API reference, by their patterns.
	reference map[string]http.Handler
	// problems explains failures.
	problems http.Handler
	// contracts are those of paused products, by what is paused.
	contracts sync.Map
}

// New makes the documents.
func New(c Config) (*Site, error) {
	s := &Site{Config: c}
	if s.NotFound == nil {
		s.NotFound = http.NotFoundHandler()
	}
	var err error
	if s.api, err = describe(c); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	if err := s.build(); err != nil {
		return nil, err
	}
	return s, nil
}

// The media types of the documents.
const (
	asJSON     = "application/json"
	asText     = "text/plain; charset=utf-8"
	asMarkdown = "text/markdown; charset=utf-8"
	asHTML     = "text/html; charset=utf-8"
)

func (s *Site) build() error {
	contract, err := encode(s.contract())
	if err != nil {
		return fmt.Errorf("make the agent contract: %w", err)
	}
	agent, err := encode(s.agentCard())
	if err != nil {
		return fmt.Errorf("make the agent card: %w", err)
	}
	if s.card, err = encode(s.serverCard()); err != nil {
		return fmt.Errorf("make the server card: %w", err)
	}
	if s.extensions, err = s.challenges(); err != nil {
		return fmt.Errorf("make the extensions: %w", err)
	}
	skill, err := s.text("SKILL.md")
	if err != nil {
		return err
	}
	llms, err := s.text("llms.txt")
	if err != nil {
		return err
	}
	skills, err := encode(s.agentSkills(skill))
	if err != nil {
		return fmt.Errorf("make the index of skills: %w", err)
	}
	catalog, err := encode(s.aiCatalog())
	if err != nil {
		return fmt.Errorf("make the catalogue for agents: %w", err)
	}
	linkset, err := encode(s.apiCatalog())
	if err != nil {
		return fmt.Errorf("make the catalogue of APIs: %w", err)
	}
	if s.problems, err = problems(s.NotFound); err != nil {
		return fmt.Errorf("make the pages of problems: %w", err)
	}
	s.reference = reference()
	api, a2a, mcp, icon := document(asJSON, s.api.document), document(asJSON, agent), document(asJSON, s.card),
		document("image/svg+xml", favicon)
	s.pages = map[string]*static.Body{
		"/api/agent":                        document(asJSON, contract),
		"/openapi.json":                     api,
		"/api/openapi.json":                 api,
		"/.well-known/openapi.json":         api,
		"/.well-known/agent-card.json":      a2a,
		"/.well-known/agent.json":           a2a,
		"/.well-known/mcp.json":             mcp,
		"/.well-known/mcp/server-card.json": mcp,
		"/mcp/server-card":                  document("application/mcp-server-card+json", s.card),
		"/.well-known/ai-catalog.json":      document("application/ai-catalog+json", catalog),
		"/.well-known/api-catalog": document(`application/linkset+json; `+
			`profile="https://www.rfc-editor.org/info/rfc9727"`, linkset),
		"/.well-known/agent-skills/index.json": document(asJSON, skills),
		"/.well-known/security.txt":            document(asText, s.securityText()),
		"/SKILL.md":                            document(asMarkdown, skill),
		"/llms.txt":                            document(asText, llms),
		"/favicon.svg":                         icon,
		"/favicon.ico":                         icon,
	}
	if s.DID != nil {
		s.pages["/.well-known/did.json"] = document("application/did+json", s.DID)
	}
	return nil
}

// Handlers are the documents by their patterns.
func (s *Site) Handlers() map[string]http.Handler {
	all := map[string]http.Handler{}
	for path, p := range s.pages {
		all["GET "+path] = p
	}
	all["GET /api/agent"] = http.HandlerFunc(s.agent)
	// The older path links to the newer one.
	old := s.pages["/.well-known/agent.json"]
	all["GET /.well-known/agent.json"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", `</.well-known/agent-card.json>; rel="canonical"`)
		old.ServeHTTP(w, r)
	})
	maps.Copy(all, s.reference)
	all[problemPattern] = s.problems
	return all
}

// Paths lists the paths of the documents, except the API reference and the pages of problems.
func (s *Site) Paths() []string { return slices.Sorted(maps.Keys(s.pages)) }

// Document is the document at a path, or nil.
func (s *Site) Document(path string) []byte {
	if p, ok := s.pages[path]; ok {
		return p.Content()
	}
	return nil
}

// ServerCard describes the MCP endpoint.
func (s *Site) ServerCard() []byte { return s.card }

// OpenAPI is the description as it is served.
func (s *Site) OpenAPI() []byte { return s.api.document }

// InterfaceVersion is the version of the described interface.
func (s *Site) InterfaceVersion() string { return s.api.Info.Version }
