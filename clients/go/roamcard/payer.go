package roamcard

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/roamcard/roamcard/clients/go/internal/curve"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// maxPaidBody bounds the body of a paid request, maxAnswer what is read of an answer.
	maxPaidBody = 64 << 10
	maxAnswer   = 1 << 20
	// maxAnswerHeader bounds the headers of an answer.
	maxAnswerHeader = 128 << 10
	// The pause before the same bytes are sent again, doubling, when the service does not say.
	firstPause, lastPause = 250 * time.Millisecond, 4 * time.Second
	// maxPause bounds what the service may ask for.
	maxPause = 30 * time.Second
	// defaultTimeout is longer than the service waits for anything.
	defaultTimeout = 30 * time.Second
	// backdate is how far validAfter lies back, for chains whose clock is behind ours.
	backdate = 10 * time.Minute
	// validity is how many seconds a payment is signed for, unless the offer allows less.
	validity = 120
	// maxClockDifference is how far the service's clock may be from this one.
	maxClockDifference = time.Minute
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
	// Plan finds what a plan of the catalogue costs, and the cheapest one when id is empty: a purchase that names
	// no plan is made one of the plan found, at its price. Nil leaves both to the service, within the caps.
	Plan func(ctx context.Context, id string) (planID string, price Cents, err error)
	// Price finds what the service publishes for OpCard and, for an OpTopup that names no amount, for OpTopup; for
	// OpOrder what the order of the id costs. Nil leaves it to the caps.
	Price func(ctx context.Context, operation, orderID string) (Cents, error)
	// RPCURL is a node of the chain that the caller trusts. With it, an authorization that the chain shows to be
	// void gives its budget back at once; without it, time alone does.
	RPCURL string
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
		return nil, p.keyed(c, err)
	}
	if c.id == "" {
		return p.next().RoundTrip(c.request(""))
	}
	if to, ok := req.Context().Value(quoteKey{}).(*Verdict); ok {
		return nil, p.quote(c, to)
	}
	res, err := p.pay(c)
	if err != nil {
		return nil, p.keyed(c, err)
	}
	return res, nil
}

// pay sends the payment that a purchase has already, or makes its first one. Until the chain can no longer take a
// payment, there is no other one of its purchase.
func (p *Payer) pay(c call) (*http.Response, error) {
	ctx := c.req.Context()
	entry, known, err := p.journal().find(ctx, c)
	if err != nil {
		return nil, err
	}
	if !known {
		return p.buy(c, nil)
	}
	res, err := p.send(c, entry)
	if err != nil || !priced(res) {
		return res, err
	}
	if p.prove(ctx, c); p.live(ctx, c) {
		return res, nil
	}
	return p.buy(c, res)
}

// keyed gives an error what to call again with, when a payment was signed for the purchase, or nobody knows.
func (p *Payer) keyed(c call, err error) error {
	b, unread := p.Store.Read(context.WithoutCancel(c.req.Context()))
	e := b.Purchases[c.id]
	if unread == nil && len(e.Authorizations) == 0 {
		return err
	}
	return keyed(err, c.idempotencyKey, e, p.now())
}

// live says whether the chain could still take the last payment of a purchase, or whether that is not known.
func (p *Payer) live(ctx context.Context, c call) bool {
	b, err := p.Store.Read(ctx)
	if err != nil {
		return true
	}
	e := b.Purchases[c.id]
	return e.State != Refused || !e.liveUntil(p.now()).IsZero()
}

// buy pays the price of an answer with 402, or asks for it when there is none.
func (p *Payer) buy(c call, res *http.Response) (*http.Response, error) {
	if res == nil {
		var err error
		if res, err = p.ask(c); err != nil {
			return nil, err
		}
		if res.StatusCode < http.StatusMultipleChoices {
			drain(res)
			return nil, denied(ErrTermsMismatch, "the service gave the purchase away unpaid")
		}
		if !priced(res) {
			return res, nil
		}
	}
	drain(res)
	if err := p.compareClocks(res); err != nil {
		return nil, err
	}
	entry, err := p.sign(c, res.Header.Get(x402.HeaderRequired))
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
		if err == nil {
			return res, nil
		}
		if asked >= p.replays() || c.req.Context().Err() != nil {
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
		Operation: c.operation(), IdempotencyKey: c.idempotencyKey, Resource: o.resource.URL,
		Description: o.resource.Description,
		Amount:      o.cents(), AmountUSDC: o.amount.String(), PayTo: o.payTo.String(), Asset: o.domain.Contract.String(),
		Network: o.accepted.Network,
	}
	p.Events.quote(q)
	return q, o, nil
}

