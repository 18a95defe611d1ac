package crash_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/testing/invariants"
	"github.com/roamcard/roamcard/internal/x402"
)

// buyer is a wallet that buys one thing, and repeats its request until it has it.
type buyer struct {
	world *world
	// at says which process it asks; nil is the world's. begunAt is where it began.
	at      func() string
	begunAt string
	key     *ecdsa.PrivateKey
	address x402.Address
	// purchase is its idempotency key.
	purchase string
	// toppingUp makes it buy credit for the card it has.
	toppingUp bool
	// later makes it create an order first and pay that; payable is where, once the order is known.
	later   bool
	payable string
	// refused makes the issuer refuse what it buys, for good: the money has to come back.
	refused bool
	// travelling makes it buy the cheapest eSIM.
	travelling bool
	// extends is the order of the eSIM that it buys more data for; empty when it buys none.
	extends string
	// offer is the challenge's; the same at every signing.
	offer    x402.Requirements
	resource x402.Resource
	http     *http.Client
}

func (w *world) buyer(t testing.TB) *buyer {
	t.Helper()
	key := w.wallet(t)
	return &buyer{
		world: w, key: key, address: x402.Address(crypto.PubkeyToAddress(key.PublicKey)), purchase: uuid.NewString(),
		// Each request has a connection of its own: one of a killed server would fail.
		http: &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

// turnToTopup makes the next purchase one of credit.
func (b *buyer) turnToTopup() {
	b.purchase, b.toppingUp = uuid.NewString(), true
	b.offer = x402.Requirements{}
}

// turnToRefusal makes the issuer refuse the purchase, which the sandbox reads in the key.
func (b *buyer) turnToRefusal() {
	b.purchase, b.refused = b.purchase+"~002", true
}

// bought is what a 200 tells.
type bought struct {
	Order struct {
		OrderID  string
		Status   string
		Replayed bool
		Payment  struct{ Transaction, Amount string }
		Issuance struct{ Status, CardID string }
	}
}

// ask sends the purchase with a payment, or with none, and notes the answer. An error is a connection
// that ended without one.
func (b *buyer) ask(ctx context.Context, payment string) (int, http.Header, bought, error) {
	at := time.Now()
	path, request := "/api/card/purchase", map[string]any{"idempotencyKey": b.purchase}
	if b.toppingUp {
		path, request["amountUsdCents"] = "/api/card/topup", 3333
	}
	if b.travelling {
		path = "/api/esim/purchase"
	}
	if b.extends != "" {
		path = "/api/esim/orders/" + b.extends + "/topup"
	}
	body, err := json.Marshal(request)
	if err != nil {
		return 0, nil, bought{}, err
	}
	if b.later {
		path, body = b.payable, nil
	}
	addr := b.world.addr
	if b.at != nil {
		addr = b.at()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, bought{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if payment != "" {
		req.Header.Set(x402.HeaderSignature, payment)
	}
	res, err := b.http.Do(req)
	if err != nil {
		return 0, nil, bought{}, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, bought{}, err
	}
	var got bought
	if res.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, &got.Order); err != nil {
			return 0, nil, bought{}, fmt.Errorf("read the order: %w", err)
		}
		if got.Order.OrderID == "" {
			return 0, nil, bought{}, fmt.Errorf("no order in %s", text)
		}
	}
	b.world.saw(invariants.Answer{
		Payer: b.address.String(), Key: b.purchase, Paid: payment != "", Status: res.StatusCode, OrderID: got.Order.OrderID,
		Transaction: got.Order.Payment.Transaction, Amount: got.Order.Payment.Amount, At: at,
	})
	return res.StatusCode, res.Header, got, nil
}

// challenge learns the terms.
func (b *buyer) challenge(ctx context.Context) error {
	if b.later && b.payable == "" {
		if err := b.create(ctx); err != nil {
			return err
		}
	}
	status, header, _, err := b.ask(ctx, "")
	if err != nil {
		return err
	}
	if status != http.StatusPaymentRequired {
		return fmt.Errorf("an unpaid purchase is answered %d", status)
	}
	required, err := x402.DecodeRequired(header.Get(x402.HeaderRequired))
	if err != nil {
		return err
	}
	b.offer, b.resource = required.Accepts[0], required.Resource
	return nil
}

// sign makes a payment with an authorization of its own.
func (b *buyer) sign(t testing.TB) string {
	t.Helper()
	payTo, err := x402.ParseAddress(b.offer.PayTo)
	if err != nil {
		t.Fatal(err)
	}
	var amount int64
	if _, err := fmt.Sscan(b.offer.Amount, &amount); err != nil {
		t.Fatal(err)
	}
	a := x402.Authorization{
		From: b.address, To: payTo, Value: money.USDC(amount), ValidBefore: uint64(time.Now().Add(20 * time.Minute).Unix()),
	}
	_, _ = rand.Read(a.Nonce[:]) // never fails
	signature, err := curve.Sign(b.world.domain, a, b.key)
	if err != nil {
		t.Fatal(err)
	}
	header, err := x402.EncodePayment(x402.Payment{
		Accepted: b.offer, Resource: b.resource, Authorization: a, Signature: signature,
	})
	if err != nil {
		t.Fatal(err)
	}
	return header
}

// insist repeats the request until the answer is the order, like a client that has lost an answer: after an error, a
// 503 and, for a payment that was never claimed, nothing else.
func (b *buyer) insist(t testing.TB, payment string) bought {
	t.Helper()
	var got bought
	b.world.await(t, "the purchase is answered", func() error {
		status, _, answer, err := b.ask(t.Context(), payment)
		if err != nil {
			return err
		}
		got = answer
		if status != http.StatusOK {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
	return got
}

// cancel makes the payer's authorization void on chain, as a wallet can at any time before it is used.
func (b *buyer) cancel(t testing.TB, payment string) {
	t.Helper()
	pay, err := x402.DecodePayment(payment)
	if err != nil {
		t.Fatal(err)
	}
	typeHash := crypto.Keccak256([]byte("CancelAuthorization(address authorizer,bytes32 nonce)"))
	message := crypto.Keccak256(typeHash, word(b.address[:]), pay.Authorization.Nonce[:])
	separator := b.world.domain.Separator()
	signature, err := crypto.Sign(crypto.Keccak256([]byte{0x19, 0x01}, separator[:], message), b.key)
	if err != nil {
		t.Fatal(err)
	}
	b.send(t, slices.Concat(selector("cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)"),
		word(b.address[:]), pay.Authorization.Nonce[:], word([]byte{signature[64] + 27}), signature[:64]))
}

// send makes the buyer call the token itself, past the service.
func (b *buyer) send(t testing.TB, call []byte) {
	t.Helper()
	b.world.rpc(t, "anvil_setBalance", b.address.String(), "0xde0b6b3a7640000")
	b.world.rpc(t, "anvil_impersonateAccount", b.address.String())
	b.world.rpc(t, "eth_sendTransaction", map[string]string{
		"from": b.address.String(), "to": b.world.books.USDC, "data": fmt.Sprintf("0x%x", call), "gas": "0x30d40",
	})
}

func selector(signature string) []byte { return crypto.Keccak256([]byte(signature))[:4] }

// word is a value as the ABI has it, in 32 bytes.
func word(b []byte) []byte { return append(make([]byte, 32-len(b)), b...) }
