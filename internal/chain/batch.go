package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// A flush uses a part of the room only: payments that come before the next block need some, too.
const partOfRoom = 4

// sendSome takes payments that wait, makes their transactions in room account nonces, and sends them in their order. It
// is false when nothing more can be sent now.
func (s *sender) sendSome(ctx context.Context, window payment.Window, room uint64) bool {
	most := 1
	if !s.batchesBy().IsZero() {
		most = s.sizes.most(s.config.MaxBatch)
	}
	waiting := s.take(int(room) * most)
	if len(waiting) == 0 {
		return false
	}
	defer func() {
		for _, w := range waiting {
			s.again(w) // unless it is finished
		}
	}()
	fee, err := s.suggestFee(ctx)
	if err != nil {
		s.finishAll(waiting, err)
		return false
	}
	head, err := s.config.Chain.head(ctx, "latest")
	if err != nil {
		head = header{} // every payment is simulated
	}
	batches, err := s.withinBalance(ctx, split(waiting, int(room), most), fee, window)
	if err != nil {
		s.finishAll(waiting, err)
		return false
	}
	if len(batches) == 0 {
		return false // blocks make room
	}
	allowed := make([][]*waiter, len(batches))
	var all errgroup.Group
	for i, members := range batches {
		all.Go(func() error {
			allowed[i] = s.allowed(ctx, members, fee, head)
			return nil
		})
	}
	_ = all.Wait() // none fails the others
	for _, members := range allowed {
		if len(members) > 0 && !s.sendBatch(ctx, members, fee, window) {
			return false
		}
	}
	return true
}

// split distributes payments over at most room transactions, of at most most members each, the oldest payments first.
// Those that go alone have a transaction each; the others share a part of the rest.
func split(waiting []*waiter, room, most int) (batches [][]*waiter) {
	if most == 1 {
		for _, w := range waiting {
			batches = append(batches, []*waiter{w})
		}
		return batches[:min(room, len(batches))]
	}
	var shared []*waiter
	for _, w := range waiting {
		if !w.alone {
			shared = append(shared, w)
			continue
		}
		if len(batches) < room-1 || len(batches) == 0 { // one is left for the others
			batches = append(batches, []*waiter{w})
		}
	}
	left := room - len(batches)
	if len(shared) == 0 || left == 0 {
		return batches
	}
	parts := min(max(1, left/partOfRoom), len(shared))
	size := min((len(shared)+parts-1)/parts, most)
	for members := range slices.Chunk(shared, size) {
		if left == 0 {
			break
		}
		left--
		batches = append(batches, members)
	}
	return batches
}

// allowed are the members that would move now. The wait of the others ends, or goes on for a transaction of their own.
func (s *sender) allowed(ctx context.Context, members []*waiter, fee fee, head header) []*waiter {
	var known, unknown []*waiter
	current := true
	for _, w := range members {
		last, ok := s.simulations.last(w.payment.Authorization, w.payment.Signature, s.by.address)
		isCurrent := ok && last.block == head.Hash && head.Hash != x402.Hash{}
		if !ok || last.code && !w.alone || len(members) == 1 && !isCurrent {
			unknown = append(unknown, w)
			continue
		}
		current = current && isCurrent
		known = append(known, w)
	}
	if !current && (!s.batchesBy().IsOwn() || head.Hash == x402.Hash{}) {
		// Only our own contract bounds what a payer can do that has got code since; and a call needs a block.
		known, unknown = nil, members
	}
	moving := s.simulateEach(ctx, unknown, fee)
	if !current {
		known = s.simulateTogether(ctx, known, fee, head)
	}
	moving = append(moving, known...)
	return slices.DeleteFunc(slices.Clone(members), func(w *waiter) bool { return !slices.Contains(moving, w) })
}

// simulateEach are those that would move now. The wait of the others ends.
func (s *sender) simulateEach(ctx context.Context, waiting []*waiter, fee fee) (moving []*waiter) {
	refused := make([]error, len(waiting))
	code := make([]bool, len(waiting))
	var all errgroup.Group
	for i, w := range waiting {
		all.Go(func() error {
			// As it will be sent: by the same account, for the same fee.
			as := &simulated{address: s.by.address, fee: fee}
			refused[i] = s.config.Chain.simulate(ctx, as, w.payment.Authorization, w.payment.Signature)
			code[i] = as.code.Load()
			return nil
		})
	}
	_ = all.Wait() // none fails the others
	for i, w := range waiting {
		switch {
		case refused[i] != nil:
			s.finish(w, refused[i])
		case code[i] && !w.alone:
			w.alone = true
		default:
			moving = append(moving, w)
		}
	}
	return moving
}

