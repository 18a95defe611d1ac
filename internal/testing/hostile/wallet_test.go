package hostile_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/testing/invariants"
)

// wallet is a key, and whoever asks with it.
type wallet struct {
	*caller
	key     *ecdsa.PrivateKey
	address common.Address
	// funded is what it was given in units, and token its session.
	funded *atomic.Int64
	token  string
}

// wallet makes a wallet with so many dollars, at an address of its own.
func (w *world) wallet(dollars int64) *wallet {
	w.t.Helper()
	p := &wallet{caller: w.caller(), funded: &atomic.Int64{}}
	p.key, p.address = newKey(w.t)
	if dollars > 0 {
		p.funds(dollars * 1_000_000)
	}
	return p
}

// funds sets what the wallet has, and what it was given in all, in units.
func (p *wallet) funds(units int64) {
	p.w.t.Helper()
	p.funded.Store(units)
	p.w.fund(p.address, units)
}

func newKey(t testing.TB) (*ecdsa.PrivateKey, common.Address) {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key, crypto.PubkeyToAddress(key.PublicKey)
}

func newAddress(t testing.TB) common.Address {
	t.Helper()
	_, address := newKey(t)
	return address
}

// terms are what a challenge asks for.
type terms struct {
	Resource   any                       `json:"resource"`
	Accepts    []map[string]any          `json:"accepts"`
	Extensions map[string]map[string]any `json:"extensions"`
}

// terms asks what something costs. A refusal ends the test.
func (c *caller) terms(t testing.TB, path string, body any) terms {
	t.Helper()
	a := heeding(t.Context(), func() answer { return c.send(t.Context(), http.MethodPost, path, body) })
	if a.status != http.StatusPaymentRequired {
		t.Fatalf("the terms of %s: %d %.300s %v", path, a.status, a.body, a.err)
	}
	return a.terms(t)
}

// terms are those in a refusal for lack of payment.
func (a answer) terms(t testing.TB) terms {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(a.header.Get(headerRequired))
	var offered terms
	if err == nil {
		err = json.Unmarshal(raw, &offered)
	}
	if err != nil || len(offered.Accepts) == 0 {
		t.Fatalf("%d with the terms %q: %v", a.status, raw, err)
	}
	return offered
}

// authorization is what the token takes: EIP-3009.
type authorization struct {
	From, To      common.Address
	Value         *big.Int
	After, Before uint64
	Nonce         [32]byte
}

// payment is an authorization with what it answers to.
type payment struct {
	authorization
	Resource  any
	Accepted  map[string]any
	Version   any
	Signature []byte
	// Domain is what the signature is for.
	Domain [32]byte
	// change alters the header's JSON at the very end.
	change func(payload, authorization map[string]any)
}