// sign checks the terms, takes the turn and the budget, asks for approval, signs, and keeps the payment. Whatever
// fails before it is kept gives the budget back. What another program has signed meanwhile is taken instead.
func (p *Payer) sign(c call, header string) (Entry, error) {
	ctx := c.req.Context()
	q, o, err := p.check(c, header)
	if err == nil {
		err = p.Policy.cap(q)
	}
	if err != nil {
		return Entry{}, err
	}
	wanted := Entry{
		Key: c.idempotencyKey, Operation: q.Operation, Origin: c.origin(), Path: c.path(), Payer: c.payer.Lower(),
		Request: c.asked,
		Amount:  int64(o.amount), Holder: rand.Text(),
	}
	for {
		given, err := p.reserve(c, wanted)
		switch {
		case err != nil:
			return Entry{}, err
		case given.payment != nil:
			return *given.payment, nil
		case given.sign:
			return p.inTurn(c, q, o, wanted.Holder, given.attempt)
		}
		if err := pause(ctx, firstPause); err != nil {
			return Entry{}, err
		}
	}
}

// reserve takes the turn, and once more after the chain has freed what it can of the budget.
func (p *Payer) reserve(c call, wanted Entry) (turn, error) {
	ctx, j := c.req.Context(), p.journal()
	given, err := j.reserve(ctx, c, wanted, p.Policy.MaxPerDay)
	if !errors.Is(err, ErrPolicyDenied) || p.RPCURL == "" {
		return given, err
	}
	b, readErr := j.Read(ctx)
	if readErr != nil {
		return turn{}, readErr
	}
	for id, e := range b.Purchases {
		p.proveEntry(ctx, id, e)
	}
	return j.reserve(ctx, c, wanted, p.Policy.MaxPerDay)
}

// inTurn asks for approval and signs while the turn is held.
func (p *Payer) inTurn(c call, q Quote, o offer, holder string, attempt int) (Entry, error) {
	j := p.journal()
	ctx, stop := context.WithCancel(c.req.Context())
	var holding sync.WaitGroup
	holding.Go(func() {
		for pause(ctx, holdEvery) == nil {
			_ = j.hold(ctx, c.id, holder) // a store that fails here fails again when the payment is kept
		}
	})
	entry, err := p.approved(c, q, o, holder, attempt)
	stop()
	holding.Wait()
	if err != nil {
		return Entry{}, errors.Join(err, j.release(c.req.Context(), c.id, holder))
	}
	p.Events.signed(q)
	return entry, nil
}

func (p *Payer) approved(c call, q Quote, o offer, holder string, attempt int) (Entry, error) {
	ctx := c.req.Context()
	if err := p.Policy.approve(ctx, q); err != nil {
		return Entry{}, err
	}
	// Whoever gave up while somebody was asked does not pay.
	if err := ctx.Err(); err != nil {
		return Entry{}, err
	}
	p.Events.approval(q)
	header, a, err := p.authorize(c, o, attempt)
	if err != nil {
		return Entry{}, err
	}
	entry, err := p.journal().sign(ctx, c.id, holder, header, a)
	if failed, ok := errors.AsType[*JournalError](err); ok {
		failed.IdempotencyKey = c.idempotencyKey
	}
	return entry, err
}

func (p *Payer) authorize(c call, o offer, attempt int) (header string, signed SignedAuthorization, err error) {
	now := p.now()
	a := x402.Authorization{
		From: c.payer, To: o.payTo, Value: o.amount,
		ValidAfter:  uint64(now.Add(-backdate).Unix()),
		ValidBefore: uint64(now.Unix() + min(int64(o.accepted.MaxTimeoutSeconds), validity)),
		Nonce:       x402.DerivedNonce(c.origin(), c.path(), c.payer, c.idempotencyKey, attempt),
	}
	signed = SignedAuthorization{Nonce: a.Nonce.String(), Amount: int64(o.amount), SignedAt: now.Unix(),
		ValidBefore: int64(a.ValidBefore)}
	signature, err := p.signatureOf(c.req.Context(), o.domain, a)
	if err != nil {
		return "", signed, err
	}
	header, err = x402.EncodePayment(x402.Payment{Accepted: o.accepted, Resource: o.resource, Authorization: a,
		Signature: signature})
	if err != nil {
		return "", signed, fmt.Errorf("encode the payment: %w", err)
	}
	return header, signed, nil
}

