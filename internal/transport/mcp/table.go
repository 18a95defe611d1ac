package mcp

import (
	"net/http"
	"net/url"

	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// entry is one tool: a name for a documented route.
type entry struct {
	name, title, text string
	// path is the route, a GET. Its path and query parameters are the tool's arguments.
	path string
	// member is the part of the answer that the tool gives; empty for all of it.
	member string
	// answer, when set, makes the tool's answer from the route's, in the form of schema.
	answer func(c Config, args map[string]string, got *rpcx.Answer) (any, error)
	// part, when set, is the part of a route's successful answer that the tool's own arguments ask for. Its form is
	// schema or, without one, that of the route after reform.
	part   func(args map[string]string, content []byte) (any, error)
	own    []parameter
	reform func(schema map[string]any)
	schema map[string]any
}

// table is every tool.
var table = []entry{
	{
		name: "get_agent_contract", title: "Agent contract",
		text: "The contract for agents: products and prices, payment terms, ownership, wallet requirements, " +
			"idempotency rules and the other documents. " +
			"Read it before anything else. Its lists of operations and of error codes come by the argument section, " +
			"in pages.",
		path: "/api/agent", own: append([]parameter{section}, paging...), part: contractPart, reform: ofContractPart,
	},
	{
		name: "get_wallet_requirements", title: "Wallet requirements",
		text: "What a wallet must be able to do to pay and to own: interaction modes, account types, network, " +
			"asset, and what it signs.",
		path: "/api/agent", member: "wallet",
	},
	{
		name: "get_config", title: "Public configuration",
		text: "The public settings: network, asset, payee, card fees, limits and treasury mode. Compare a payment " +
			"challenge with it before signing.",
		path: "/api/config",
	},
	{
		name: "get_card_contract", title: "Card purchase contract",
		text: "What a virtual card costs, how it is paid for, who owns it, how it is issued and how its credentials " +
			"reach its owner.",
		path: "/api/card/discovery",
	},
	{
		name: "get_topup_contract", title: "Card top-up contract",
		text: "What a top-up may be, its load fee, who may pay for it and how the credit is confirmed.",
		path: "/api/card/topup/discovery",
	},
	{
		name: "get_esim_contract", title: "eSIM purchase contract",
		text: "How travel eSIMs are sold: catalogue, payment, ownership, fulfilment and how activation data " +
			"reaches its owner.",
		path: "/api/esim/discovery",
	},
	{
		name: "list_esim_plans", title: "eSIM plans",
		text: "The live catalogue of travel eSIM plans with prices in USDC on Base, the cheapest first, by country " +
			"or region, in pages. Plan ids and prices change: never keep them.",
		path: "/api/esim/plans", own: paging, part: pages("plans", "planId"), reform: withNextCursor,
	},
	{
		name: "get_readiness", title: "Readiness",
		text: "Whether purchases can be taken and delivered now. An error says what is failing.",
		path: "/ready",
	},
	{
		name: "get_esim_readiness", title: "eSIM readiness",
		text: "Whether eSIMs can be bought and delivered now, whatever the state of cards. An error says what is " +
			"failing.",
		path: "/api/esim/ready",
	},
	{
		name: "get_install_command", title: "Install command",
		text: "How to install this service's own clients, or else a stock x402 client, that can pay here, fetch " +
			"this service's skill, and add this MCP endpoint to a client.",
		path: "/api/agent", member: "install",
	},
	{
		name: "get_openapi", title: "OpenAPI description",
		text: "The OpenAPI 3.1 description of the REST API: the list of its operations, in pages, or one operation " +
			"with every schema that it uses. " +
			"Of refusals it names the codes; get_agent_contract explains them. The whole document is at " +
			"/openapi.json; get_agent_contract is enough to buy.",
		path: "/api/openapi.json", own: append([]parameter{operationID}, paging...), part: documentPart,
		schema: ofDocumentPart(),
	},
	{
		name: "get_payable_url", title: "Payable URL",
		text: "The URL at which an open order is paid by x402, for the wallet that owns it. It tells nothing else " +
			"of the order.",
		path: "/pay/{orderId}", answer: payableURL,
		schema: map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"orderId", "payable_url"},
			"properties": map[string]any{
				"orderId":     map[string]any{"type": "string"},
				"payable_url": map[string]any{"type": "string", "format": "uri"},
			},
		},
	},
}

// payableURL is the URL of an order that asks for payment. The terms are left out.
func payableURL(c Config, args map[string]string, got *rpcx.Answer) (any, error) {
	switch got.Status {
	case http.StatusPaymentRequired:
		id := args["orderId"]
		return map[string]string{"orderId": id, "payable_url": c.BaseURL + "/pay/" + url.PathEscape(id)}, nil
	case http.StatusOK:
		return nil, refusal("The order is not open for payment.")
	}
	return nil, problemOf(got)
}
