package endtoend_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

const purchasePath = "/api/card/purchase"

// buyer is a wallet with its key at hand.
type buyer struct {
	w       *world
	key     *ecdsa.PrivateKey
	address x402.Address
	// token is the buyer's session once there is one.
	token string
	// clientIP is the buyer's address as the trusted proxy reports it; empty means the proxy's own.
	clientIP string
}

// buyer makes a wallet with 1,000 USDC.
func (w *world) buyer() *buyer {
	w.t.Helper()
	b := w.unfundedBuyer()
	w.fund(b.address, 1_000_000_000)
	return b
}

// buyers makes wallets with 1,000 USDC each, all of them in a few calls.
func (w *world) buyers(n int) []*buyer {
	w.t.Helper()
	all, calls := make([]*buyer, n), make([]rpc.BatchElem, n)
	for i := range all {
		all[i] = w.unfundedBuyer()
		slot, value := balanceSlot(all[i].address, 1_000_000_000)
		calls[i] = rpc.BatchElem{Method: "anvil_setStorageAt", Args: []any{usdc().String(), slot, value}, Result: new(bool)}
	}
	for part := range slices.Chunk(calls, 100) {
		if err := w.node.BatchCallContext(context.WithoutCancel(w.t.Context()), part); err != nil {
			w.t.Fatalf("fund %d wallets: %v", n, err)
		}
		for _, c := range part {
			if c.Error != nil {
				w.t.Fatalf("fund a wallet: %v", c.Error)
			}
		}
	}
	w.mine(1) // as in fund
	return all
}

// unfundedBuyer makes a wallet with nothing.
func (w *world) unfundedBuyer() *buyer {
	w.t.Helper()
	key := newKey(w.t)
	return &buyer{w: w, key: key, address: addressOf(key)}
}

// domain is the token's, which payers sign over.
func domain() x402.Domain {
	return x402.Domain{Name: "USD Coin", Version: "2", ChainID: x402.ChainID, Contract: usdc()}
}

// price is what a card costs.
func price() money.USDC { return card.Price.USDC() }

// payment is a good payment for a card, signed after the changes.
func (b *buyer) payment(changes ...func(*x402.Payment)) x402.Payment {
	b.w.t.Helper()
	p := x402.Payment{
		Accepted: x402.Requirements{
			Scheme: x402.Scheme, Network: x402.NetworkID, Amount: price().String(), Asset: usdc().String(),
			PayTo: b.w.payTo.String(), MaxTimeoutSeconds: 120, Extra: map[string]any{"name": "USD Coin", "version": "2"},
		},
		Resource: x402.Resource{URL: origin + purchasePath},
		Authorization: x402.Authorization{
			From: b.address, To: b.w.payTo, Value: price(), ValidBefore: uint64(time.Now().Add(2 * time.Minute).Unix()),
			Nonce: newNonce(),
		},
	}
	for _, change := range changes {
		change(&p)
	}
	return b.signed(p)
}

func (b *buyer) signed(p x402.Payment) x402.Payment {
	b.w.t.Helper()
	var err error
	if p.Signature, err = curve.Sign(domain(), p.Authorization, b.key); err != nil {
		b.w.t.Fatal(err)
	}
	return p
}

func newNonce() x402.Hash {
	var n x402.Hash
	_, _ = rand.Read(n[:]) // never fails
	return n
}