// simulateTogether are those that one call of all says would move. The others get a transaction of their own, whose
// simulation tells why they would not. Where a node refuses the call itself, all wait for smaller batches.
func (s *sender) simulateTogether(
	ctx context.Context, waiting []*waiter, fee fee, head header,
) (moving []*waiter) {
	if len(waiting) == 0 {
		return nil
	}
	outcomes, err := s.config.Chain.simulateBatch(ctx, s.batchesBy(), membersOf(waiting),
		&simulated{address: s.by.address, fee: fee}, head)
	if err != nil && !isAnswer(err) && !errors.Is(err, settler.ErrAnswer) {
		s.finishAll(waiting, err)
		return nil
	}
	if err != nil { // the node refuses the call itself, such as for its gas, or has another contract
		s.config.Log.WarnContext(ctx, "a batch cannot be simulated", slog.Int("members", len(waiting)),
			slog.Any("cause", err))
		s.sizes.below(len(waiting))
		waiting[0].alone = len(waiting) == 1
		return nil
	}
	for i, w := range waiting {
		if outcomes[i] == settler.Transferred {
			moving = append(moving, w)
		} else {
			w.alone = true
		}
	}
	return moving
}

// sendBatch stores one signed transaction for all members, and sends it. Members that have one already, made by another
// process, have that sent. It is false when there was not enough room.
func (s *sender) sendBatch(ctx context.Context, members []*waiter, fee fee, window payment.Window) bool {
	ids := make([]uuid.UUID, len(members))
	for i, w := range members {
		ids[i] = w.payment.ID
	}
	sign := func(nonce uint64, payments []uuid.UUID) (payment.Variant, error) {
		chosen := slices.DeleteFunc(slices.Clone(members), func(w *waiter) bool {
			return !slices.Contains(payments, w.payment.ID)
		})
		if len(chosen) == 1 {
			p := chosen[0].payment
			alone := s.config.Chain.transfer(p.Authorization, p.Signature)
			return s.sign(ctx, s.by, nonce, fee, common.Address(alone.to), alone.gas, alone.data)
		}
		on := s.batchesBy()
		return s.sign(ctx, s.by, nonce, fee, common.Address(on.Address()), on.Gas(len(chosen)), on.Call(membersOf(chosen)))
	}
	prepared, err := s.prepare(ctx, ids, window, sign)
	switch {
	case errors.Is(err, payment.ErrNoRoom):
		return false
	case errors.Is(err, payment.ErrNotStored) && len(members) > 1:
		for _, w := range members {
			w.alone = true // the others are not to blame
		}
		return true
	case err != nil:
		s.finishAll(members, fmt.Errorf("prepare transaction: %w", err))
		return true
	}
	faultpoint.Reach("transaction.stored")
	for _, t := range prepared {
		several := len(t.Payments) > 1
		if several {
			faultpoint.Reach("batch.stored")
		}
		// The bytes are stored: even if the broadcast fails, the money may move.
		err := s.sendInOrder(ctx, t, window.First)
		if several {
			faultpoint.Reach("batch.sent")
		}
		for _, w := range members {
			if slices.Contains(t.Payments, w.payment.ID) {
				s.finish(w, err)
			}
		}
	}
	return true
}

func membersOf(waiting []*waiter) []settler.Member {
	members := make([]settler.Member, len(waiting))
	for i, w := range waiting {
		members[i] = settler.Member{Authorization: w.payment.Authorization, Signature: w.payment.Signature}
	}
	return members
}

// FindSettler is the contract that the chain has for batches, or zero. Where there are several nodes, two must show the
// same one: what is sent to an account without code costs gas and moves nothing. It is settler.ErrOtherCode when they
// show other code at the contract's address, and another error while no two show the same.
func (c *Chain) FindSettler(ctx context.Context) (settler.Contract, error) {
	ask := func(ctx context.Context, one *Chain) (settler.Contract, error) {
		found, err := settler.Find(ctx, caller{one.pool}, c.config.Domain.Contract)
		if errors.Is(err, settler.ErrNotDeployed) {
			err = nil
		}
		return found, err
	}
	if len(c.pool.endpoints) == 1 {
		found, err := ask(ctx, c)
		if err != nil {
			return settler.Contract{}, fmt.Errorf("find the settler contract: %w", err)
		}
		return found, nil
	}
	const calls = 2
	shown := map[settler.Contract]int{}
	var errs error
	others := 0
	for _, w := range consult(ctx, c, calls, ask, equal[settler.Contract]) {
		switch {
		case errors.Is(w.err, settler.ErrOtherCode):
			if others++; others >= witnesses {
				return settler.Contract{}, fmt.Errorf("find the settler contract: %w", w.err)
			}
			errs = errors.Join(errs, errors.New(w.err.Error())) // one node's word is not enough
		case w.err != nil:
			errs = errors.Join(errs, w.err)
		default:
			if shown[w.value]++; shown[w.value] >= witnesses {
				return w.value, nil
			}
		}
	}
	return settler.Contract{}, errors.Join(errors.New("no two nodes show the same settler contract"), errs)
}

// caller is the pool as a settler.Caller.
type caller struct{ *pool }

