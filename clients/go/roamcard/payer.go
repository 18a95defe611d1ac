package roamcard

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
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
	// backdate is how far validAfter lies back, for chains whose clock is behind ours.
	backdate = 10 * time.Minute
	day      = 24 * time.Hour
)

// Payer is an http.RoundTripper that answers 402: it pays the roamcard routes, over Connect and over REST
// alike, when the policy allows it. Everything else passes through. Give one Payer to all clients of a
// wallet; calls under one key wait for each other and sign once.
type Payer struct {
	// Next makes the requests; nil means http.DefaultTransport.
	Next    http.RoundTripper
	Signer  Signer
	Policy  Policy
	Journal Journal
	// PayTo finds the published payee of an origin, when the policy does not pin one.
	PayTo func(ctx context.Context) (string, error)
	// AnswerWithin bounds how long one answer to a payment may take before the same bytes are sent again; zero
	// means 30 seconds, which is longer than the service waits for anything.
	AnswerWithin time.Duration
	// MaxReplays bounds how often the same bytes are sent again for one answer; nil means 4.
	MaxReplays *int
	// Events are told what happens; nil is nobody.
	Events *Events
	// Now is the clock and Wait a pause that ends with its context; nil means the real ones.
	Now  func() time.Time
	Wait func(ctx context.Context, d time.Duration) error

	mu    sync.Mutex
	locks map[string]chan struct{}
}

// Events are told what a payer does. Each may be nil.
type Events struct {
	Quote  func(Quote)
	Signed func(q Quote, key string)
	// Replay is called before the same bytes are sent again: attempt counts from 1.
	Replay  func(key string, attempt int, after time.Duration)
	Settled func(key, transaction string)
}