// header writes a payment as its header.
func header(t *testing.T, p x402.Payment) string {
	t.Helper()
	h, err := x402.EncodePayment(p)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// paymentJSON is a payment's JSON, to be changed in ways that no type of ours can hold.
func paymentJSON(t *testing.T, p x402.Payment) map[string]any {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(header(t, p))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func encodeHeader(t *testing.T, m map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// purchase is the request that buys a card with a payment header; an empty one asks for the terms.
func purchase(key, payment string) request {
	return post(purchasePath, purchaseBody(key)).paying(payment)
}

// buy pays for a card with a fresh authorization.
func (b *buyer) buy(key string) answer {
	return b.w.send(purchase(key, header(b.w.t, b.payment())))
}

// buySettled is buy by a buyer who repeats the request as the answers advise.
func (b *buyer) buySettled(key string) answer {
	return b.w.send(purchase(key, header(b.w.t, b.payment()))).settled()
}

// paidOrder is the part of an order that the tests look at.
type paidOrder struct {
	OrderID  string `json:"orderId"`
	Status   string `json:"status"`
	Replayed bool   `json:"replayed"`
	Payment  struct {
		Payer       string `json:"payer"`
		Transaction string `json:"transaction"`
		Amount      string `json:"amount"`
	} `json:"payment"`
	Issuance struct {
		Status string `json:"status"`
		CardID string `json:"cardId"`
	} `json:"issuance"`
}

// buyCard buys a card and waits until it is active and its fee is withdrawn.
func (b *buyer) buyCard(key string) paidOrder {
	b.w.t.Helper()
	o, err := b.buyRetrying(key)
	if err != nil {
		b.w.t.Fatal(err)
	}
	b.w.awaitSettled()
	b.signIn()
	b.get("/api/orders/"+o.OrderID).into(b.w.t, 200, &o)
	if o.Issuance.CardID == "" || o.Status != "fulfilled" {
		b.w.t.Fatalf("order %+v, want fulfilled with a card", o)
	}
	return o
}

// challenge is a message that a wallet signs to prove itself.
type challenge struct{ IntentID, Message string }

func challengeRequest(address string) request {
	return post("/api/auth/challenge", `{"address":`+jsonText(address)+`}`)
}

func (b *buyer) signInChallenge() (ch challenge) {
	b.w.t.Helper()
	b.w.send(challengeRequest(b.address.String()).withHeader("X-Forwarded-For", b.clientIP)).into(b.w.t, 200, &ch)
	return ch
}

// signIn gets the buyer a session.
func (b *buyer) signIn() {
	b.w.t.Helper()
	var session struct{ AccessToken string }
	verify := b.verifying(b.signInChallenge(), nil).withHeader("X-Forwarded-For", b.clientIP)
	b.w.send(verify).into(b.w.t, 200, &session)
	b.token = session.AccessToken
}

func (b *buyer) revealChallenge(card string) (ch challenge) {
	b.w.t.Helper()
	b.post("/api/cards/"+card+"/reveal-challenge", "{}").into(b.w.t, 200, &ch)
	return ch
}

// reveal asks for the number of a card.
func (b *buyer) reveal(card string) answer {
	b.w.t.Helper()
	ch := b.revealChallenge(card)
	return b.post("/api/cards/"+card+"/reveal", revealBody(ch.IntentID, b.sign(ch.Message)))
}

// sign is personal_sign.
func (b *buyer) sign(text string) string {
	b.w.t.Helper()
	digest := handshake.PersonalDigest(text)
	sig, err := crypto.Sign(digest[:], b.key)
	if err != nil {
		b.w.t.Fatal(err)
	}
	sig[64] += 27
	return "0x" + hex.EncodeToString(sig)
}

func (b *buyer) get(path string) answer {
	return b.w.send(request{method: "GET", path: path, header: b.bearer()})
}

func (b *buyer) post(path, body string) answer {
	return b.w.send(request{path: path, body: body, header: b.bearer()})
}

func (b *buyer) bearer() map[string]string {
	return map[string]string{"Authorization": "Bearer " + b.token, "X-Forwarded-For": b.clientIP}
}

// withHighS is the same signature with s in the upper half of the curve's order, valid to a lenient verifier.
func withHighS(s x402.Signature) x402.Signature {
	n := crypto.S256().Params().N
	rs := []byte(s[:64])
	high := bigInt(rs[32:])
	high.Sub(n, high).FillBytes(rs[32:])
	return x402.KeySignature(rs, 28-s[64])
}

func moneyOf(atomic int64) money.USDC { return money.USDC(atomic) }
