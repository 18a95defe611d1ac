package discovery

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/transport/static"
	"github.com/roamcard/roamcard/internal/x402"
)

// contract is the agent contract at /api/agent, version 1. The OpenAPI document describes its members.
type contract struct {
	ContractVersion int               `json:"contractVersion"`
	DocsVersion     string            `json:"docsVersion"`
	Service         service           `json:"service"`
	Products        []product         `json:"products"`
	Payment         paymentTerms      `json:"payment"`
	Ownership       ownership         `json:"ownership"`
	Wallet          wallet            `json:"wallet"`
	Treasury        treasury          `json:"treasury"`
	Idempotency     idempotency       `json:"idempotency"`
	Spending        spending          `json:"spending"`
	Conduct         []string          `json:"conduct"`
	Install         install           `json:"install"`
	Operations      []listed          `json:"operations"`
	Errors          []failure         `json:"errors"`
	MCP             endpoint          `json:"mcp"`
	Documents       map[string]string `json:"documents"`
}

type service struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Version     string `json:"version"`
	Environment string `json:"environment"`
	BaseURL     string `json:"baseUrl"`
}

type product struct {
	ID       string `json:"id"`
	Summary  string `json:"summary"`
	Method   string `json:"method"`
	Path     string `json:"path"`
	URL      string `json:"url"`
	Price    price  `json:"price"`
	Contract string `json:"contract,omitempty"`
	Paused   bool   `json:"paused,omitempty"`
}

type paymentTerms struct {
	Protocol                 string `json:"protocol"`
	X402Version              int    `json:"x402Version"`
	Scheme                   string `json:"scheme"`
	Network                  string `json:"network"`
	ChainID                  uint64 `json:"chainId"`
	Asset                    string `json:"asset"`
	AssetSymbol              string `json:"assetSymbol"`
	AssetDecimals            int    `json:"assetDecimals"`
	AssetName                string `json:"assetName"`
	AssetVersion             string `json:"assetVersion"`
	PayTo                    string `json:"payTo"`
	ChallengeHeader          string `json:"challengeHeader"`
	PaymentHeader            string `json:"paymentHeader"`
	ReceiptHeader            string `json:"receiptHeader"`
	MaxSubmissionsPerAttempt int    `json:"maxSubmissionsPerAttempt"`
}

type ownership struct {
	Owner               string `json:"owner"`
	SignInRequiredToBuy bool   `json:"signInRequiredToBuy"`
	PayerMustEqualOwner bool   `json:"payerMustEqualOwner"`
}

type wallet struct {
	ContractVersion        int      `json:"contractVersion"`
	InteractionModes       []string `json:"interactionModes"`
	ServerApprovalRequired bool     `json:"serverApprovalRequired"`
	AuthorizationRequired  bool     `json:"authorizationRequired"`
	AccountTypes           []string `json:"accountTypes"`
	SmartAccounts          string   `json:"smartAccounts"`
	SmartAccountKinds      []string `json:"smartAccountKinds"`
	Network                string   `json:"network"`
	Asset                  string   `json:"asset"`
	PaymentSignature       string   `json:"paymentSignature"`
	MessageSchemes         []string `json:"messageSchemes"`
	RequestSignInHeader    string   `json:"requestSignInHeader"`
	GasRequired            bool     `json:"gasRequired"`
}

type treasury struct {
	RebalanceMode string `json:"rebalanceMode"`
}

type idempotency struct {
	Member    string   `json:"member"`
	Header    string   `json:"header"`
	MaxLength int      `json:"maxLength"`
	Rules     []string `json:"rules"`
}

type spending struct {
	StockClientCapUSD string `json:"stockClientCapUsd"`
	Advice            string `json:"advice"`
	Example           string `json:"example"`
	ExamplePython     string `json:"examplePython"`
}

type install struct {
	Clients      []client       `json:"clients"`
	Repository   string         `json:"repository"`
	Command      string         `json:"command"`
	Skill        string         `json:"skill"`
	SkillCommand string         `json:"skillCommand"`
	MCPServers   map[string]any `json:"mcpServers"`
}

// client is one of the service's own clients.
type client struct {
	Language string `json:"language"`
	Command  string `json:"command"`
	// FromRepository installs it from a clone in the folder roamcard.
	FromRepository string `json:"fromRepository"`
	Example        string `json:"example"`
}

type listed struct {
	OperationID string `json:"operationId"`
	Method      string `json:"method"`
	Path        string `json:"path"`
	Summary     string `json:"summary"`
	Access      string `json:"access"`
	Scope       string `json:"scope,omitempty"`
}

type failure struct {
	Code           string `json:"code"`
	Status         int    `json:"status"`
	Title          string `json:"title"`
	Retryable      bool   `json:"retryable"`
	SafeToPayAgain bool   `json:"safeToPayAgain"`
	NextAction     string `json:"nextAction"`
}

