package demo

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	testOrder  = "ord_1"
	testCard   = "0b0c6f0e-5d7c-4b8a-9a55-1c3f0d4f5a11"
	testNumber = "4000001234561234"
	testCode   = "907"
	testToken  = "test-access-token"
)

var (
	testUSDC  = x402.Address{19: 0x02}
	testPayee = x402.Address{19: 0x23}
)

// service plays the service and the chain: it takes each authorization once and answers repeats from
// its record.
type service struct {
	*httptest.Server
	t  *testing.T
	mu sync.Mutex
	// balances is the chain; spent are the nonces that it has taken.
	balances map[x402.Address]money.USDC
	spent    map[x402.Hash]bool
	owners   map[x402.Address]bool
	buyer    x402.Address
	// headers are the payments as they came in; seen closes at the first.
	headers []string
	seen    chan struct{}
	looks   map[string]int
	message auth.Message
	key     string

	// What the service does wrong.
	environment  string
	payTo        x402.Address
	hurry        []*fault.Fault // answers to paid requests before the true one
	refuse       *fault.Fault
	charges      int
	otherDomain  bool
	ownsMeantime bool
	finalStatus  string
	redirect     string
	stuck        bool
}

func newService(t *testing.T) *service {
	s := &service{
		t: t, balances: map[x402.Address]money.USDC{}, spent: map[x402.Hash]bool{}, owners: map[x402.Address]bool{},
		seen: make(chan struct{}), looks: map[string]int{},
		environment: "sandbox", payTo: testPayee, charges: 1, finalStatus: "fulfilled",
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /rpc", s.rpc)
	mux.HandleFunc("GET /api/config", s.config)
	mux.HandleFunc("GET /api/card/discovery", s.discovery)
	mux.HandleFunc("POST /api/card/purchase", s.purchase)
	mux.HandleFunc("POST /api/auth/challenge", s.challenge)
	mux.HandleFunc("POST /api/auth/verify", s.verify)
	mux.HandleFunc("POST /api/cards", s.owner(s.ensure))
	mux.HandleFunc("GET /api/orders/{id}", s.owner(s.order))
	mux.HandleFunc("GET /api/cards/{id}/balance", s.owner(s.balance))
	mux.HandleFunc("POST /api/cards/{id}/reveal-challenge", s.owner(s.revealChallenge))
	mux.HandleFunc("POST /api/cards/{id}/reveal", s.owner(s.reveal))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *service) host() string { return strings.TrimPrefix(s.URL, "http://") }

func (s *service) write(w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.t.Log("the buyer is gone:", err)
	}
}

func (s *service) problem(w http.ResponseWriter, f *fault.Fault) {
	w.Header().Set("Content-Type", "application/problem+json")
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int(f.RetryAfter.Seconds())))
	}
	w.WriteHeader(f.Status)
	s.write(w, map[string]any{
		"status": f.Status, "code": f.Code, "title": f.Title, "detail": f.Detail, "retryable": f.Retryable,
		"nextAction": f.NextAction, "requestId": "req-7", "orderId": f.OrderID,
	})
}

func (s *service) read(r *http.Request, v any) {
	if err := json.NewDecoder(r.Body).Decode(v); err != nil {
		s.t.Errorf("%s: %v", r.URL.Path, err)
	}
}

func (s *service) rpc(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Method string
		Params []json.RawMessage
	}
	s.read(r, &call)
	var args struct{ To, Data string }
	if err := json.Unmarshal(call.Params[0], &args); err != nil || call.Method != "eth_call" || args.To != testUSDC.Lower() {
		s.t.Errorf("call %s %+v: %v", call.Method, args, err)
	}
	data, err := hex.DecodeString(strings.TrimPrefix(args.Data, "0x"))
	if err != nil || len(data) != 36 {
		s.t.Errorf("call data %q", args.Data)
		return
	}
	s.write(w, map[string]any{"jsonrpc": "2.0", "id": 1, "result": fmt.Sprintf("0x%064x", int64(s.balances[x402.Address(data[16:])]))})
}

