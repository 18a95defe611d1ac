package roamcard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// maxPaidBody bounds the body of a paid request, maxAnswer what is read of an answer.
	maxPaidBody = 64 << 10
	maxAnswer   = 1 << 20
	// The pause before the same bytes are sent again, doubling, when the service does not say.
	firstPause, lastPause = 250 * time.Millisecond, 4 * time.Second
	// maxPause bounds what the service may ask for.
	maxPause = 30 * time.Second
	// standardTimeout is longer than the service waits for anything.
	standardTimeout = 30 * time.Second
	// backdate is how far validAfter lies back, for chains whose clock is behind ours.
	backdate = 10 * time.Minute
)

// Payer is an http.RoundTripper that answers 402: it pays the roamcard routes, over Connect and over REST
// alike, when the policy allows it. Everything else passes through. Calls under one key wait for each other and
// sign once, in all payers that share a store.
type Payer struct {
	// Next makes the requests; nil means http.DefaultTransport.
	Next   http.RoundTripper
	Signer Signer
	Policy Policy
	// Store keeps what was signed; it must be set.
	Store Store
	// PayTo finds the published payee of an origin, when the policy does not pin one.
	PayTo func(ctx context.Context) (string, error)
	// Timeout bounds one answer before the same bytes are sent again; zero means 30 seconds, which is longer
	// than the service waits for anything.
	Timeout time.Duration
	// MaxReplays bounds how often the same bytes are sent again for one answer; nil means 4.
	MaxReplays *int
	// Events are told what happens; nil is nobody.
	Events *Events
	// Now is the clock and Wait a pause that ends with its context; nil means the real ones.
	Now  func() time.Time
	Wait func(ctx context.Context, d time.Duration) error
}

// RoundTrip implements http.RoundTripper.
func (p *Payer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get(x402.HeaderSignature) != "" || !mayBePaid(req) {
		return p.next().RoundTrip(req)
	}
	c, err := p.read(req)
	if err != nil {
		return nil, err
	}
	if c.id == "" {
		return p.next().RoundTrip(c.request(""))
	}
	if to, ok := req.Context().Value(quoteKey{}).(*Verdict); ok {
		return nil, p.quote(c, to)
	}
	unlock, err := p.Store.Lock(req.Context(), c.id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	entry, known, err := p.journal().find(req.Context(), c)
	if err != nil {
		return nil, err
	}
	if !known {
		return p.buy(c, nil)
	}
	res, err := p.send(c, entry)
	if err != nil || !replaceable(entry, res, p.now()) {
		return res, err
	}
	return p.buy(c, res)
}

// replaceable says that a kept payment is dead and bought nothing, by the service's own word. Unless the service
// proved it dead, its successor has the same nonce, so that even a service in error could take but one of them.
func replaceable(e Entry, res *http.Response, now time.Time) bool {
	return res.StatusCode == http.StatusPaymentRequired && res.Header.Get(x402.HeaderRequired) != "" && (isDead(res) || e.ValidBefore.Before(now))
}

// buy pays the price of an answer with 402, or asks for it when there is none.
func (p *Payer) buy(c call, res *http.Response) (*http.Response, error) {
	if res == nil {
		var err error
		if res, err = p.ask(c); err != nil || !priced(res) {
			return res, err
		}
	}
	header := res.Header.Get(x402.HeaderRequired)
	drain(res)
	entry, err := p.sign(c, header)
	if err != nil {
		return nil, err
	}
	return p.send(c, entry)
}

// ask asks for the price. To lose an answer here costs nothing, so it asks again.
func (p *Payer) ask(c call) (*http.Response, error) {
	pause := firstPause
	for asked := 0; ; asked++ {
		res, err := p.answer(c, "")
		if err == nil || asked >= p.replays() || c.req.Context().Err() != nil {
			return res, err
		}
		if stopped := p.wait(c.req.Context(), pause); stopped != nil {
			return nil, errors.Join(err, stopped)
		}
		pause = min(2*pause, lastPause)
	}
}

func priced(res *http.Response) bool {
	return res.StatusCode == http.StatusPaymentRequired && res.Header.Get(x402.HeaderRequired) != ""
}

// check holds the terms of a challenge to what is published and pinned.
func (p *Payer) check(c call, header string) (Quote, offer, error) {
	ctx := c.req.Context()
	pinned, err := p.pins(ctx, c)
	if err != nil {
		return Quote{}, offer{}, err
	}
	o, err := pinned.check(header)
	if err != nil {
		return Quote{}, offer{}, err
	}
	if p.Policy.PayTo == "" {
		if err := p.journal().pin(ctx, c.origin(), o.payTo.String()); err != nil {
			return Quote{}, offer{}, err
		}
	}
	q := Quote{
		Operation: c.operation(), IdempotencyKey: c.idempotencyKey, Resource: o.resource.URL, Description: o.resource.Description,
		Amount: o.cents(), AmountUSDC: o.amount.String(), PayTo: o.payTo.String(), Asset: o.domain.Contract.String(), Network: o.accepted.Network,
	}
	p.Events.quote(q)
	return q, o, nil
}

// sign checks the terms, takes the budget, asks for approval, signs, and keeps the payment. Whatever fails
// before it is kept gives the budget back.
func (p *Payer) sign(c call, header string) (Entry, error) {
	ctx := c.req.Context()
	q, o, err := p.check(c, header)
	if err == nil {
		err = p.Policy.cap(q)
	}
	if err != nil {
		return Entry{}, err
	}
	j := p.journal()
	wanted := Entry{Key: c.idempotencyKey, Operation: q.Operation, Payer: p.Signer.Address(), Body: c.digest, Amount: q.Amount}
	attempt, err := j.reserve(ctx, c, wanted, p.Policy.MaxPerDay)
	if err != nil {
		return Entry{}, err
	}
	entry, err := p.approved(c, q, o, attempt)
	if err != nil {
		return Entry{}, errors.Join(err, j.release(context.WithoutCancel(ctx), c.id))
	}
	p.Events.signed(q)
	return entry, nil
}

func (p *Payer) approved(c call, q Quote, o offer, attempt int) (Entry, error) {
	ctx := c.req.Context()
	if err := p.Policy.approve(ctx, q); err != nil {
		return Entry{}, err
	}
	p.Events.approval(q)
	header, validBefore, err := p.authorize(c, o, attempt)
	if err != nil {
		return Entry{}, err
	}
	return p.journal().sign(ctx, c.id, header, validBefore)
}

func (p *Payer) authorize(c call, o offer, attempt int) (header string, validBefore time.Time, err error) {
	payer, err := x402.ParseAddress(p.Signer.Address())
	if err != nil {
		return "", time.Time{}, fmt.Errorf("read the signer's address: %w", err)
	}
	now := p.now()
	a := x402.Authorization{
		From: payer, To: o.payTo, Value: o.amount,
		ValidAfter:  uint64(now.Add(-backdate).Unix()),
		ValidBefore: uint64(now.Unix()) + uint64(o.accepted.MaxTimeoutSeconds),
		Nonce:       x402.DerivedNonce(c.origin(), c.path(), payer, c.idempotencyKey, attempt),
	}
	raw, err := p.Signer.SignTypedData(c.req.Context(), transferDocument(o.domain, a))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign the payment: %w", err)
	}
	signature, err := x402.ParseSignature("0x" + hex.EncodeToString(raw))
	if err == nil {
		err = o.domain.Verify(a, signature)
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("the signer signed something else: %w", err)
	}
	header, err = x402.EncodePayment(x402.Payment{Accepted: o.accepted, Resource: o.resource, Authorization: a, Signature: signature})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("encode the payment: %w", err)
	}
	return header, time.Unix(int64(a.ValidBefore), 0), nil
}