// CallContext implements settler.Caller.
func (c caller) CallContext(ctx context.Context, result any, method string, args ...any) error {
	return c.call(ctx, result, method, args...)
}

// simulateBatch runs a batch at a block, as it would be sent, and returns an outcome for each member.
func (c *Chain) simulateBatch(
	ctx context.Context, on settler.Contract, members []settler.Member, as *simulated, at header,
) ([]settler.Outcome, error) {
	call := map[string]any{
		"from": as.address.String(), "to": on.Address().String(), "gas": hexutil.Uint64(on.Gas(len(members))),
		"maxFeePerGas": (*hexutil.Big)(as.fee.cap), "maxPriorityFeePerGas": (*hexutil.Big)(as.fee.tip),
		"data": hexutil.Bytes(on.Call(members)),
	}
	var answer hexutil.Bytes
	if err := c.pool.call(ctx, &answer, "eth_call", call, atHash(at.Hash)); err != nil {
		return nil, fmt.Errorf("simulate a batch: %w", err)
	}
	outcomes, err := on.Results(answer, len(members))
	if err != nil {
		return nil, fmt.Errorf("simulate a batch: %w", err)
	}
	return outcomes, nil
}

// tried is the result of a simulation that a buyer waits for.
type tried struct {
	at      header
	by      x402.Address
	allowed bool
}

// allowedTogether simulates the payments that buyers ask for at the same time with one call, by the contract. It is
// true when this one would move, and its payer has no code; else a simulation of its own tells why.
func (r *Relayer) allowedTogether(
	ctx context.Context, on *Chain, as *simulated, a x402.Authorization, s x402.Signature,
) bool {
	if !r.batchesBy().IsOwn() || !s.IsOfKey() || uint64(r.config.Now().Unix()) >= a.ValidBefore {
		return false
	}
	asked := settler.Member{Authorization: a, Signature: s}
	got, err := r.trials.ask(ctx, on.pool.later, settler.MaxMembers, asked,
		func(ctx context.Context, all []settler.Member) ([]tried, error) { return r.try(ctx, on, as, all) })
	if err != nil || !got.allowed || got.by != as.address {
		return false
	}
	as.at.Store(&got.at)
	if f := on.follower(); f != nil {
		f.watch(ctx, on, a, got.at) // what can be used is unused
	}
	return true
}

func (r *Relayer) try(ctx context.Context, on *Chain, as *simulated, members []settler.Member) ([]tried, error) {
	head, err := on.head(ctx, "latest")
	if err != nil {
		return nil, err
	}
	plain := make([]bool, len(members))
	var codes errgroup.Group
	for i, m := range members {
		codes.Go(func() error {
			has, err := on.checkCode(ctx, m.Authorization, m.Signature, head)
			plain[i] = err == nil && !has
			return nil
		})
	}
	outcomes, err := on.simulateBatch(ctx, r.batchesBy(), members, as, head)
	_ = codes.Wait() // none fails
	if err != nil {
		return nil, err
	}
	results := make([]tried, len(members))
	for i := range members {
		results[i] = tried{head, as.address, plain[i] && outcomes[i] == settler.Transferred}
	}
	return results, nil
}

// unmoved are the members of an included transaction that it has not moved, by its logs.
func (r *Relayer) unmoved(t payment.Transaction, found receipt) []uuid.UUID {
	on, ok := settler.At(found.to, r.config.Chain.config.Domain.Contract)
	if !ok {
		return nil // a transfer of its own, which reverts when it moves nothing
	}
	members, err := on.ParseCall(found.data)
	if err != nil || len(members) != len(t.Payments) {
		return nil // they are simulated before they are sent again
	}
	used := map[authorizationKey]bool{}
	for _, l := range found.Logs {
		if x402.Address(l.Address) == r.config.Chain.config.Domain.Contract && l.topic(0) == x402.TopicUsed {
			payer := l.topic(1)
			used[authorizationKey{x402.Address(payer[12:]), l.topic(2)}] = true
		}
	}
	var unmoved []uuid.UUID
	for i, m := range members {
		if !used[authorizationKey{m.Authorization.From, m.Authorization.Nonce}] {
			unmoved = append(unmoved, t.Payments[i])
		}
	}
	return unmoved
}

// batchSizes adapts the size of batches: halved when one moves nothing at all or cannot be simulated, and one more with
// each transaction that is final.
type batchSizes struct {
	mu  sync.Mutex
	now int
}

// most is the most members that a batch may have now.
func (b *batchSizes) most(limit int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now == 0 {
		b.now = limit
	}
	return b.now
}

// below halves the size when a batch of so many members has failed, however many of that size fail together.
func (b *batchSizes) below(members int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	half := max(1, members/2)
	if b.now == 0 || half < b.now {
		b.now = half
	}
}

func (b *batchSizes) grow(limit int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now > 0 {
		b.now = min(limit, b.now+1)
	}
}