func (s *service) config(w http.ResponseWriter, _ *http.Request) {
	s.write(w, map[string]any{
		"baseUrl": s.URL, "environment": s.environment,
		"network": map[string]any{
			"network": x402.NetworkID, "chainId": x402.ChainID, "asset": testUSDC.String(), "assetName": "USD Coin", "assetVersion": "2",
			"payTo": testPayee.String(),
		},
		"card": map[string]any{"walletPaymentUsdCents": 2500, "cardIssueFeeUsdCents": 1000, "expectedAvailableAfterIssueUsdCents": 1500},
	})
}

func (s *service) discovery(w http.ResponseWriter, _ *http.Request) {
	s.write(w, map[string]any{"payment": map[string]any{
		"asset": testUSDC.String(), "payTo": testPayee.String(), "amount": "25000000", "resource": s.URL + purchasePath,
	}})
}

func (s *service) domain() x402.Domain {
	return x402.Domain{Name: "USD Coin", Version: "2", ChainID: x402.ChainID, Contract: testUSDC}
}

func (s *service) demand(w http.ResponseWriter) {
	header, err := x402.EncodeRequired(x402.PaymentRequired{
		X402Version: 2, Resource: x402.Resource{URL: s.URL + purchasePath},
		Accepts: []x402.Requirements{{
			Scheme: x402.Scheme, Network: x402.NetworkID, Amount: "25000000", Asset: testUSDC.String(), PayTo: s.payTo.String(),
			MaxTimeoutSeconds: 240, Extra: map[string]any{"name": "USD Coin", "version": "2", "quoteId": "quote"},
		}},
	})
	if err != nil {
		s.t.Error(err)
	}
	w.Header().Set(x402.HeaderRequired, header)
	s.problem(w, fault.New(fault.PaymentRequired, "Pay 25.00."))
}

func (s *service) purchase(w http.ResponseWriter, r *http.Request) {
	var body map[string]string
	s.read(r, &body)
	if len(body) != 1 || body["idempotencyKey"] == "" {
		s.t.Errorf("purchase of %v", body)
	}
	header := r.Header.Get(x402.HeaderSignature)
	if header == "" {
		s.demand(w)
		return
	}
	s.headers = append(s.headers, header)
	if len(s.headers) == 1 {
		defer close(s.seen)
	}
	pay, err := x402.DecodePayment(header)
	if err != nil || s.domain().Verify(pay.Authorization, pay.Signature) != nil {
		s.t.Errorf("payment %v, %v", pay.Accepted, err)
	}
	a := pay.Authorization
	if pay.Accepted.Extra["quoteId"] != "quote" || a.To != testPayee || a.Value != 25_000_000 ||
		a.Nonce != paymentNonce(s.URL, purchasePath, a.From, body["idempotencyKey"]) {
		s.t.Errorf("authorization %+v of %v", a, pay.Accepted)
	}
	if s.redirect != "" {
		http.Redirect(w, r, s.redirect, http.StatusTemporaryRedirect)
		return
	}
	if s.refuse != nil {
		s.problem(w, s.refuse)
		return
	}
	if s.ownsMeantime {
		s.ownsMeantime, s.owners[a.From] = false, true
		s.problem(w, fault.New(fault.CardAlreadyExists, "This wallet has a card."))
		return
	}
	if s.owners[a.From] && !s.spent[a.Nonce] {
		s.problem(w, fault.New(fault.CardAlreadyExists, "This wallet has a card."))
		return
	}
	replayed := s.spent[a.Nonce]
	if !replayed {
		s.spent[a.Nonce], s.owners[a.From], s.buyer = true, true, a.From
		s.balances[a.From] -= a.Value * money.USDC(s.charges)
	}
	if len(s.hurry) > 0 {
		f := s.hurry[0]
		s.hurry = s.hurry[1:]
		s.problem(w, f)
		return
	}
	s.sold(w, a, replayed)
}

func (s *service) sold(w http.ResponseWriter, a x402.Authorization, replayed bool) {
	receipt, err := x402.EncodeSettlement(x402.Settlement{Success: true, Transaction: a.Nonce.String(), Network: x402.NetworkID, Payer: a.From.String()})
	if err != nil {
		s.t.Error(err)
	}
	w.Header().Set(x402.HeaderResponse, receipt)
	s.write(w, map[string]any{
		"orderId": testOrder, "status": "settled", "replayed": replayed,
		"payment": map[string]any{"transaction": a.Nonce.String(), "payer": a.From.String()}, "issuance": map[string]any{"status": "queued"},
	})
}

