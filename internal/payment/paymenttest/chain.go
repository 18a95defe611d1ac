// Package paymenttest is a chain, a settler and a store of attempts in memory, which misbehave on demand, and the rules
// any store of attempts must keep.
package paymenttest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// ErrDown is the answer of a chain that is down.
var ErrDown = errors.New("paymenttest: the chain does not answer")

// Fault is one way in which a submission goes wrong.
type Fault int

// The faults.
const (
	// Lose settles and then loses the answer.
	Lose Fault = iota + 1
	// Refuse answers with an error and sends nothing.
	Refuse
	// Stall takes the submission and includes it only at Release.
	Stall
	// Drop accepts the submission and does nothing.
	Drop
	// Revert includes a transaction that moves nothing.
	Revert
	// Preempt lets a third party settle the authorization first.
	Preempt
	// Cancel lets the payer cancel the authorization first.
	Cancel
	// Drain lets the payer spend everything first.
	Drain
	// Miss answers payment.ErrMissed and sends nothing.
	Miss
)

// Chain keeps balances and authorizations as the token does. It is payment.Chain and payment.Settler,
// and safe for concurrent use.
type Chain struct {
	domain x402.Domain
	now    func() time.Time

	mu       sync.Mutex
	balances map[x402.Address]money.USDC
	owners   map[x402.Address]x402.Address
	used     map[key]use
	sent     map[key]x402.Signature // by us, or with SettleSigned
	undone   map[key]bool
	stalled  []x402.Authorization
	stalling bool
	faults   []Fault
	down     bool
	hidden   bool
	doubted  bool
	height   uint64
	calls    Calls
}

// Calls counts what was asked of a chain.
type Calls struct{ Simulate, Verdict, Funds, Submit, Transfers int }

type key struct {
	payer x402.Address
	nonce x402.Hash
}

// use is how a nonce was used: settled to a payee, or void for a reason.
type use struct {
	authorization x402.Authorization
	receipt       *payment.Receipt
	reason        string
}

// NewChain makes an empty chain whose token has this domain. Blocks have the clock's time and are
// final at once.
func NewChain(domain x402.Domain, now func() time.Time) *Chain {
	return &Chain{
		domain: domain, now: now, balances: map[x402.Address]money.USDC{}, owners: map[x402.Address]x402.Address{},
		used: map[key]use{}, sent: map[key]x402.Signature{}, undone: map[key]bool{}, height: 1000,
	}
}

// Fund mints.
func (c *Chain) Fund(account x402.Address, amount money.USDC) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.balances[account] += amount
}

// Spend moves all that an account holds elsewhere.
func (c *Chain) Spend(account x402.Address) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.balances[account] = 0
}

// Balance is what an account holds.
func (c *Chain) Balance(account x402.Address) money.USDC {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.balances[account]
}

// Calls is how often the chain was asked so far.
func (c *Chain) Calls() Calls {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// Next queues faults: each coming submission takes one.
func (c *Chain) Next(faults ...Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, faults...)
}

// StallAll stalls every submission until Release, however often one comes.
func (c *Chain) StallAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalling = true
}

// Down makes every answer ErrDown, or ends that.
func (c *Chain) Down(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// HideLogs makes the chain show that nonces are used and not what for, or ends that.
func (c *Chain) HideLogs(hidden bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hidden = hidden
}

// Doubt makes every verdict unknown, as when too few nodes agree, or ends that.
func (c *Chain) Doubt(doubted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubted = doubted
}

// Release includes every stalled submission.
func (c *Chain) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.stalled {
		c.include(a, "ours")
	}
	c.stalled, c.stalling = nil, false
}

// Settle is a third party submitting an authorization. It may have another payee or value than the
// one a payment was claimed with, and then uses its nonce up elsewhere.
func (c *Chain) Settle(a x402.Authorization) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.include(a, "foreign")
}

// SettleSigned is Settle with the payer's signature.
func (c *Chain) SettleSigned(p x402.Payment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[key{p.Authorization.From, p.Authorization.Nonce}] = p.Signature
	c.include(p.Authorization, "foreign")
}

// Undo is a reorganisation that takes a transfer out of the chain: its authorization is unused again.
func (c *Chain) Undo(payer x402.Address, nonce x402.Hash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u, ok := c.used[key{payer, nonce}]
	if !ok || u.receipt == nil {
		return
	}
	c.balances[payer] += u.receipt.Amount
	c.balances[u.authorization.To] -= u.receipt.Amount
	delete(c.used, key{payer, nonce})
	c.undone[key{payer, nonce}] = true
}

// Cancel is the payer cancelling a nonce.
func (c *Chain) Cancel(payer x402.Address, nonce x402.Hash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel(payer, nonce)
}

// Simulate implements payment.Chain.
func (c *Chain) Simulate(ctx context.Context, a x402.Authorization, s x402.Signature) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.Simulate++
	if c.down {
		return ErrDown
	}
	if c.signedBy(a.From, c.domain.Digest(a), s) != nil {
		return &payment.Rejection{Reason: x402.ReasonSignature, Detail: "the token refuses the signature"}
	}
	if reason := c.refusal(a); reason != "" {
		return &payment.Rejection{Reason: reason, Detail: "the token refuses the transfer"}
	}
	return ctx.Err()
}