// RoundTrip implements http.RoundTripper.
func (p *Payer) RoundTrip(req *http.Request) (*http.Response, error) {
	next := p.next()
	if req.Header.Get(x402.HeaderSignature) != "" || !mayBePaid(req) {
		return next.RoundTrip(req)
	}
	c, err := p.read(req)
	if err != nil {
		return nil, err
	}
	if c.key == "" {
		return next.RoundTrip(c.request(""))
	}
	unlock, err := p.lock(req.Context(), c.key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	entry, known, err := p.Journal.Find(req.Context(), c.key)
	if err != nil {
		return nil, fmt.Errorf("look into the journal: %w", err)
	}
	if known && entry.Body != c.digest {
		return nil, ErrKeyReused
	}
	if known && entry.State != Refused {
		return p.send(c, entry)
	}
	return p.buy(c, entry, known)
}

// buy asks for the price and pays it. old is the entry whose payment was refused, if there is one.
func (p *Payer) buy(c call, old Entry, known bool) (*http.Response, error) {
	res, err := p.next().RoundTrip(c.request(""))
	if err != nil || res.StatusCode != http.StatusPaymentRequired || res.Header.Get(x402.HeaderRequired) == "" {
		return res, err
	}
	header := res.Header.Get(x402.HeaderRequired)
	drain(res)
	entry, err := p.sign(c, header, old, known)
	if err != nil {
		return nil, err
	}
	return p.send(c, entry)
}

// sign checks the terms, asks the policy, signs, and writes the payment to the journal.
func (p *Payer) sign(c call, header string, old Entry, known bool) (Entry, error) {
	ctx := c.req.Context()
	pinned, err := p.pins(ctx, c)
	if err != nil {
		return Entry{}, err
	}
	o, err := pinned.check(header)
	if err != nil {
		return Entry{}, err
	}
	q := Quote{
		Operation: c.operation(), Resource: o.resource.URL, Description: o.resource.Description, Amount: o.cents(),
		AmountUSDC: o.amount.String(), PayTo: o.payTo.String(), Asset: o.domain.Contract.String(), Network: o.accepted.Network,
	}
	if e := p.Events; e != nil && e.Quote != nil {
		e.Quote(q)
	}
	if err := p.Policy.judge(ctx, q); err != nil {
		return Entry{}, err
	}
	attempt := 0
	var was *Entry
	if known {
		attempt, was = old.Attempt, &old
	}
	entry, err := p.authorize(c, o, attempt)
	if err != nil {
		return Entry{}, err
	}
	if err := p.Journal.Sign(ctx, entry, was, p.now().Add(-day), p.Policy.MaxPerDay); err != nil {
		return Entry{}, err
	}
	if e := p.Events; e != nil && e.Signed != nil {
		e.Signed(q, c.idempotencyKey)
	}
	return entry, nil
}

func (p *Payer) authorize(c call, o offer, attempt int) (Entry, error) {
	payer, err := x402.ParseAddress(p.Signer.Address())
	if err != nil {
		return Entry{}, fmt.Errorf("read the signer's address: %w", err)
	}
	now := p.now()
	a := x402.Authorization{
		From: payer, To: o.payTo, Value: o.amount,
		ValidAfter:  uint64(now.Add(-backdate).Unix()),
		ValidBefore: uint64(now.Unix()) + uint64(o.accepted.MaxTimeoutSeconds),
		Nonce:       nonce(c.origin(), c.path(), payer, c.idempotencyKey, attempt),
	}
	raw, err := p.Signer.SignTypedData(c.req.Context(), transferDocument(o.domain, a))
	if err != nil {
		return Entry{}, fmt.Errorf("sign the payment: %w", err)
	}
	signature, err := x402.ParseSignature("0x" + hex.EncodeToString(raw))
	if err == nil {
		err = o.domain.Verify(a, signature)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("the signer signed something else: %w", err)
	}
	header, err := x402.EncodePayment(x402.Payment{Accepted: o.accepted, Resource: o.resource, Authorization: a, Signature: signature})
	if err != nil {
		return Entry{}, fmt.Errorf("encode the payment: %w", err)
	}
	return Entry{
		Key: c.key, Body: c.digest, Header: header, Amount: o.cents(), Attempt: attempt,
		SignedAt: now.UTC(), ValidBefore: time.Unix(int64(a.ValidBefore), 0).UTC(), State: Signed,
	}, nil
}

// send presents a payment until the answer is clear, each time with the same bytes.
func (p *Payer) send(c call, entry Entry) (*http.Response, error) {
	ctx := c.req.Context()
	pause := firstPause
	for sent := 0; ; sent++ {
		res, err := p.answer(c, entry)
		if err == nil && !unclear(res) {
			return res, p.conclude(c, entry, res)
		}
		wait := pause
		if err == nil {
			wait = retryAfter(res, pause)
		}
		if ctx.Err() != nil || sent >= p.replays() {
			if err == nil {
				err = answered(res)
			}
			return nil, &AmbiguousPaymentError{IdempotencyKey: c.idempotencyKey, Err: err}
		}
		if e := p.Events; e != nil && e.Replay != nil {
			e.Replay(c.idempotencyKey, sent+1, wait)
		}
		if stopped := p.wait(ctx, wait); stopped != nil {
			return nil, &AmbiguousPaymentError{IdempotencyKey: c.idempotencyKey, Err: errors.Join(err, stopped)}
		}
		pause = min(2*pause, lastPause)
	}
}

// answer sends the payment once and reads the whole answer: half of one says nothing.
func (p *Payer) answer(c call, entry Entry) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(c.req.Context(), p.answerWithin())
	defer cancel()
	res, err := p.next().RoundTrip(c.request(entry.Header).WithContext(ctx))
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

// conclude writes down what the answer says about the payment.
func (p *Payer) conclude(c call, entry Entry, res *http.Response) error {
	// What has been answered is worth keeping even for a caller who has gone.
	ctx := context.WithoutCancel(c.req.Context())
	receipt, err := x402.DecodeSettlement(res.Header.Get(x402.HeaderResponse))
	told := err == nil
	switch {
	case told && receipt.Success:
		if e := p.Events; e != nil && e.Settled != nil {
			e.Settled(c.idempotencyKey, receipt.Transaction)
		}
		return p.Journal.Conclude(ctx, entry.Key, entry.Header, Paid)
	case res.StatusCode == http.StatusPaymentRequired && told:
		// Claimed, and proven dead: the next authorization may have a nonce of its own.
		return p.bury(ctx, entry)
	case res.StatusCode >= http.StatusBadRequest:
		return p.Journal.Conclude(ctx, entry.Key, entry.Header, Refused)
	}
	return nil
}

// bury refuses an entry and counts its attempt.
func (p *Payer) bury(ctx context.Context, entry Entry) error {
	was := entry
	entry.State, entry.Attempt = Refused, entry.Attempt+1
	err := p.Journal.Sign(ctx, entry, &was, p.now().Add(-day), 0)
	if errors.Is(err, ErrEntry) {
		return nil // another process was told the same
	}
	return err
}

// unclear says that an answer does not tell whether the payment was taken, or that the same bytes may get
// another one.
func unclear(res *http.Response) bool {
	switch {
	case res.StatusCode >= http.StatusInternalServerError, res.StatusCode == http.StatusTooManyRequests,
		res.StatusCode == http.StatusRequestTimeout, res.StatusCode == http.StatusTooEarly:
		return true
	case res.StatusCode < http.StatusBadRequest:
		return false
	}
	body, err := io.ReadAll(res.Body)
	res.Body = io.NopCloser(bytes.NewReader(body))
	var problem struct {
		Retryable bool `json:"retryable"`
	}
	return err == nil && json.Unmarshal(body, &problem) == nil && problem.Retryable
}

// answered puts an unclear answer into words.
func answered(res *http.Response) error {
	var problem struct {
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}
	_ = json.NewDecoder(res.Body).Decode(&problem) // the status says enough when there is no problem document
	return fmt.Errorf("the service answered %d %s %s", res.StatusCode, problem.Code, problem.Detail)
}

func retryAfter(res *http.Response, standard time.Duration) time.Duration {
	s, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil || s < 0 {
		return standard
	}
	return min(time.Duration(s)*time.Second, maxPause)
}

// lock holds a key until unlock is called.
func (p *Payer) lock(ctx context.Context, key string) (unlock func(), err error) {
	for {
		p.mu.Lock()
		held, busy := p.locks[key]
		if !busy {
			mine := make(chan struct{})
			if p.locks == nil {
				p.locks = map[string]chan struct{}{}
			}
			p.locks[key] = mine
			p.mu.Unlock()
			return func() {
				p.mu.Lock()
				delete(p.locks, key)
				p.mu.Unlock()
				close(mine)
			}, nil
		}
		p.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
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

func (p *Payer) answerWithin() time.Duration {
	if p.AnswerWithin > 0 {
		return p.AnswerWithin
	}
	return 30 * time.Second
}

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
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func drain(res *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	_ = res.Body.Close()
}
