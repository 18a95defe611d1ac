package chain

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// mostFollowed is how many blocks are kept: more than lie between the latest and the safe one.
	mostFollowed = 512
	// mostMissing is how many blocks are read to link a new head to the blocks kept.
	mostMissing = 32
	// firstRecheck is how long the blocks alone tell that an authorization is unused. Then the token is asked, and after
	// twice the time again, up to lastRecheck: a node may have lacked a log when its block was read.
	firstRecheck = 20 * time.Second
	lastRecheck  = 2 * time.Minute
	// keepUnused is how long an authorization that nobody asks for is kept.
	keepUnused = 10 * time.Minute
	// waitedFor is how long after the last question somebody is taken to wait for an authorization: longer than the
	// pauses between two looks at a payment.
	waitedFor = time.Minute
)

// follower reads the blocks of one node, each once for all payments that wait, and tells which authorizations were used
// since they were seen unused. Blocks are linked by their hashes, so a reorganisation takes what it removes.
type follower struct {
	// reading is held while blocks are read.
	reading chan struct{}

	mu     sync.Mutex
	blocks []*followed
	unused map[authorizationKey]seenUnused
	pruned time.Time
}

func newFollower() *follower {
	return &follower{reading: make(chan struct{}, 1), unused: map[authorizationKey]seenUnused{}}
}

type authorizationKey struct {
	payer x402.Address
	nonce x402.Hash
}

// followed is a block, and the logs that use authorizations in it.
type followed struct {
	header
	uses map[authorizationKey]logEntry
	// moves are the transfers to a receiver, once they are read.
	moves map[x402.Address][]logEntry
}

// seenUnused is the block at which an authorization was unused, and when the token was asked.
type seenUnused struct {
	number  uint64
	hash    x402.Hash
	at      time.Time
	recheck time.Duration
	asked   time.Time
}

// errNotFollowed says that a block is not linked to those that are kept.
var errNotFollowed = errors.New("the block is not linked to those that are followed")

// follow reads the blocks up to a head, where they are not read yet.
func (f *follower) follow(ctx context.Context, c *Chain, head header) error {
	if f.at(head.Hash) != nil {
		return nil
	}
	select {
	case f.reading <- struct{}{}:
		defer func() { <-f.reading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if f.at(head.Hash) != nil {
		return nil
	}
	if first, kept := f.first(); kept && head.Number <= first {
		return errNotFollowed
	}
	fresh := []*followed{{header: head}}
	for f.at(fresh[len(fresh)-1].Parent) == nil {
		if len(fresh) == mostMissing || !f.isLinkable(head, c.config.Now()) {
			f.keep(fresh[:1], true)
			return nil
		}
		parent, err := c.headerOf(ctx, fresh[len(fresh)-1].Parent)
		if err != nil {
			return err
		}
		fresh = append(fresh, &followed{header: parent})
	}
	slices.Reverse(fresh)
	for _, b := range fresh {
		var err error
		if b.uses, err = c.usesIn(ctx, b.Hash); err != nil {
			return err
		}
	}
	f.keep(fresh, false)
	return nil
}

// isLinkable reports that a head is not far ahead of the blocks that are kept, and that somebody waits for what they
// tell.
func (f *follower) isLinkable(head header, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.blocks) == 0 || head.Number > f.blocks[len(f.blocks)-1].Number+mostMissing {
		return false
	}
	for _, seen := range f.unused {
		if now.Sub(seen.asked) < waitedFor {
			return true
		}
	}
	return false
}

// usesIn are the authorizations that a block uses.
func (c *Chain) usesIn(ctx context.Context, block x402.Hash) (map[authorizationKey]logEntry, error) {
	uses := map[authorizationKey]logEntry{}
	err := c.askLogs(ctx, map[string]any{
		"blockHash": block.String(), "topics": []any{[]string{x402.TopicUsed.String(), x402.TopicCanceled.String()}},
	}, func(ours []logEntry) error {
		for _, l := range ours {
			if payer := l.topic(1); x402.Hash(l.BlockHash) == block {
				uses[authorizationKey{x402.Address(payer[12:]), l.topic(2)}] = l
			}
		}
		return nil
	})
	return uses, err
}

// at is the block of a hash, or nil.
func (f *follower) at(hash x402.Hash) *followed {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.index(hash); i >= 0 {
		return f.blocks[i]
	}
	return nil
}

// index searches from the newest block on.
func (f *follower) index(hash x402.Hash) int {
	for i := len(f.blocks) - 1; i >= 0; i-- {
		if f.blocks[i].Hash == hash {
			return i
		}
	}
	return -1
}

// first is the number of the oldest block.
func (f *follower) first() (number uint64, kept bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.blocks) == 0 {
		return 0, false
	}
	return f.blocks[0].Number, true
}