// signatureOf signs an authorization, and holds the signature to what the payer is. A key's is recovered. An account
// with code verifies its own. Unless the signature says how the account is made, it is looked for on the chain when
// there is a node to ask: without code, nobody could move its money by the signature.
func (p *Payer) signatureOf(ctx context.Context, d x402.Domain, a x402.Authorization) (x402.Signature, error) {
	doc := transferDocument(d, a)
	raw, err := p.Signer.SignTypedData(ctx, doc)
	if err != nil {
		return "", fmt.Errorf("sign the payment: %w: %w", ErrSigner, err)
	}
	account, smart := p.Signer.(SmartAccount)
	parse, verify := x402.ParseSignature, func(s x402.Signature) error { return curve.Verify(d, a, s) }
	if smart {
		parse, verify = x402.ParseAnySignature, func(x402.Signature) error { return account.VerifyTypedData(doc, raw) }
	}
	signature, err := parse("0x" + hex.EncodeToString(raw))
	if err == nil {
		err = verify(signature)
	}
	creates, malformed := namesCreation(signature)
	if err := errors.Join(err, malformed); err != nil {
		return "", fmt.Errorf("the signer signed something else: %w", err)
	}
	if smart && !creates {
		return signature, p.deployed(ctx, a.From)
	}
	return signature, nil
}

// send presents a payment until the answer is clear, each time with the same bytes.
func (p *Payer) send(c call, entry Entry) (*http.Response, error) {
	ctx := c.req.Context()
	pause, order := firstPause, entry.OrderID
	for sent := 0; ; sent++ {
		res, err := p.answer(c, entry.Header)
		wait := pause
		if err == nil {
			if err = p.conclude(c, entry, res); err == nil {
				return res, nil
			}
			if told, ok := errors.AsType[*APIError](err); ok {
				order, wait = cmp.Or(order, told.OrderID), retryAfter(res, pause)
			}
		}
		if ctx.Err() != nil || sent >= p.replays() || errors.Is(err, errAnotherOrder) {
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
	ctx, cancel := context.WithTimeout(c.req.Context(), timeoutOf(c.req.Context(), p.timeout()))
	defer cancel()
	res, err := p.next().RoundTrip(c.request(payment).WithContext(ctx))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	if len(body) > maxAnswer {
		return nil, errTooLong
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// conclude keeps what the answer says about the payment. The error is that it says nothing. What cannot be kept
// is told and changes nothing: the next call with the key sends the same bytes.
func (p *Payer) conclude(c call, entry Entry, res *http.Response) error {
	ctx, j := c.req.Context(), p.journal()
	if res.StatusCode >= http.StatusBadRequest {
		told := problemOf(res)
		if unclear(res, told) {
			return told
		}
		p.noted(c, j.refuse(ctx, c, entry.Header, isDead(res)))
		return nil
	}
	order, err := orderIn(res, c, entry)
	if err != nil {
		return err
	}
	transaction := ""
	if receipt, err := x402.DecodeSettlement(res.Header.Get(x402.HeaderResponse)); err == nil {
		transaction = receipt.Transaction
	}
	p.Events.settled(c.idempotencyKey, transaction)
	p.noted(c, j.settle(ctx, c.id, order.GetOrderId()))
	return nil
}

func (p *Payer) noted(c call, err error) {
	if err != nil {
		p.Events.unkept(c.idempotencyKey, err)
	}
}

// compareClocks refuses to sign by a clock that differs from the service's: the payment would be refused, or be
// good for longer than meant.
func (p *Payer) compareClocks(res *http.Response) error {
	theirs, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return nil
	}
	ours := p.now()
	if off := ours.Sub(theirs).Abs(); off > maxClockDifference {
		return denied(ErrClock, "it is %s here, and %s at the service", ours.UTC().Format(time.RFC3339),
			theirs.UTC().Format(time.RFC3339))
	}
	return nil
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

func retryAfter(res *http.Response, otherwise time.Duration) time.Duration {
	s, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil || s < 0 {
		return otherwise
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

func (p *Payer) timeout() time.Duration { return cmp.Or(p.Timeout, defaultTimeout) }

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
