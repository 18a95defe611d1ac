package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// simulated is the sender of a simulation, and the fee that it offers. A payer's code could tell a call from a
// transaction by the sender or by a gas price of zero, allow the call and revert the transaction.
type simulated struct {
	address x402.Address
	fee     fee
	// at is a block at which it succeeded, and code says that the payer had code there.
	at   atomic.Pointer[header]
	code atomic.Bool
}

// errSenderPoor says that a transfer would succeed if its sender could pay for the gas.
var errSenderPoor = errors.New("the sender cannot pay for the transfer")

// Simulate implements payment.Chain, without a sender. See AsRelayer for simulations with one.
func (c *Chain) Simulate(ctx context.Context, a x402.Authorization, s x402.Signature) error {
	return c.simulate(ctx, nil, a, s)
}

// simulate runs the transfer at the latest block.
func (c *Chain) simulate(ctx context.Context, as *simulated, a x402.Authorization, s x402.Signature) error {
	return c.refusedByMost(ctx, func(ctx context.Context, on *Chain) error { return on.simulateOnce(ctx, as, a, s) })
}

func (c *Chain) simulateOnce(ctx context.Context, as *simulated, a x402.Authorization, s x402.Signature) error {
	now := uint64(c.config.Now().Unix())
	if now >= a.ValidBefore {
		return &payment.Rejection{Reason: x402.ReasonValidBefore, Detail: "the authorization has expired"}
	}
	head, err := c.head(ctx, "latest")
	if err != nil {
		return fmt.Errorf("simulate transfer: %w", err)
	}
	err = c.simulateAt(ctx, as, a, s, head, now)
	if err == nil && as != nil {
		as.at.Store(&head)
	}
	if _, refused := errors.AsType[*payment.Rejection](err); refused && c.shares() {
		// The payer may have been funded in a block that is newer than the one read for all.
		if newest, headErr := c.header(ctx, "latest"); headErr == nil && newest.Hash != head.Hash {
			return c.simulateAt(ctx, as, a, s, newest, now)
		}
	}
	return err
}

// refusedByMost reports whether a transfer is refused. A node that refuses it may lie, or its head may be older than
// the money, so all nodes that are not slow are asked then, each at its own latest block. On a tie the transfer is
// allowed: a transaction in vain costs gas, which is bounded, while a wrong refusal costs a sale. That of one node
// alone, of which no other says anything, is none: it is not known then.
func (c *Chain) refusedByMost(ctx context.Context, try func(context.Context, *Chain) error) error {
	refusal := try(ctx, c)
	if _, refused := errors.AsType[*payment.Rejection](refusal); !refused || len(c.pool.endpoints) == 1 {
		return refusal
	}
	const calls = 2
	type vote struct {
		refusal payment.Rejection // without a reason there is none
		poor    bool
	}
	asked := func(ctx context.Context, one *Chain) (vote, error) {
		err := try(ctx, one)
		rejection, refused := errors.AsType[*payment.Rejection](err)
		switch {
		case refused:
			return vote{refusal: *rejection}, nil
		case errors.Is(err, errSenderPoor):
			// It would move if its sender could pay for the gas, which says nothing against the transfer.
			return vote{poor: true}, nil
		}
		return vote{}, err
	}
	var refusals []payment.Rejection
	var errs error
	allow, poor := 0, 0
	for _, w := range consult(ctx, c, calls, asked, equal) {
		switch {
		case w.err != nil:
			errs = errors.Join(errs, w.err)
		case w.value.refusal.Reason != "":
			refusals = append(refusals, w.value.refusal)
		default:
			allow++
			if w.value.poor {
				poor++
			}
		}
	}
	switch {
	case allow == 0 && len(refusals) < c.quorum():
		return fmt.Errorf("one node refuses the transfer, and no other says so: %w", errs)
	case allow < len(refusals):
		return namedByMost(refusals)
	case allow == poor:
		return errSenderPoor
	}
	return nil
}