type endpoint struct {
	URL                       string   `json:"url"`
	Transport                 string   `json:"transport"`
	ProtocolVersion           string   `json:"protocolVersion"`
	SupportedProtocolVersions []string `json:"supportedProtocolVersions"`
	ReadOnly                  bool     `json:"readOnly"`
}

// repository has the source of the clients.
const repository = "https://github.com/roamcard/roamcard"

// installCommand installs an x402 client that can pay here, in the versions it was tested with.
const installCommand = "npm install @x402/fetch@2.27.0 @x402/evm@2.27.0 viem@2.57.1"

func (s *Site) contract() contract {
	c := contract{
		ContractVersion: 1,
		DocsVersion:     s.api.Info.Version,
		Service:         service{s.api.Info.Title, s.api.Info.Summary, s.Version, s.Environment, s.BaseURL},
		Payment: paymentTerms{
			Protocol: "x402", X402Version: x402.Version, Scheme: x402.Scheme, Network: s.Terms.Network,
			ChainID: s.Terms.Domain.ChainID,
			Asset:   s.Terms.Asset.String(), AssetSymbol: "USDC", AssetDecimals: 6, AssetName: s.Terms.Domain.Name,
			AssetVersion:    s.Terms.Domain.Version,
			PayTo:           s.Terms.PayTo.String(),
			ChallengeHeader: x402.HeaderRequired, PaymentHeader: x402.HeaderSignature,
			ReceiptHeader:            x402.HeaderResponse,
			MaxSubmissionsPerAttempt: 1,
		},
		Ownership: ownership{Owner: "payer", PayerMustEqualOwner: true},
		Wallet: wallet{
			ContractVersion: 1, InteractionModes: []string{"autonomous", "policy_gated", "human_approval"},
			AuthorizationRequired: true, AccountTypes: s.Terms.AccountTypes(), SmartAccounts: "experimental",
			SmartAccountKinds: append([]string{}, s.Terms.SmartAccountKinds...),
			Network:           s.Terms.Network, Asset: s.Terms.Asset.String(),
			PaymentSignature: "EIP-3009 TransferWithAuthorization as EIP-712 typed data",
			MessageSchemes:   []string{string(auth.EIP191), string(auth.EIP712)}, RequestSignInHeader: x402.HeaderSignIn,
		},
		Treasury: treasury{RebalanceMode: "manual"},
		Idempotency: idempotency{
			Member: "idempotencyKey", Header: rpcx.HeaderIdempotencyKey, MaxLength: rpcx.MaxIdempotencyKey,
			Rules: []string{
				"Choose one key for each purchase before the first call, and keep it on disk before a payment is sent.",
				"After a timeout, a lost answer or a 503, repeat the same body with the same key and the same " +
					"PAYMENT-SIGNATURE.",
				"A purchase that was paid answers the repeat with the same order and replayed: true; nothing is " +
					"charged again.",
				"Sign another payment only where the answer says safeToPayAgain: true.",
			},
		},
		Spending: s.spending(),
		Conduct: []string{
			"Compare network, asset, payTo, resource and amount of a challenge with /api/config and the product's " +
				"contract before signing.",
			"Treat a timeout as unknown, never as failed.",
			"Never put card numbers, security codes, delivery tokens or eSIM activation codes into a model's " +
				"context, a log or a chat: show them in a local presenter.",
			"Do not pay again, change the key, reorder or refund without a new decision of the owner.",
		},
		Install: s.install(),
		MCP: endpoint{
			URL: s.BaseURL + "/mcp", Transport: "streamable-http", ProtocolVersion: s.Protocol,
			SupportedProtocolVersions: s.Protocols, ReadOnly: true,
		},
		Documents: map[string]string{
			"agent": s.BaseURL + "/api/agent", "openapi": s.BaseURL + "/openapi.json",
			"config": s.BaseURL + "/api/config",
			"docs":   s.BaseURL + "/docs", "llms": s.BaseURL + "/llms.txt", "skill": s.BaseURL + "/SKILL.md",
			"agentCard": s.BaseURL + "/.well-known/agent-card.json", "mcpServerCard": s.BaseURL + "/mcp/server-card",
			"aiCatalog":  s.BaseURL + "/.well-known/ai-catalog.json",
			"apiCatalog": s.BaseURL + "/.well-known/api-catalog",
			"security":   s.BaseURL + "/.well-known/security.txt", "readiness": s.BaseURL + "/ready",
		},
	}
	if s.DID != nil {
		c.Documents["keys"] = s.BaseURL + "/.well-known/did.json"
	}
	for _, op := range s.api.products() {
		p := product{
			ID: op.ID, Summary: op.Summary, Method: op.method, Path: op.path, URL: s.BaseURL + op.path,
			Price: op.Payment.Price,
		}
		if at := s.api.contractOf(op); at != "" {
			p.Contract = s.BaseURL + at
		}
		c.Products = append(c.Products, p)
	}
	for _, op := range s.api.operations() {
		c.Operations = append(c.Operations, listed{op.ID, op.method, op.path, op.Summary, op.access(), op.Scope})
	}
	for _, k := range fault.Catalogue() {
		c.Errors = append(c.Errors, failureOf(k))
	}
	return c
}