// keep adds blocks, in the place of those that follow the first one's parent, or of all.
func (f *follower) keep(fresh []*followed, alone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := 0
	if !alone {
		kept = f.index(fresh[0].Parent) + 1
	}
	f.blocks = append(f.blocks[:kept:kept], fresh...)
	if extra := len(f.blocks) - mostFollowed; extra > 0 {
		f.blocks = slices.Clone(f.blocks[extra:])
	}
}

// watch records that an authorization is unused at a block.
func (f *follower) watch(ctx context.Context, c *Chain, a x402.Authorization, at header) {
	if f.follow(ctx, c, at) != nil {
		return // it is asked for again
	}
	now := c.config.Now()
	key := authorizationKey{a.From, a.Nonce}
	f.mu.Lock()
	defer f.mu.Unlock()
	recheck := firstRecheck
	if known, ok := f.unused[key]; ok {
		if recheck = known.recheck; now.Sub(known.at) >= recheck {
			recheck = min(2*recheck, lastRecheck)
		}
	}
	f.unused[key] = seenUnused{number: at.Number, hash: at.Hash, at: now, recheck: recheck, asked: now}
	if now.Sub(f.pruned) >= keepUnused {
		f.pruned = now
		for key, seen := range f.unused {
			if now.Sub(seen.asked) >= keepUnused {
				delete(f.unused, key)
			}
		}
	}
}

// status is the verdict that the blocks up to a head tell. known is false when they do not, and the token has to be
// asked.
func (f *follower) status(
	ctx context.Context, c *Chain, a x402.Authorization, head header,
) (v payment.Verdict, known bool) {
	key := authorizationKey{a.From, a.Nonce}
	now := c.config.Now()
	f.mu.Lock()
	seen, ok := f.unused[key]
	if ok {
		seen.asked = now
		f.unused[key] = seen
	}
	f.mu.Unlock()
	if !ok || f.follow(ctx, c, head) != nil {
		return payment.Verdict{}, false
	}
	used, in, linked := f.useSince(key, seen, head)
	switch {
	case !linked:
		return payment.Verdict{}, false
	case in == nil:
		asked := now.Sub(seen.at)
		return payment.Verdict{State: payment.Unused}, asked >= 0 && asked < seen.recheck
	case used.topic(0) != x402.TopicUsed:
		return payment.Verdict{}, false
	}
	for _, l := range f.movesTo(ctx, c, in, a.To) {
		if directlyAfter(used)(l) && l.moves(a) {
			return payment.Verdict{State: payment.Settled, Receipt: receiptFrom(a, l, in.header)}, true
		}
	}
	return payment.Verdict{}, false
}

// useSince is the log that used an authorization after it was seen unused, up to a head, and its block. linked is false
// when one of the two blocks is not in the chain that is followed.
func (f *follower) useSince(
	key authorizationKey, seen seenUnused, head header,
) (used logEntry, in *followed, linked bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from, to := f.index(seen.hash), f.index(head.Hash)
	if from < 0 || to < 0 {
		return logEntry{}, nil, false
	}
	for i := from + 1; i <= to; i++ {
		if l, ok := f.blocks[i].uses[key]; ok {
			return l, f.blocks[i], true
		}
	}
	return logEntry{}, nil, true
}