// namedByMost is the refusal for the reason that most nodes name. Among equals it is that the authorization is used,
// which a node that lags does not say, or else the first: whoever acts on a reason must not act on the word of one node
// against that of another which shows the money moved.
func namedByMost(refusals []payment.Rejection) *payment.Rejection {
	most, best := 0, 0
	for i, one := range refusals {
		named := 0
		for _, other := range refusals {
			if other.Reason == one.Reason {
				named += 2
			}
		}
		if one.Reason == x402.ReasonNonceUsed {
			named++
		}
		if named > most {
			most, best = named, i
		}
	}
	return &refusals[best]
}

// simulateAt runs the transfer at one block, named by its hash, so that a lagging node fails instead of answering from
// an older block. It reads the payer's code at the same block.
func (c *Chain) simulateAt(
	ctx context.Context, as *simulated, a x402.Authorization, s x402.Signature, head header, now uint64,
) error {
	var code, moves error
	var both errgroup.Group // in parallel: a buyer waits for each round trip
	both.Go(func() error {
		var has bool
		if has, code = c.checkCode(ctx, a, s, head); has && as != nil {
			as.code.Store(true)
		}
		return nil
	})
	both.Go(func() error { moves = c.tryTransfer(ctx, as, a, s, head, now); return nil })
	_ = both.Wait() // neither fails the other
	for _, err := range []error{code, moves} {
		if rejection, ok := errors.AsType[*payment.Rejection](err); ok {
			return rejection
		}
	}
	if err := errors.Join(code, moves); err != nil {
		return fmt.Errorf("simulate transfer: %w", err)
	}
	if f := c.follower(); f != nil {
		f.watch(ctx, c, a, head) // what can be used is unused
	}
	return nil
}

// tryTransfer is a *payment.Rejection when the token refuses the transfer.
func (c *Chain) tryTransfer(
	ctx context.Context, as *simulated, a x402.Authorization, s x402.Signature, head header, now uint64,
) error {
	call := c.transfer(a, s)
	try := func(block any) error {
		answer, err := c.ethCallAs(ctx, as, call, block)
		if err == nil && len(answer) == 0 && call.to == settler.MulticallAddress {
			return errNoMulticall
		}
		if as == nil || err == nil || !isAnswer(err) || hasData(err) {
			return err
		}
		// This is not the token's error. If the call succeeds without a sender, the sender cannot pay for the gas.
		if _, free := c.ethCallAs(ctx, nil, call, block); free != nil {
			return free
		}
		return fmt.Errorf("%w: %s", errSenderPoor, err) // err is not wrapped: it is not the token's answer
	}
	err := try(atHash(head.Hash))
	if rejection := rejectionOf(err); rejection != nil && rejection.Reason == x402.ReasonValidAfter && now > a.ValidAfter {
		// An idle chain's head is older than the authorization; the next block will not be.
		err = try("pending")
	}
	rejection := rejectionOf(err)
	if rejection == nil {
		return err
	}
	if call.to != c.config.Domain.Contract {
		if rejection, err = c.refusalOfCreation(ctx, as, a, s, atHash(head.Hash), rejection); err != nil {
			return err
		}
	}
	return c.blockedParty(ctx, a, head, rejection)
}

// errNoMulticall says that a call of Multicall3 did nothing, as calls of accounts without code do.
var errNoMulticall = errors.New("the chain has no Multicall3, which makes smart accounts")

// hasData reports that an error contains a contract's return data.
func hasData(err error) bool {
	data, ok := errors.AsType[rpc.DataError](err)
	return ok && data.ErrorData() != nil
}

// designator begins the code of an account that has delegated by EIP-7702; the delegate's address follows.
var designator = []byte{0xef, 0x01, 0x00}

// checkPayer refuses a payer with code at the latest block that may not pay with this signature.
func (c *Chain) checkPayer(ctx context.Context, a x402.Authorization, s x402.Signature) error {
	return c.refusedByMost(ctx, func(ctx context.Context, on *Chain) error {
		head, err := on.header(ctx, "latest")
		if err != nil {
			return err
		}
		_, err = on.checkCode(ctx, a, s, head)
		return err
	})
}