// send presents a payment until the answer is clear, each time with the same bytes.
func (p *Payer) send(c call, entry Entry) (*http.Response, error) {
	ctx := c.req.Context()
	pause, order := firstPause, ""
	for sent := 0; ; sent++ {
		res, err := p.answer(c, entry.Header)
		wait := pause
		if err == nil {
			told := problemOf(res)
			if !unclear(res, told) {
				return res, p.conclude(c, entry, res, told)
			}
			err, order, wait = told, cmp.Or(order, told.OrderID), retryAfter(res, pause)
		}
		if ctx.Err() != nil || sent >= p.replays() {
			return nil, &AmbiguousPaymentError{IdempotencyKey: c.idempotencyKey, OrderID: order, Err: err}
		}
		p.Events.replay(c.idempotencyKey, sent+1, wait, err)
		if stopped := p.wait(ctx, wait); stopped != nil {
			return nil, &AmbiguousPaymentError{IdempotencyKey: c.idempotencyKey, OrderID: order, Err: errors.Join(err, stopped)}
		}
		pause = min(2*pause, lastPause)
	}
}

// answer sends the request once, with a payment when there is one, and reads the whole answer: half of one says
// nothing.
func (p *Payer) answer(c call, payment string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(c.req.Context(), p.timeout())
	defer cancel()
	res, err := p.next().RoundTrip(c.request(payment).WithContext(ctx))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// conclude keeps what the answer says about the payment.
func (p *Payer) conclude(c call, entry Entry, res *http.Response, told *APIError) error {
	if res.StatusCode >= http.StatusBadRequest {
		return p.journal().refuse(c.req.Context(), c.id, entry.Header, told.SafeToPayAgain, isDead(res))
	}
	transaction := ""
	if receipt, err := x402.DecodeSettlement(res.Header.Get(x402.HeaderResponse)); err == nil {
		transaction = receipt.Transaction
	}
	p.Events.settled(c.idempotencyKey, transaction)
	return p.journal().settle(c.req.Context(), c.id)
}

// isDead says that a payment was claimed and is proven dead: the next one may have a nonce of its own.
func isDead(res *http.Response) bool {
	receipt, err := x402.DecodeSettlement(res.Header.Get(x402.HeaderResponse))
	return res.StatusCode == http.StatusPaymentRequired && err == nil && !receipt.Success
}

// unclear says that an answer does not tell whether the payment was taken, or that the same bytes may get
// another one.
func unclear(res *http.Response, told *APIError) bool {
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusTooEarly:
		return true
	}
	return res.StatusCode >= http.StatusInternalServerError || (res.StatusCode >= http.StatusBadRequest && told.Retryable)
}

func retryAfter(res *http.Response, standard time.Duration) time.Duration {
	s, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil || s < 0 {
		return standard
	}
	return min(time.Duration(s)*time.Second, maxPause)
}

func (p *Payer) next() http.RoundTripper {
	if p.Next != nil {
		return p.Next
	}
	return http.DefaultTransport
}

func (p *Payer) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

func (p *Payer) timeout() time.Duration { return cmp.Or(p.Timeout, standardTimeout) }

func (p *Payer) journal() journal { return journal{Store: p.Store, now: p.now} }

func (p *Payer) replays() int {
	if p.MaxReplays != nil {
		return *p.MaxReplays
	}
	return 4
}

func (p *Payer) wait(ctx context.Context, d time.Duration) error {
	if p.Wait != nil {
		return p.Wait(ctx, d)
	}
	return pause(ctx, d)
}

func drain(res *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	_ = res.Body.Close()
}
