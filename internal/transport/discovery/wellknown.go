package discovery

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

//go:embed files/favicon.svg
var favicon []byte

type object = map[string]any

// agentCard is the A2A card of version 1.0, without members of older versions, with which a reader could not tell
// the version. The service does not implement A2A: its binding is a URI of our own, so that clients report an
// unknown binding instead of sending requests.
func (s *Site) agentCard() object {
	binding := s.BaseURL + "/openapi.json"
	var skills []object
	for _, op := range s.api.products() {
		skills = append(skills, object{
			"id": op.ID, "name": op.Summary,
			"description": fmt.Sprintf("%s. Costs %s, paid by x402.", op.Summary, op.Payment.Price),
			"tags":        []string{"x402", "usdc", "base", "purchase"},
			"examples":    []string{fmt.Sprintf(`%s %s {"idempotencyKey":"order-0001"}`, op.method, s.BaseURL+op.path)},
			"x-price":     op.Payment.Price,
		})
	}
	return object{
		"name": s.api.Info.Title, "description": s.api.Info.Summary, "version": s.api.Info.Version,
		"provider":         object{"organization": s.api.Info.Title, "url": s.BaseURL},
		"documentationUrl": s.BaseURL + "/docs", "iconUrl": s.BaseURL + "/favicon.svg",
		"supportedInterfaces": []object{{"url": s.BaseURL, "protocolBinding": binding, "protocolVersion": "1.0"}},
		"capabilities": object{
			"streaming": false, "pushNotifications": false,
			"extensions": []object{{
				"uri":         "https://github.com/google-agentic-commerce/a2a-x402/blob/main/spec/v0.2",
				"description": "Purchases are paid with x402 version 2 in USDC on Base.", "required": true,
			}},
		},
		"defaultInputModes": []string{"application/json"}, "defaultOutputModes": []string{"application/json"},
		"skills":          skills,
		"contractVersion": 1,
		"x-agentContract": s.BaseURL + "/api/agent", "x-openapi": s.BaseURL + "/openapi.json",
		"x-mcp": s.BaseURL + "/mcp",
	}
}

// serverCard describes the MCP endpoint: version 1 of the server card, and the members of earlier drafts.
func (s *Site) serverCard() object {
	return object{
		"$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
		"name":    s.reverseName(), "title": s.api.Info.Title, "version": s.api.Info.Version,
		"description": "Read-only discovery of virtual cards and travel eSIMs that agents pay for by x402.",
		"websiteUrl":  s.BaseURL + "/docs",
		"icons":       []object{{"src": s.BaseURL + "/favicon.svg", "mimeType": "image/svg+xml"}},
		"remotes": []object{{
			"type": "streamable-http", "url": s.BaseURL + "/mcp", "supportedProtocolVersions": s.Protocols,
		}},
		"protocolVersion": s.Protocol,
		"serverInfo":      object{"name": s.api.Info.Title, "title": s.api.Info.Title, "version": s.api.Info.Version},
		"transport":       object{"type": "streamable-http", "endpoint": "/mcp", "url": s.BaseURL + "/mcp"},
		"capabilities":    object{"tools": object{}},
		"authentication":  object{"required": false},
		"contractVersion": 1,
	}
}

// reverseName is the service's name for registries: the host reversed, a slash, the title.
func (s *Site) reverseName() string {
	reversed := "localhost"
	if base, err := url.Parse(s.BaseURL); err == nil && net.ParseIP(base.Hostname()) == nil {
		labels := strings.Split(base.Hostname(), ".")
		slices.Reverse(labels)
		reversed = strings.Join(labels, ".")
	}
	return reversed + "/" + s.api.Info.Title
}

// agentSkills is the index of skills. There is one, with its digest.
func (s *Site) agentSkills(skill []byte) object {
	sum := sha256.Sum256(skill)
	return object{
		"$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json",
		"skills": []object{{
			"name": skillName, "type": "skill-md", "description": skillText,
			"url": s.BaseURL + "/SKILL.md", "digest": "sha256:" + hex.EncodeToString(sum[:]),
		}},
	}
}

// aiCatalog lists the documents for agents. An entry's kind has both names of the two drafts.
func (s *Site) aiCatalog() object {
	entry := func(id, name, kind, path string) object {
		return object{
			"identifier": "urn:ai:" + s.reverseName() + ":" + id, "displayName": name, "type": kind, "mediaType": kind,
			"url": s.BaseURL + path, "version": s.api.Info.Version,
		}
	}
	return object{
		"specVersion": "1.0",
		"host": object{
			"displayName": s.api.Info.Title, "identifier": s.BaseURL, "documentationUrl": s.BaseURL + "/docs",
		},
		"entries": []object{
			entry("mcp", "MCP endpoint", "application/mcp-server-card+json", "/mcp/server-card"),
			entry("agent", "Agent card", "application/a2a-agent-card+json", "/.well-known/agent-card.json"),
			entry("skill", "Agent skill", "text/markdown", "/SKILL.md"),
		},
	}
}

// apiCatalog is the linkset of RFC 9727.
func (s *Site) apiCatalog() object {
	link := func(path, kind string) object { return object{"href": s.BaseURL + path, "type": kind} }
	return object{"linkset": []object{{
		"anchor":       s.BaseURL,
		"service-desc": []object{link("/openapi.json", "application/vnd.oai.openapi+json;version=3.1")},
		"service-doc":  []object{link("/docs", "text/html"), link("/llms.txt", "text/plain")},
		"service-meta": []object{link("/.well-known/agent-card.json", "application/json")},
		"status":       []object{link("/ready", "application/json")},
	}}}
}

// securityText says where to report a vulnerability (RFC 9116). It expires by the month, so that processes
// started in the same month serve the same bytes.
func (s *Site) securityText() []byte {
	month := time.Date(s.Started.UTC().Year(), s.Started.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	contact := s.BaseURL + "/docs"
	if s.Contact != "" {
		contact = "mailto:" + s.Contact
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Try only wallets, cards and orders of your own. "+
		"Never take what belongs to others; report at once.\n")
	fmt.Fprintf(&b, "Contact: %s\n", contact)
	fmt.Fprintf(&b, "Expires: %s\n", month.AddDate(0, 11, 0).Format(time.RFC3339))
	fmt.Fprintf(&b, "Canonical: %s/.well-known/security.txt\n", s.BaseURL)
	fmt.Fprintf(&b, "Policy: %s/.well-known/security.txt\n", s.BaseURL)
	fmt.Fprintf(&b, "Preferred-Languages: en\n")
	return []byte(b.String())
}