// ask makes a message to sign for a wallet.
func (s *service) ask(w http.ResponseWriter, address, statement string, resources []string) {
	a, err := x402.ParseAddress(address)
	if err != nil {
		s.t.Error(err)
	}
	s.message = auth.Message{
		Domain: s.host(), Address: a, Statement: statement, URI: s.URL, ChainID: x402.ChainID, Nonce: "abcdefgh12345678",
		IssuedAt: "2026-01-02T03:04:05.000Z", RequestID: "intent-1", Resources: resources,
	}
	if s.otherDomain {
		s.message.Domain = "elsewhere.example"
	}
	s.write(w, map[string]any{"intentId": "intent-1", "messageScheme": "eip191", "message": s.message.Format()})
}

func (s *service) challenge(w http.ResponseWriter, r *http.Request) {
	var body struct{ Address string }
	s.read(r, &body)
	s.ask(w, body.Address, "Sign in to roamcard.", nil)
}

func (s *service) proven(r *http.Request) map[string]string {
	var body map[string]string
	s.read(r, &body)
	signer, err := auth.Recover(auth.PersonalDigest(s.message.Format()), body["signature"])
	if err != nil || signer != s.message.Address || body["intentId"] != "intent-1" {
		s.t.Errorf("%s: signed by %s, %v", r.URL.Path, signer, err)
	}
	return body
}

func (s *service) verify(w http.ResponseWriter, r *http.Request) {
	s.proven(r)
	s.write(w, map[string]any{"accessToken": testToken, "scopes": []string{"orders", "cards", "reveal"}})
}

func (s *service) owner(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+testToken {
			s.problem(w, fault.New(fault.SessionInvalid, "No session."))
			return
		}
		next(w, r)
	}
}

func (s *service) ensure(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		s.t.Error("POST /api/cards takes no body")
	}
	if s.owners[s.message.Address] {
		s.write(w, map[string]any{"id": testCard})
		return
	}
	s.problem(w, fault.New(fault.PaidIssueRequired, "This wallet has no card."))
}

// order is fulfilled at the third look; the balance is final at the second.
func (s *service) order(w http.ResponseWriter, r *http.Request) {
	s.looks["order"]++
	status, issuance := "provisioning", map[string]any{"status": "pending", "cardId": testCard}
	if s.looks["order"] > 2 && !s.stuck {
		status, issuance["status"] = s.finalStatus, "active"
	}
	s.write(w, map[string]any{"orderId": r.PathValue("id"), "status": status, "issuance": issuance})
}

func (s *service) balance(w http.ResponseWriter, _ *http.Request) {
	s.looks["balance"]++
	switch s.looks["balance"] {
	case 1:
		s.write(w, map[string]any{"availableUsdCents": 2500})
	case 2:
		s.problem(w, fault.New(fault.DependencyDown, "The card issuer does not answer."))
	default:
		s.write(w, map[string]any{"availableUsdCents": 1500})
	}
}

func (s *service) revealChallenge(w http.ResponseWriter, r *http.Request) {
	var body struct{ RecipientKey string }
	s.read(r, &body)
	key, err := auth.ParseRecipientKey(body.RecipientKey)
	if err != nil {
		s.t.Error(err)
	}
	s.key = body.RecipientKey
	s.ask(w, s.buyer.String(), "Reveal card.", []string{
		"urn:roamcard:card:" + testCard, "urn:roamcard:recipient-key:" + base64.RawURLEncoding.EncodeToString(key),
	})
}

func (s *service) reveal(w http.ResponseWriter, r *http.Request) {
	s.proven(r)
	key, err := auth.ParseRecipientKey(s.key)
	if err != nil {
		s.t.Error(err)
	}
	plain := fmt.Sprintf(`{"number":%q,"expiryMonth":7,"expiryYear":2029,"securityCode":%q}`, testNumber, testCode)
	enc, box, err := auth.Seal(key, []byte(auth.RevealInfo), []byte(testCard), []byte(plain))
	if err != nil {
		s.t.Error(err)
	}
	s.write(w, map[string]any{"cardId": testCard, "sealed": map[string]any{"suite": auth.SealSuite, "enc": enc, "ciphertext": box}})
}
