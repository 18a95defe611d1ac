package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// channel is the one that all processes listen on.
const channel = "roamcard"

const (
	notifyEvery = 5 * time.Millisecond   // wake-ups of this long go out as one statement
	quietAfter  = 30 * time.Second       // without a word for this long, the listener asks whether the server is there
	retryFirst  = 100 * time.Millisecond // the listener's back-off doubles from here
	retryLast   = 10 * time.Second
	maxSubject  = 1000 // bytes; the server takes 8000
)

// subject is what one subscribes to.
type subject struct{ topic, key string }

// bus carries wake-ups between processes: at once within this one, by LISTEN and NOTIFY to the others.
// Any may be lost, so whoever waits also polls.
type bus struct {
	pool   *pgxpool.Pool
	config *pgx.ConnConfig
	log    *slog.Logger
	self   string // marks our own notifications, which need no second delivery

	mu          sync.Mutex
	subscribers map[subject]map[chan struct{}]struct{}
	outbox      map[subject]struct{}
	hasMail     chan struct{}

	cancel context.CancelFunc
	loops  sync.WaitGroup
}

func newBus(pool *pgxpool.Pool, config *pgx.ConnConfig, log *slog.Logger) *bus {
	config = config.Copy()
	config.RuntimeParams["application_name"] = "roamcard listen"
	return &bus{
		pool: pool, config: config, log: log, self: uuid.NewString(),
		subscribers: map[subject]map[chan struct{}]struct{}{},
		outbox:      map[subject]struct{}{},
		hasMail:     make(chan struct{}, 1),
		cancel:      func() {},
	}
}

// Subscribe gives a signal soon after Notify for the topic and key, in whatever process. Signals run
// together, may be lost, and may come for nothing. The returned function ends the subscription.
func (s *Store) Subscribe(topic, key string) (<-chan struct{}, func()) {
	return s.bus.subscribe(subject{topic, key})
}

// Notify wakes the subscribers of a topic and key. It never waits.
func (s *Store) Notify(topic, key string) { s.bus.notify(subject{topic, key}) }

func (b *bus) subscribe(to subject) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subscribers[to] == nil {
		b.subscribers[to] = map[chan struct{}]struct{}{}
	}
	b.subscribers[to][ch] = struct{}{}
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.subscribers[to], ch)
		if len(b.subscribers[to]) == 0 {
			delete(b.subscribers, to)
		}
	}
}

func (b *bus) notify(about subject) {
	b.mu.Lock()
	b.wake(about)
	if len(about.topic)+len(about.key) <= maxSubject {
		b.outbox[about] = struct{}{}
	}
	b.mu.Unlock()
	select {
	case b.hasMail <- struct{}{}:
	default:
	}
}

// wake wants the lock held.
func (b *bus) wake(about subject) {
	for ch := range b.subscribers[about] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (b *bus) wakeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for about := range b.subscribers {
		b.wake(about)
	}
}

func (b *bus) start() {
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	b.loops.Go(func() { b.sendLoop(ctx) })
	b.loops.Go(func() { b.listenLoop(ctx) })
}

func (b *bus) stop() {
	b.cancel()
	b.loops.Wait()
}

// sendLoop sends what has gathered, the last time when the store closes: a job handed back at the stop
// should not wait for the others' next poll.
func (b *bus) sendLoop(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-b.hasMail:
			pause(ctx, notifyEvery)
		}
		b.send(context.WithoutCancel(ctx))
	}
}

func (b *bus) send(ctx context.Context) {
	b.mu.Lock()
	outbox := b.outbox
	b.outbox = map[subject]struct{}{}
	b.mu.Unlock()
	if len(outbox) == 0 {
		return
	}
	var payloads []string
	for about := range outbox {
		payloads = append(payloads, strings.Join([]string{b.self, about.topic, about.key}, "\n"))
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for batch := range slices.Chunk(payloads, 1000) {
		_, err := b.pool.Exec(ctx, "SELECT pg_notify($1, p) FROM unnest($2::text[]) AS p", channel, batch)
		if err != nil {
			b.log.Warn("wake-ups not sent", "count", len(payloads), "error", err)
			return
		}
	}
}

func (b *bus) listenLoop(ctx context.Context) {
	for wait := retryFirst; ctx.Err() == nil; wait = min(2*wait, retryLast) {
		err := b.listen(ctx, func() { wait = retryFirst })
		if ctx.Err() != nil {
			return
		}
		b.log.Warn("not listening for wake-ups, polling goes on", "error", err, "retry_in", wait)
		pause(ctx, wait/2+rand.N(wait/2))
	}
}

// listen holds a connection of its own until it fails. Each wait has an end: a connection whose other
// side has vanished is never heard of again.
func (b *bus) listen(ctx context.Context, connected func()) error {
	conn, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // it is given up either way
	}()
	connected()
	b.wakeAll() // something may have been said while nobody listened
	for {
		said, err := hear(ctx, conn)
		if err != nil {
			return err
		}
		if said != nil {
			b.deliver(said.Payload)
		}
	}
}

func (b *bus) dial(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, b.config)
	if err != nil {
		return nil, fmt.Errorf("connect listener: %w", err)
	}
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		_ = conn.Close(ctx) // the error that matters is LISTEN's
		return nil, fmt.Errorf("listen: %w", err)
	}
	return conn, nil
}

// hear waits for a notification; nil when there was none for a while and the server is still there.
func hear(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	waitCtx, cancel := context.WithTimeout(ctx, quietAfter)
	defer cancel()
	said, err := conn.WaitForNotification(waitCtx)
	if err == nil || ctx.Err() != nil || !errors.Is(waitCtx.Err(), context.DeadlineExceeded) {
		return said, err
	}
	pingCtx, cancelPing := context.WithTimeout(ctx, 5*time.Second)
	defer cancelPing()
	if err := conn.Ping(pingCtx); err != nil {
		return nil, fmt.Errorf("ping listener: %w", err)
	}
	return nil, nil
}

func (b *bus) deliver(payload string) {
	parts := strings.SplitN(payload, "\n", 3)
	if len(parts) != 3 || parts[0] == b.self {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wake(subject{parts[1], parts[2]})
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
