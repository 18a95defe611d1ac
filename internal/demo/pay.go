package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	purchasePath = "/api/card/purchase"
	// hangUpAfter lets the service take the payment in, and hangs up on it while it settles.
	hangUpAfter = 50 * time.Millisecond
	// maxSends bounds how often one payment is presented for one answer.
	maxSends = 8
	// The pause between two of them, doubling, when the service does not say.
	firstPause, lastPause = 250 * time.Millisecond, 4 * time.Second
	// maxWindow is how many seconds a signed payment may stay good.
	maxWindow = 3600
	// backdate is how far validAfter lies back, for chains whose clock is behind ours.
	backdate = 10 * time.Minute
)

// terms are what a challenge must ask for, and what was then offered.
type terms struct {
	network  string
	domain   x402.Domain
	payTo    x402.Address
	amount   money.USDC
	resource string
	// offer is the challenge's, set once it is checked.
	offer    x402.Requirements
	resolved x402.Resource
}

// order is an order as the service shows it.
type order struct {
	OrderID  string `json:"orderId"`
	Status   string `json:"status"`
	Replayed bool   `json:"replayed"`
	Payment  struct {
		Transaction string `json:"transaction"`
		Payer       string `json:"payer"`
	} `json:"payment"`
	Issuance struct {
		Status string `json:"status"`
		CardID string `json:"cardId"`
	} `json:"issuance"`
}

// askPrice asks for the card without paying and checks every term of the challenge, before anything
// is signed.
func (s *story) askPrice(ctx context.Context) error {
	s.begin("Ask for the card without paying")
	var none order
	err := s.client.post(ctx, purchasePath, telemetry.Secret{}, s.body(), &none)
	p, ok := errors.AsType[*Problem](err)
	switch {
	case err == nil:
		return fmt.Errorf("%w: a card was given away unpaid", ErrTerms)
	case !ok || p.Status != http.StatusPaymentRequired:
		return err
	}
	required, err := x402.DecodeRequired(p.Header.Get(x402.HeaderRequired))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTerms, err)
	}
	if err := s.terms.check(required); err != nil {
		return err
	}
	s.say("POST %s answers 402 with the terms in %s:", purchasePath, x402.HeaderRequired)
	s.say("  amount    %s units = %s USDC", s.terms.offer.Amount, dollars(s.terms.amount))
	s.say("  asset     %s", s.terms.offer.Asset)
	s.say("  network   %s", s.terms.offer.Network)
	s.say("  payee     %s", s.terms.offer.PayTo)
	s.say("  resource  %s", s.terms.resolved.URL)
	s.say("All of it is what the service publishes. Nothing is signed yet.")
	return nil
}

func (s *story) body() map[string]string { return map[string]string{"idempotencyKey": s.key} }

// check takes the challenge's offer if it asks for exactly what is expected.
func (t *terms) check(r x402.PaymentRequired) error {
	wrong := func(what string, got, want any) error {
		return fmt.Errorf("%w: the 402 names the %s %v, expected %v; nothing was signed", ErrTerms, what, got, want)
	}
	if r.X402Version != x402.Version {
		return wrong("x402 version", r.X402Version, x402.Version)
	}
	if len(r.Accepts) != 1 {
		return wrong("number of offers", len(r.Accepts), 1)
	}
	offer := r.Accepts[0]
	payTo, payErr := x402.ParseAddress(offer.PayTo)
	asset, assetErr := x402.ParseAddress(offer.Asset)
	switch {
	case offer.Scheme != x402.Scheme:
		return wrong("scheme", offer.Scheme, x402.Scheme)
	case offer.Network != t.network:
		return wrong("network", offer.Network, t.network)
	case assetErr != nil || asset != t.domain.Contract:
		return wrong("asset", offer.Asset, t.domain.Contract)
	case payErr != nil || payTo != t.payTo:
		return wrong("payee", offer.PayTo, t.payTo)
	case offer.Amount != t.amount.String():
		return wrong("amount", offer.Amount, t.amount)
	case r.Resource.URL != t.resource:
		return wrong("resource", r.Resource.URL, t.resource)
	case offer.Extra["name"] != t.domain.Name || offer.Extra["version"] != t.domain.Version:
		return wrong("signing domain", offer.Extra["name"], t.domain.Name)
	case offer.MaxTimeoutSeconds <= 0 || offer.MaxTimeoutSeconds > maxWindow:
		return wrong("payment window in seconds", offer.MaxTimeoutSeconds, "1 to "+strconv.Itoa(maxWindow))
	}
	t.offer, t.resolved = offer, r.Resource
	return nil
}

// pay signs once and sends the same bytes until the answer is known: the first answer is lost on
// purpose, and a last repeat shows that paying again is impossible.
func (s *story) pay(ctx context.Context) error {
	s.summary.PaidRequests = 0
	s.begin("Sign the payment and lose the answer on purpose")
	header, err := s.sign()
	if err != nil {
		return err
	}
	body, err := json.Marshal(s.body())
	if err != nil {
		return fmt.Errorf("encode the purchase: %w", err)
	}
	s.say("Signed an EIP-3009 authorization of %s USDC. Its nonce is derived from address, wallet", dollars(s.terms.amount))
	s.say("and idempotency key, so the token itself refuses a second payment for this purchase.")
	if err := s.loseAnswer(ctx, header, body); err != nil {
		return err
	}
	s.say("Sent it with %s and hung up without reading an answer. Has it been paid? Unknown.", x402.HeaderSignature)

	s.begin("Repeat the same request, byte for byte")
	first, err := s.send(ctx, header, body)
	if err != nil {
		return err
	}
	s.order, s.summary.OrderID, s.summary.Transaction = first, first.OrderID, first.Payment.Transaction
	if first.Replayed {
		s.say("The lost request had bought it: the order comes from the record (replayed: true).")
	} else {
		s.say("The lost request had not been taken in yet: this one bought it.")
	}
	s.say("Order        %s", first.OrderID)
	s.say("Transaction  %s", first.Payment.Transaction)
	return s.prove(ctx, header, body)
}