// Verdict implements payment.Chain.
func (c *Chain) Verdict(ctx context.Context, a x402.Authorization, _ time.Time) (payment.Verdict, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.Verdict++
	if c.down {
		return payment.Verdict{}, ErrDown
	}
	if err := ctx.Err(); err != nil {
		return payment.Verdict{}, err
	}
	u, known := c.used[key{a.From, a.Nonce}]
	switch {
	case c.doubted:
		return payment.Verdict{}, nil
	case !known && uint64(c.now().Unix()) >= a.ValidBefore:
		return payment.Verdict{State: payment.Void, Reason: payment.ReasonExpired}, nil
	case !known:
		return payment.Verdict{State: payment.Unused}, nil
	case c.hidden:
		return payment.Verdict{}, nil
	case u.reason != "":
		return payment.Verdict{State: payment.Void, Reason: u.reason}, nil
	case u.authorization.To != a.To || u.receipt.Amount != a.Value:
		return payment.Verdict{State: payment.Void, Reason: payment.ReasonUsedElsewhere}, nil
	}
	receipt := *u.receipt
	return payment.Verdict{State: payment.Settled, Receipt: &receipt}, nil
}

// Funds implements payment.Chain.
func (c *Chain) Funds(ctx context.Context, payer x402.Address) (money.USDC, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.Funds++
	if c.down {
		return 0, ErrDown
	}
	return c.balances[payer], ctx.Err()
}

// VerifyArrived is the Verdict of a transfer that there is. One that a reorganisation took out may come back; any
// other was never made.
func (c *Chain) VerifyArrived(ctx context.Context, a payment.Arrived) (payment.Verdict, error) {
	verdict, err := c.Verdict(ctx, a.Authorization, a.Receipt.SettledAt)
	if err != nil || verdict.State != payment.Unused {
		return verdict, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.undone[key{a.Authorization.From, a.Authorization.Nonce}] {
		return payment.Verdict{}, nil
	}
	return payment.Verdict{State: payment.Void, Reason: payment.ReasonNeverMade}, nil
}

// Submit implements payment.Settler. It settles at once unless a fault is queued.
func (c *Chain) Submit(ctx context.Context, p payment.Payment) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.Submit++
	if c.down {
		return ErrDown
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var fault Fault
	switch {
	case len(c.faults) > 0:
		fault, c.faults = c.faults[0], c.faults[1:]
	case c.stalling:
		fault = Stall
	}
	a := p.Authorization
	c.sent[key{a.From, a.Nonce}] = p.Signature
	if p.Signature.IsOfAccount() && c.signedBy(a.From, c.domain.Digest(a), p.Signature) != nil {
		return &payment.Rejection{Reason: x402.ReasonSignature, Detail: "no owner of the account has signed"}
	}
	switch fault {
	case Refuse:
		return errors.New("paymenttest: submission refused")
	case Miss:
		return fmt.Errorf("paymenttest: %w", payment.ErrMissed)
	case Stall:
		c.stalled = append(c.stalled, a)
		return nil
	case Drop, Revert:
		c.height++
		return nil
	case Preempt:
		c.include(a, "foreign")
		return nil
	case Cancel:
		c.cancel(a.From, a.Nonce)
	case Drain:
		c.balances[a.From] = 0
	}
	c.include(a, "ours")
	if fault == Lose {
		return errors.New("paymenttest: connection lost after the submission")
	}
	return nil
}

// refusal is the token's reason not to move the money now, or empty.
func (c *Chain) refusal(a x402.Authorization) string {
	seconds := uint64(c.now().Unix())
	_, used := c.used[key{a.From, a.Nonce}]
	switch {
	case seconds <= a.ValidAfter:
		return x402.ReasonValidAfter
	case seconds >= a.ValidBefore:
		return x402.ReasonValidBefore
	case used:
		return x402.ReasonNonceUsed
	case c.balances[a.From] < a.Value:
		return x402.ReasonBalance
	}
	return ""
}

func (c *Chain) include(a x402.Authorization, by string) {
	c.height++
	if c.refusal(a) != "" {
		return
	}
	c.calls.Transfers++
	c.balances[a.From] -= a.Value
	c.balances[a.To] += a.Value
	c.used[key{a.From, a.Nonce}] = use{authorization: a, receipt: &payment.Receipt{
		Transaction: hashOf(by, a),
		Block:       c.height,
		BlockHash:   hashOf("block", a),
		LogIndex:    1,
		Payer:       a.From,
		PayTo:       a.To,
		Amount:      a.Value,
		SettledAt:   c.now().UTC().Truncate(time.Second),
	}}
}

func (c *Chain) cancel(payer x402.Address, nonce x402.Hash) {
	if _, used := c.used[key{payer, nonce}]; !used {
		c.used[key{payer, nonce}] = use{reason: payment.ReasonCancelled}
	}
}

func hashOf(what string, a x402.Authorization) x402.Hash {
	return sha256.Sum256(slices.Concat([]byte(what), a.From[:], a.Nonce[:]))
}