// checkCode refuses a payer with code, unless it delegates to a contract on the allowlist, or is a smart account of an
// accepted kind whose owner has signed. One that has none yet, and is made with its first payment, counts as having
// code.
func (c *Chain) checkCode(ctx context.Context, a x402.Authorization, s x402.Signature, head header) (
	has bool, err error) {
	at := blockState{c, head.Hash}
	code, err := at.Code(ctx, a.From)
	if err != nil {
		return false, fmt.Errorf("read the payer's code: %w", err)
	}
	delegate, delegated := bytes.CutPrefix(code, designator)
	switch {
	case len(code) == 0 && s.IsOfKey():
		return false, nil
	case delegated && len(delegate) == len(x402.Address{}) && slices.Contains(c.config.Delegates, x402.Address(delegate)):
		return true, nil
	}
	return true, c.checkSmartAccount(ctx, at, code, a, s)
}

// asRelayer is a chain that simulates as a relayer would send.
type asRelayer struct {
	*Chain
	relayer *Relayer
}

// AsRelayer is c with simulations as a relayer would send: by its account, for its current fee, with its gas limit. A
// relayer without gas does not refuse a payment; readiness reports that.
func AsRelayer(c *Chain, r *Relayer) payment.Chain { return asRelayer{c, r} }

// Simulate implements payment.Chain.
func (v asRelayer) Simulate(ctx context.Context, a x402.Authorization, s x402.Signature) error {
	offered, err := v.relayer.currentFee(ctx)
	if err != nil {
		return fmt.Errorf("simulate transfer: %w", err)
	}
	if !s.IsOfKey() {
		if err := v.relayer.countedPause(ctx, v.relayer.SmartAccountsReady(ctx)); err != nil {
			return fmt.Errorf("take a smart account's payment: %w", err)
		}
	}
	// The first key that has gas, or the first of all.
	account, err := v.relayer.choose(ctx, uuid.Nil, s, new(big.Int))
	if err != nil {
		return fmt.Errorf("simulate transfer: %w", err)
	}
	if v.relayer.isWaiting(a) && v.relayer.simulations.allowedSince(a, s, v.config.Now().Add(-simulatedFor)) {
		return nil
	}
	if err := v.relayer.payerWithin(ctx, a.From); err != nil {
		return fmt.Errorf("take the payer's payment: %w", err)
	}
	as := &simulated{address: account.address, fee: offered}
	if !v.relayer.allowedTogether(ctx, v.Chain, as, a, s) {
		err = v.simulate(ctx, as, a, s)
	}
	if at := as.at.Load(); err == nil && at != nil {
		v.relayer.simulations.allow(a, s, allowed{account.address, at.Hash, as.code.Load(), v.config.Now()})
	}
	if errors.Is(err, errSenderPoor) {
		return v.Chain.Simulate(ctx, a, s)
	}
	return err
}

// simulatedFor is how long a simulation that succeeded counts while the payment waits for its turn. Before its
// transaction is made, it is simulated at the latest block.
const simulatedFor = time.Minute

// simulationLog caches which transfers would have succeeded, and at which block. It only saves calls.
type simulationLog struct {
	mu sync.Mutex
	of map[signedAuthorization]allowed
}

type signedAuthorization struct {
	authorization x402.Authorization
	signature     x402.Signature
}

type allowed struct {
	sender x402.Address
	block  x402.Hash
	// code says that the payer had code.
	code bool
	at   time.Time
}

func (l *simulationLog) allow(a x402.Authorization, s x402.Signature, seen allowed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const enough = 10_000
	if l.of == nil || len(l.of) >= enough {
		l.of = map[signedAuthorization]allowed{}
	}
	l.of[signedAuthorization{a, s}] = seen
}

// allowedSince reports that a transfer was simulated since a time.
func (l *simulationLog) allowedSince(a x402.Authorization, s x402.Signature, since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen, ok := l.of[signedAuthorization{a, s}]
	return ok && seen.at.After(since)
}

// last is the latest simulation of a transfer by a sender that succeeded.
func (l *simulationLog) last(a x402.Authorization, s x402.Signature, sender x402.Address) (seen allowed, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen, ok = l.of[signedAuthorization{a, s}]
	return seen, ok && seen.sender == sender
}