// domain is the token's EIP-712 separator.
func domain(name, version string, chain int64, token string) [32]byte {
	kind := crypto.Keccak256([]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"))
	return [32]byte(crypto.Keccak256(kind, crypto.Keccak256([]byte(name)), crypto.Keccak256([]byte(version)),
		word(big.NewInt(chain)), common.LeftPadBytes(common.HexToAddress(token).Bytes(), 32)))
}

func word(n *big.Int) []byte { return common.LeftPadBytes(n.Bytes(), 32) }

func number(n uint64) []byte { return word(new(big.Int).SetUint64(n)) }

// words are the authorization as the token's calls have it.
func (a authorization) words() []byte {
	return slices.Concat(common.LeftPadBytes(a.From.Bytes(), 32), common.LeftPadBytes(a.To.Bytes(), 32), word(a.Value),
		number(a.After), number(a.Before), a.Nonce[:])
}

// sign65 signs a hash under a domain: r, s and v of 27 or 28.
func (p *wallet) sign65(domain [32]byte, hash []byte) []byte {
	signature, err := crypto.Sign(crypto.Keccak256([]byte{0x19, 0x01}, domain[:], hash), p.key)
	if err != nil {
		p.w.t.Fatal(err)
	}
	signature[64] += 27
	return signature
}

const transferType = "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 " +
	"validBefore,bytes32 nonce)"

// pays makes a payment of the terms; changes are made before it is signed.
func (p *wallet) pays(t testing.TB, o terms, changes ...func(*payment)) payment {
	t.Helper()
	amount, _ := new(big.Int).SetString(o.Accepts[0]["amount"].(string), 10)
	made := payment{
		authorization: authorization{
			From: p.address, To: common.HexToAddress(o.Accepts[0]["payTo"].(string)), Value: amount,
			Before: uint64(time.Now().Add(2 * time.Minute).Unix()),
		},
		Resource: o.Resource, Accepted: cloned(t, o.Accepts[0]), Version: 2,
		Domain: domain("USD Coin", "2", 8453, p.w.books.USDC),
	}
	_, _ = rand.Read(made.Nonce[:]) // never fails
	for _, change := range changes {
		change(&made)
	}
	if made.Signature == nil {
		made.Signature = p.sign65(made.Domain, crypto.Keccak256(crypto.Keccak256([]byte(transferType)), made.words()))
	}
	return made
}

func cloned(t testing.TB, m map[string]any) (out map[string]any) {
	t.Helper()
	text, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// header is the payment as it is sent. Its signature is a secret as long as it was not spent.
func (m payment) header(t testing.TB) string {
	t.Helper()
	a := map[string]any{
		"from": m.From.Hex(), "to": m.To.Hex(), "value": m.Value.String(), "validAfter": fmt.Sprint(m.After),
		"validBefore": fmt.Sprint(m.Before), "nonce": "0x" + hex.EncodeToString(m.Nonce[:]),
	}
	payload := map[string]any{
		"x402Version": m.Version, "resource": m.Resource, "accepted": m.Accepted,
		"payload": map[string]any{"signature": "0x" + hex.EncodeToString(m.Signature), "authorization": a},
	}
	if m.change != nil {
		m.change(payload, a)
	}
	text, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(text)
}

// decoded and encoded are the two directions of a header's text.
func decoded(t testing.TB, header string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(header)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// offers sends a payment, and notes the answer for the invariants.
func (p *wallet) offers(ctx context.Context, path string, body any, header string) answer {
	at := time.Now()
	a := p.send(ctx, http.MethodPost, path, body, headerPayment, header)
	var o order
	if a.status == http.StatusOK {
		_ = json.Unmarshal(a.body, &o) // the invariants see what is missing
	}
	key := ""
	if m, ok := body.(map[string]any); ok {
		key, _ = m["idempotencyKey"].(string)
	}
	if a.err == nil && key != "" {
		p.w.saw(invariants.Answer{
			Payer: p.address.Hex(), Key: key, Paid: true, Status: a.status, OrderID: o.OrderID,
			Transaction: o.Payment.Transaction, Amount: o.Payment.Amount, At: at,
		})
	}
	return a
}

// order is what a 200 tells.
type order struct {
	OrderID, Status string
	PayableURL      string `json:"payable_url"`
	Replayed        bool
	Payment         struct{ Transaction, Amount, Payer string }
	Issuance        struct{ Status, CardID string }
	Delivery        struct{ Token, Status string }
}

// The paths that sell.
const (
	cardPath  = "/api/card/purchase"
	topupPath = "/api/card/topup"
	esimPath  = "/api/esim/purchase"
)

// keyed is the body of a purchase with a key.
func keyed(key string) map[string]any { return map[string]any{"idempotencyKey": key} }

// buys pays for something, and ends the test when it does not get it.
func (p *wallet) buys(t testing.TB, path string) (o order, header string) {
	t.Helper()
	body := keyed(uuid.NewString())
	header = p.pays(t, p.terms(t, path, body)).header(t)
	p.offers(t.Context(), path, body, header).into(t, &o)
	return o, header
}

// owns buys a card and waits until it can be used.
func (p *wallet) owns(t testing.TB) (card string) {
	t.Helper()
	o, _ := p.buys(t, cardPath)
	if p.token == "" {
		p.signsIn(t)
	}
	p.w.await("the card is active", func() error {
		p.get(t, "/api/orders/"+o.OrderID).into(t, &o)
		if o.Issuance.Status != "active" {
			return fmt.Errorf("it is %s", o.Issuance.Status)
		}
		return nil
	})
	return o.Issuance.CardID
}

// get and post ask with the wallet's session.
func (p *wallet) get(t testing.TB, path string) answer {
	return p.send(t.Context(), http.MethodGet, path, nil, p.bearer()...)
}

func (p *wallet) post(t testing.TB, path string, body any, headers ...string) answer {
	return p.send(t.Context(), http.MethodPost, path, body, append(p.bearer(), headers...)...)
}

func (p *wallet) bearer() []string { return []string{"Authorization", "Bearer " + p.token} }

// intent is a message to sign.
type intent struct{ IntentID, Message string }

func (p *wallet) signsIn(t testing.TB) {
	t.Helper()
	var c intent
	p.send(t.Context(), http.MethodPost, "/api/auth/challenge", map[string]any{"address": p.address.Hex()}).into(t, &c)
	var session struct{ AccessToken string }
	p.send(t.Context(), http.MethodPost, "/api/auth/verify", map[string]any{
		"address": p.address.Hex(), "intentId": c.IntentID, "message": c.Message, "signature": p.says(t, c.Message),
	}).into(t, &session)
	p.token = session.AccessToken
	p.w.keep("a session", p.token)
}

// says signs a text by EIP-191.
func (p *wallet) says(t testing.TB, text string) string {
	t.Helper()
	signature, err := crypto.Sign(accounts.TextHash([]byte(text)), p.key)
	if err != nil {
		t.Fatal(err)
	}
	signature[64] += 27
	return "0x" + hex.EncodeToString(signature)
}

// cancelHash is what a payer signs to make an authorization void.
func (p *wallet) cancelHash(a authorization) []byte {
	kind := crypto.Keccak256([]byte("CancelAuthorization(address authorizer,bytes32 nonce)"))
	return crypto.Keccak256(kind, common.LeftPadBytes(a.From.Bytes(), 32), a.Nonce[:])
}

// moved is how many millionths of a dollar have left the wallet.
func (p *wallet) moved() int64 { return p.funded.Load() - p.w.units(p.address) }

// used is the token's state of an authorization.
func (w *world) used(a authorization) bool {
	w.t.Helper()
	var state string
	data := slices.Concat(selector("authorizationState(address,bytes32)"), common.LeftPadBytes(a.From.Bytes(), 32),
		a.Nonce[:])
	w.rpc(&state, "eth_call", map[string]any{"to": w.books.USDC, "data": "0x" + hex.EncodeToString(data)}, "latest")
	return strings.Trim(state, "0x") != ""
}