// prove repeats a paid request and reads on chain that the money moved once.
func (s *story) prove(ctx context.Context, header string, body []byte) error {
	s.begin("Repeat it once more and count the money")
	again, err := s.send(ctx, header, body)
	if err != nil {
		return err
	}
	if !again.Replayed || again.OrderID != s.order.OrderID || again.Payment.Transaction != s.order.Payment.Transaction {
		return fmt.Errorf("%w: the repeat is order %s by transaction %s, replayed %v; expected a replay of order %s",
			ErrOutcome, again.OrderID, again.Payment.Transaction, again.Replayed, s.order.OrderID)
	}
	after, err := balance(ctx, s.HTTP, s.RPCURL, s.terms.domain.Contract, s.wallet.address)
	if err != nil {
		return err
	}
	if s.before-after != s.terms.amount {
		return fmt.Errorf("%w: the wallet went from %s to %s USDC; expected to pay %s once",
			ErrOutcome, dollars(s.before), dollars(after), dollars(s.terms.amount))
	}
	s.summary.Replayed, s.summary.Transfers, s.summary.SpentUSDCents = true, 1, s.shop.Card.Price
	s.say("The same order and the same transaction again (replayed: true).")
	s.say("Balance on chain: %s, before %s. The request went out %d times; %s USDC moved once.",
		dollars(after), dollars(s.before), s.summary.PaidRequests, dollars(s.terms.amount))
	return nil
}

// sign makes the payment header, once for a wallet and a key.
func (s *story) sign() (string, error) {
	now := s.Now()
	a := x402.Authorization{
		From: s.wallet.address, To: s.terms.payTo, Value: s.terms.amount,
		ValidAfter:  uint64(now.Add(-backdate).Unix()),
		ValidBefore: uint64(now.Unix()) + uint64(s.terms.offer.MaxTimeoutSeconds),
		Nonce:       paymentNonce(s.BaseURL, purchasePath, s.wallet.address, s.key),
	}
	signature, err := s.terms.domain.Sign(a, s.wallet.key)
	if err != nil {
		return "", err
	}
	return x402.EncodePayment(x402.Payment{
		Accepted: s.terms.offer, Resource: s.terms.resolved, Authorization: a, Signature: signature,
	})
}

// loseAnswer sends the paid request and closes the connection before the answer is read.
func (s *story) loseAnswer(ctx context.Context, header string, body []byte) error {
	ctx, hangUp := context.WithTimeout(ctx, callTimeout)
	defer hangUp()
	wrote, over := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(wrote) })
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { once() }})
	req, err := s.client.request(traced, http.MethodPost, purchasePath, payment(header), body)
	if err != nil {
		return err
	}
	req.Close = true
	s.summary.PaidRequests++
	go func() {
		defer close(over)
		// An answer that comes in time is thrown away, and so is what kept it from coming.
		if res, err := s.HTTP.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	select {
	case <-wrote:
	case <-over: // not even sent; the repeat will tell why
	}
	err = s.Wait(ctx, hangUpAfter)
	hangUp()
	<-over
	return err
}

// send presents the payment until the answer is final. Every time it is the same bytes: a timeout or
// a 503 says nothing about the money.
func (s *story) send(ctx context.Context, header string, body []byte) (order, error) {
	standard := firstPause
	for sent := 1; ; sent++ {
		s.summary.PaidRequests++
		var o order
		answer, err := s.client.call(ctx, http.MethodPost, purchasePath, payment(header), body, &o)
		if err == nil {
			return o, receipt(answer, o)
		}
		delay, again := standard, true
		if p, ok := errors.AsType[*Problem](err); ok {
			delay, again = p.again(standard)
		}
		if !again {
			return order{}, err
		}
		if ctx.Err() != nil || sent == maxSends {
			return order{}, fmt.Errorf("the payment's outcome is not known yet, and it is safe to repeat the same request with idempotencyKey %s: %w", s.key, err)
		}
		s.say("No clear answer yet; sending the same bytes again in %s.", delay)
		if err := s.Wait(ctx, delay); err != nil {
			return order{}, fmt.Errorf("wait to repeat the payment with idempotencyKey %s: %w", s.key, err)
		}
		standard = min(2*standard, lastPause)
	}
}

// receipt checks that the receipt header tells of the order's own transaction.
func receipt(h http.Header, o order) error {
	r, err := x402.DecodeSettlement(h.Get(x402.HeaderResponse))
	if err != nil {
		return fmt.Errorf("read the receipt of order %s: %w", o.OrderID, err)
	}
	if !r.Success || r.Transaction != o.Payment.Transaction {
		return fmt.Errorf("%w: the receipt of order %s is not about its transaction", ErrOutcome, o.OrderID)
	}
	return nil
}

func payment(header string) http.Header {
	h := http.Header{}
	h.Set(x402.HeaderSignature, header)
	return h
}

// dollars is the shortest exact form of an amount.
func dollars(u money.USDC) string {
	if c, ok := u.Cents(); ok {
		return c.String()
	}
	return u.Dollars()
}