// agent serves the contract, with the products that are paused marked.
func (s *Site) agent(w http.ResponseWriter, r *http.Request) {
	page := s.pages["/api/agent"]
	if s.Paused != nil {
		if paused := s.Paused(r.Context()); len(paused) > 0 {
			page = s.pausedContract(paused)
		}
	}
	page.ServeHTTP(w, r)
}

// pausedContract is the contract while some products are paused. Each is made once; there are as many as products can
// be chosen.
func (s *Site) pausedContract(paused map[string]bool) *static.Body {
	which := strings.Join(slices.Sorted(maps.Keys(paused)), " ")
	if made, ok := s.contracts.Load(which); ok {
		return made.(*static.Body)
	}
	c := s.contract()
	for i := range c.Products {
		c.Products[i].Paused = paused[c.Products[i].Path]
	}
	body, err := encode(c)
	if err != nil {
		return s.pages["/api/agent"] // cannot happen: the same contract was encoded before
	}
	made, _ := s.contracts.LoadOrStore(which, document(asJSON, body))
	return made.(*static.Body)
}

func failureOf(k fault.Kind) failure {
	return failure{string(k.Code), k.Status, k.Title, k.Retryable, k.SafeToPayAgain, string(k.NextAction)}
}

func (s *Site) spending() spending {
	return spending{
		StockClientCapUSD: "1.00",
		Advice: "The reference clients of x402 refuse payments above 1 USD. Raise spendControls.maxAmountPerPayment " +
			"(TypeScript) or " +
			"max_amount_per_payment (Python) to the price you have decided to pay, and no further. On a development " +
			"chain, allow its token in " +
			"spendControls.allowedAssets or allowed_assets too.",
		Example: fmt.Sprintf("const pay = wrapFetchWithPaymentFromConfig(fetch, {\n"+
			"  schemes: [{ network: '%s', client: new ExactEvmScheme(account) }],\n"+
			"  spendControls: { maxAmountPerPayment: '$25' },\n});", s.Terms.Network),
		ExamplePython: "client = register_exact_evm_client(x402Client(), EthAccountSigner(account))\n" +
			`client.set_spend_controls({"max_amount_per_payment": "$25"})`,
	}
}

func (s *Site) install() install {
	return install{
		Clients: s.clients(), Repository: repository,
		Command: installCommand, Skill: s.BaseURL + "/SKILL.md",
		SkillCommand: "curl -fsS " + s.BaseURL + "/SKILL.md -o SKILL.md",
		MCPServers:   map[string]any{"roamcard": map[string]string{"type": "http", "url": s.BaseURL + "/mcp"}},
	}
}

// clients are the service's own clients. Each stores what it signed, repeats it byte for byte, and pays within
// the caps that its owner sets, so that no default cap has to be raised.
func (s *Site) clients() []client {
	version := s.api.Info.Version
	return []client{
		{"command", "go install github.com/roamcard/roamcard/cmd/roamcard@v" + version,
			"go -C roamcard install ./cmd/roamcard",
			"ROAMCARD_URL=" + s.BaseURL +
				" roamcard card buy --key my-first-card --yes --max 25.00 --max-day 25.00 --wait --json"},
		{"typescript", "npm install roamcard@" + version + " viem@2.57.1",
			"npm ci --prefix roamcard/clients/typescript && npm run build --prefix roamcard/clients/typescript && " +
				"npm install ./roamcard/clients/typescript viem@2.57.1",
			"new Roamcard({ baseUrl: '" + s.BaseURL +
				"', signer, store, policy: { mode: 'autonomous', maxPerPaymentUsd: '25.00', maxPerDayUsd: '25.00' } " +
				"})"},
		{"python", "pip install 'roamcard[evm]==" + version + "'",
			"pip install './roamcard/clients/python[evm]'",
			`Roamcard("` + s.BaseURL +
				`", signer, Policy("autonomous", max_per_payment_usd="25.00", max_per_day_usd="25.00"), store=store)`},
		{"go", "go get github.com/roamcard/roamcard/clients/go/roamcard@v" + version,
			"go work init . ./roamcard/clients/go",
			`roamcard.New(roamcard.Config{BaseURL: "` + s.BaseURL + `", Signer: signer, Store: store, ` +
				`Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 2500, MaxPerDay: 2500}})`},
	}
}
