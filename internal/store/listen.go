package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/internal/jitter"
)

// channel is the channel that all processes listen on.
const channel = "roamcard"

const (
	notifyEvery = 5 * time.Millisecond   // wake-ups within this time are sent in one statement
	quietAfter  = 30 * time.Second       // after this long without a notification, the listener pings the server
	retryFirst  = 100 * time.Millisecond // the listener's back-off doubles from here
	retryLast   = 10 * time.Second
	maxSubject  = 1000 // bytes; the server takes 8000
)

// subject is the subject of a subscription.
type subject struct{ topic, key string }

// bus sends wake-ups: directly within this process, and with LISTEN and NOTIFY to the others. A wake-up may be lost, so
// subscribers also poll.
type bus struct {
	pool   conns
	config *pgx.ConnConfig
	log    *slog.Logger
	self   string // marks our own notifications, which need no second delivery

	mu          sync.Mutex
	subscribers map[subject][]chan struct{}
	outbox      map[subject]struct{}
	hasMail     chan struct{}
	// listening is closed when LISTEN first succeeded; failure is why it did not yet.
	listening  chan struct{}
	listenOnce sync.Once
	failure    error

	cancel context.CancelFunc
	loops  sync.WaitGroup
}

func newBus(pool conns, config *pgx.ConnConfig, log *slog.Logger) *bus {
	config = config.Copy()
	config.RuntimeParams["application_name"] = "roamcard listen"
	return &bus{
		pool: pool, config: config, log: log, self: uuid.NewString(),
		subscribers: map[subject][]chan struct{}{},
		outbox:      map[subject]struct{}{},
		hasMail:     make(chan struct{}, 1),
		listening:   make(chan struct{}),
		cancel:      func() {},
	}
}

// Subscribe signals soon after Notify for the topic and one of the keys, in any process. Signals may be merged, lost or
// spurious. The returned function ends the subscription.
func (s *Store) Subscribe(topic string, keys ...string) (<-chan struct{}, func()) {
	about := make([]subject, len(keys))
	for i, key := range keys {
		about[i] = subject{topic, key}
	}
	return s.bus.subscribe(about)
}

// Notify wakes the subscribers of a topic and key. It never waits.
func (s *Store) Notify(topic, key string) { s.bus.notify(subject{topic, key}) }

func (b *bus) subscribe(about []subject) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, to := range about {
		b.subscribers[to] = append(b.subscribers[to], ch)
	}
	return ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, to := range about {
			left := slices.DeleteFunc(b.subscribers[to], func(one chan struct{}) bool { return one == ch })
			if b.subscribers[to] = left; len(left) == 0 {
				delete(b.subscribers, to)
			}
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
	for _, ch := range b.subscribers[about] {
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

// sendLoop sends the collected wake-ups, for the last time when the store closes, so that a job handed back at shutdown
// does not wait for the next poll.
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
		_, err := b.pool.Pool.Exec(ctx, "SELECT pg_notify($1, p) FROM unnest($2::text[]) AS p", channel, batch)
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
		b.mu.Lock()
		b.failure = err
		b.mu.Unlock()
		b.log.Warn("not listening for wake-ups, polling goes on", "error", err, "retry_in", wait)
		pause(ctx, wait/2+jitter.Below(wait/2))
	}
}

// listen uses a connection of its own until it fails. Each wait has a timeout, because a dead connection may report no
// error.
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
	b.wakeAll() // notifications may have been missed
	b.listenOnce.Do(func() { close(b.listening) })
	for {
		said, err := waitForNotification(ctx, conn)
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
	// Not ended by the store's closing: giving a statement up sends a cancel request, and PgBouncer before 1.21 may die of
	// one.
	ctx, cancelListen := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancelListen()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		_ = conn.Close(ctx) // the error that matters is LISTEN's
		return nil, fmt.Errorf("listen: %w", err)
	}
	return conn, nil
}

// waitForNotification waits for a notification; nil when there was none for a while and the server still answers.
func waitForNotification(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
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
