//go:build !conformance

package mcp

import sdk "github.com/modelcontextprotocol/go-sdk/mcp"

// addFixtures adds what only the conformance suite calls: nothing.
func addFixtures(*sdk.Server) {}