// movesTo are the transfers to a receiver in a block, read once.
func (f *follower) movesTo(ctx context.Context, c *Chain, in *followed, to x402.Address) []logEntry {
	known := func() ([]logEntry, bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		moves, ok := in.moves[to]
		return moves, ok
	}
	if moves, ok := known(); ok {
		return moves
	}
	select {
	case f.reading <- struct{}{}:
		defer func() { <-f.reading }()
	case <-ctx.Done():
		return nil
	}
	moves, ok := known()
	if ok {
		return moves
	}
	err := c.askLogs(ctx, map[string]any{
		"blockHash": in.Hash.String(), "topics": []any{x402.TopicTransfer.String(), nil, to.Word().String()},
	}, func(ours []logEntry) error {
		moves = slices.DeleteFunc(ours, func(l logEntry) bool { return x402.Hash(l.BlockHash) != in.Hash })
		return nil
	})
	if err != nil {
		return nil // the full search asks again
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.moves == nil {
		in.moves = map[x402.Address][]logEntry{}
	}
	in.moves[to] = moves
	return moves
}

// includes is the number of the block in which a transaction used an authorization, so that it did not revert.
func (f *follower) includes(transaction x402.Hash) (number uint64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range slices.Backward(f.blocks) {
		for _, use := range b.uses {
			if x402.Hash(use.TransactionHash) == transaction {
				return b.Number, true
			}
		}
	}
	return 0, false
}

// isFollowed reports that the node's current chain has a block.
func (c *Chain) isFollowed(ctx context.Context, block x402.Hash) bool {
	f := c.follower()
	if f == nil || !c.shares() {
		return false
	}
	head, err := c.head(ctx, "latest")
	return err == nil && f.follow(ctx, c, head) == nil && f.at(block) != nil
}

// follower is the one of the only node, or nil where several are asked.
func (c *Chain) follower() *follower {
	if len(c.pool.endpoints) != 1 {
		return nil
	}
	return c.pool.endpoints[0].follower
}

// headLog shares the reading of heads.
type headLog struct {
	flight singleflight.Group
	mu     sync.Mutex
	of     map[headKey]readHead
	// asked are the heads that are read for those who need the latest one.
	asked map[headKey]*rounds[struct{}, header]
}

func newHeadLog() *headLog {
	return &headLog{of: map[headKey]readHead{}, asked: map[headKey]*rounds[struct{}, header]{}}
}

func (l *headLog) rounds(key headKey) *rounds[struct{}, header] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked[key] == nil {
		l.asked[key] = &rounds[struct{}, header]{}
	}
	return l.asked[key]
}

func (l *headLog) keep(key headKey, head readHead) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[key] = head
}

type headKey struct {
	node string
	tag  string
}

type readHead struct {
	header
	at time.Time
}

// Following is the same chain for payments that wait: they share the reading of heads, and see a block up to HeadFor
// later. Who is told that a payment is not needed, or is, has to see the latest block.
func (c *Chain) Following() *Chain {
	following := *c
	following.following = true
	return &following
}

// shares reports whether heads are shared.
func (c *Chain) shares() bool { return c.following && c.config.HeadFor > 0 }

// mostAsking bounds those who wait for one reading of a head.
const mostAsking = 1_000

// head is the header of a tag, read after the call, once for all that ask meanwhile; with Following, it is read at most
// once per HeadFor for all that ask.
func (c *Chain) head(ctx context.Context, tag string) (header, error) {
	key := headKey{tag: tag}
	if len(c.pool.endpoints) == 1 {
		key.node = c.pool.endpoints[0].name
	}
	if !c.shares() {
		return c.recent.rounds(key).ask(ctx, c.pool.later, mostAsking, struct{}{}, func(
			ctx context.Context, asks []struct{},
		) ([]header, error) {
			h, err := c.header(ctx, tag)
			if err == nil {
				c.recent.keep(key, readHead{h, c.config.Now()})
			}
			return slices.Repeat([]header{h}, len(asks)), err
		})
	}
	c.recent.mu.Lock()
	known, ok := c.recent.of[key]
	c.recent.mu.Unlock()
	if since := c.config.Now().Sub(known.at); ok && since >= 0 && since < c.config.HeadFor {
		return known.header, nil
	}
	answer := c.recent.flight.DoChan(key.node+" "+tag, func() (any, error) {
		// The others that wait for it do not end with this caller; the pool bounds each call.
		h, err := c.header(context.WithoutCancel(ctx), tag)
		if err == nil {
			c.recent.keep(key, readHead{h, c.config.Now()})
		}
		return h, err
	})
	select {
	case got := <-answer:
		if got.Err != nil {
			return header{}, got.Err
		}
		return got.Val.(header), nil
	case <-ctx.Done():
		return header{}, ctx.Err()
	}
}
