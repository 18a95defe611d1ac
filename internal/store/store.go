package store

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
)

// Config configures a Store.
type Config struct {
	// URL is the connection string of PostgreSQL, in libpq's form.
	URL string
	// ListenURL reaches the server itself where URL goes through a pooler that shares connections between transactions:
	// LISTEN succeeds there and hears nothing. Empty is URL.
	ListenURL string
	// MaxConns bounds the pool; zero is pgx's default. Two to four for each of the server's cores is
	// enough. One more connection listens.
	MaxConns int
	// QueryMode is one of QueryModes; empty is what URL says, and the first one when it says nothing.
	QueryMode string
	// Tracer follows statements; nil follows none.
	Tracer pgx.QueryTracer
	// Dial is how the server is reached; nil is the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  *slog.Logger
	Now  func() time.Time
	// Products are the products sold, in display order.
	Products []Product
	// SecondOperator says which decisions wait for a second operator.
	SecondOperator approval.Rule
}

// Store is the service's state.
type Store struct {
	pool conns
	// shards is nil unless the database is distributed.
	shards *ownerShards
	ent    *ent.Client
	bus    *bus
	log    *slog.Logger
	now    func() time.Time
	// products are in display order.
	products []Product
	// rule says which decisions wait for a second operator.
	rule approval.Rule
	// mark is nil until the first watermark.
	mark      atomic.Pointer[mark]
	claims    *batcher[checkout.ClaimRequest, checkout.ClaimResult]
	settles   *batcher[settleRequest, order.Order]
	changes   *batcher[change, struct{}]
	lookups   *batcher[lookUpRequest, any]
	contended contended
	// full says that the database had no space for what it was last asked to keep.
	full *atomic.Bool
}

// Open connects and checks that the database answers; CheckSchema checks whether it is migrated.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	config, err := c.poolConfig()
	if err != nil {
		return nil, err
	}
	full := &atomic.Bool{}
	noteNoSpace(config.ConnConfig, full)
	listening, err := c.listenConfig()
	if err != nil {
		return nil, err
	}
	opened, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	pool := conns{opened}
	driver := &pgxDriver{pool: pool}
	s := &Store{
		pool: pool,
		ent:  ent.NewClient(ent.Driver(driver)),
		bus:  newBus(pool, listening, c.Log),
		log:  c.Log,
		now:  c.Now,

		products: c.Products, rule: c.SecondOperator, full: full,
	}
	s.claims = &batcher[checkout.ClaimRequest, checkout.ClaimResult]{
		key: claimKey, run: s.Orders().claimTogether,
	}
	s.settles = &batcher[settleRequest, order.Order]{key: settleKey, run: s.Orders().settleTogether}
	s.changes = &batcher[change, struct{}]{key: changeKey, run: s.changeTogether}
	s.lookups = &batcher[lookUpRequest, any]{run: s.lookUpTogether}
	if err := s.Ping(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("open database: %w", err)
	}
	if s.shards, err = readShards(ctx, pool); err != nil {
		s.Close()
		return nil, fmt.Errorf("read the shards: %w", err)
	}
	driver.shards = s.shards
	s.bus.start()
	return s, nil
}

// Close closes the store, after calls in flight have ended.
func (s *Store) Close() {
	s.claims.stop()
	s.settles.stop()
	s.changes.stop()
	s.lookups.stop()
	s.bus.stop()
	s.pool.Close()
}

// pingTimeout bounds Ping: whoever asks for it wants to know soon.
const pingTimeout = 3 * time.Second

// Ping checks that the database answers, and takes changes.
func (s *Store) Ping(ctx context.Context) error {
	if err := begun(ctx); err != nil {
		return err
	}
	ctx, end := detached(ctx)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	var readOnly bool
	// Nothing is prepared: doctor says by other means what a pooler in between cannot.
	const ask = "SELECT current_setting('transaction_read_only')::boolean"
	err := s.pool.QueryRow(ctx, ask, pgx.QueryExecModeExec).Scan(&readOnly)
	if err == nil && readOnly {
		return fmt.Errorf("%w: %w", ErrUnavailable,
			fault.New(fault.DependencyDown, "The database takes no changes: it is read-only."))
	}
	if err == nil && s.full.Load() {
		return s.hasSpace(ctx)
	}
	return mapError(err)
}

// snapshotTx is for what several statements read as it was at one time.
var snapshotTx = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

func readTimesInUTC(types *pgtype.Map) {
	types.RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID,
		Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
}
