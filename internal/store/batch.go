package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/internal/faultpoint"
)

const (
	// batchSize is how many callers share a transaction at most.
	batchSize = 32
	// lockWait is how long those that come later wait for a transaction that waits for a lock. A batch gives up then,
	// and its members go on in transactions of their own.
	lockWait = 250 * time.Millisecond
)

// batcher lets callers that do the same at the same time share a transaction. One batch runs at a time, and the next
// one begins as soon as it has ended, with those that have come meanwhile: nobody waits for others to come. A caller
// that comes while nothing runs, or is the only one, has a transaction of its own, as if there were no batches.
type batcher[In, Out any] struct {
	// key names what a member changes: the members of a batch have different ones. Nil for members that only read.
	key func(In) string
	// run does the work of two or more members in one transaction, and answers those whose outcome is known or
	// unknown. The others have a transaction of their own afterwards; nothing of them may be stored.
	run func(ctx context.Context, batch []*member[In, Out])

	mu      sync.Mutex
	busy    bool
	waiting []*member[In, Out]
	running sync.WaitGroup
}

// member is a caller in a batch.
type member[In, Out any] struct {
	ctx context.Context
	in  In
	// The following is set before done is closed.
	next verdict
	out  Out
	err  error
	done chan struct{}
}

// verdict is how a member goes on.
type verdict int

const (
	// concurrent has a transaction of its own, at the same time as others.
	concurrent verdict = iota
	// exclusive has a transaction of its own, and no batch runs until it has ended.
	exclusive
	// done has its answer.
	done
)

func (m *member[In, Out]) answer(out Out, err error) { m.next, m.out, m.err = done, out, err }

// do runs in as part of a batch, or alone in a transaction of its own. The end of ctx does not interrupt a batch: a
// caller that has gone before it began begins nothing. After the store's own timeout the caller gets ErrUnknownCommit,
// or an error that says that nothing was begun.
func (b *batcher[In, Out]) do(ctx context.Context, in In, alone func() (Out, error)) (Out, error) {
	m := b.join(ctx, in)
	if err := b.wait(m); err != nil {
		var none Out // a batch may still answer m
		return none, err
	}
	switch m.next {
	case done:
		return m.out, m.err
	case exclusive:
		defer b.handOver()()
	case concurrent:
	}
	return alone()
}

// join is first when nothing runs, and waits otherwise.
func (b *batcher[In, Out]) join(ctx context.Context, in In) *member[In, Out] {
	m := &member[In, Out]{ctx: ctx, in: in, done: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy {
		b.waiting = append(b.waiting, m)
		return m
	}
	b.busy, m.next = true, exclusive
	close(m.done)
	return m
}

// wait leaves the queue when its caller has gone. Once its batch has begun it waits for the outcome, which is the
// store's to tell.
func (b *batcher[In, Out]) wait(m *member[In, Out]) error {
	ctx, cancel := detached(m.ctx)
	defer cancel()
	select {
	case <-m.done:
		return nil
	case <-m.ctx.Done():
		if b.leave(m) {
			return begun(m.ctx)
		}
	case <-ctx.Done():
	}
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
	}
	if b.leave(m) {
		return down(fmt.Errorf("begin transaction: %w", ctx.Err()))
	}
	select {
	case <-m.done:
		return nil
	default:
		return unknown(ctx.Err())
	}
}

// leave reports whether m was still waiting, so that nothing of it begins.
func (b *batcher[In, Out]) leave(m *member[In, Out]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, m)
	if i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	return i >= 0
}

// handOver begins the next batch when the returned function is called, or when that takes too long.
func (b *batcher[In, Out]) handOver() func() {
	once := sync.OnceFunc(b.next)
	timer := time.AfterFunc(lockWait, once)
	return func() {
		timer.Stop()
		once()
	}
}

// next begins the next batch.
func (b *batcher[In, Out]) next() {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch batch := b.take(); len(batch) {
	case 0:
		b.busy = false
	case 1:
		batch[0].next = exclusive
		close(batch[0].done)
	default:
		b.running.Go(func() { b.flush(batch) })
	}
}

// take wants the lock held.
func (b *batcher[In, Out]) take() []*member[In, Out] {
	var batch, left []*member[In, Out]
	keys := map[string]bool{}
	for _, m := range b.waiting {
		key := ""
		if b.key != nil {
			key = b.key(m.in)
		}
		if len(batch) == batchSize || b.key != nil && keys[key] {
			left = append(left, m)
			continue
		}
		keys[key] = true
		batch = append(batch, m)
	}
	b.waiting = left
	if b.key != nil {
		// The rows of all batches are written in the same order.
		slices.SortFunc(batch, func(m, n *member[In, Out]) int { return cmp.Compare(b.key(m.in), b.key(n.in)) })
	}
	return batch
}

func (b *batcher[In, Out]) flush(batch []*member[In, Out]) {
	defer b.handOver()()
	defer func() {
		p := recover()
		for _, m := range batch {
			if p != nil { // after the commit, perhaps
				m.answer(m.out, unknown(fmt.Errorf("panic: %v\n%s", p, debug.Stack())))
			}
			close(m.done)
		}
	}()
	ctx, cancel := detached(context.WithoutCancel(batch[0].ctx))
	defer cancel()
	b.run(ctx, batch)
}

// stop waits for the batch that runs.
func (b *batcher[In, Out]) stop() { b.running.Wait() }

// isMemberError reports whether an error that rolled a batch back may be that of one member: each one is told its own
// then. Other errors are the same for all.
func isMemberError(err error) bool {
	if errors.Is(err, ErrUnknownCommit) {
		return false
	}
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (!unavailable(pgErr.Code) || pgErr.Code == lockTimeout || mustRerun(err))
}

// lockTimeout is the error of a statement that waited too long for a lock.
const lockTimeout = "55P03"

// beforeClaim and beforeSettle are the fault points of one claim or settlement, and of a batch of them.
func beforeClaim() error  { return faultpoint.Fail("claim.before_commit") }
func beforeSettle() error { return faultpoint.Fail("settle.before_commit") }
