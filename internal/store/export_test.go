package store

import (
	"context"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// Internals of the store that only the tests of this package use.

const MaxReruns = maxReruns

func (s *Store) Tx(ctx context.Context, fn func(context.Context, *ent.Tx) error) error {
	return s.tx(ctx, fn)
}

func (s *Store) Pool() *pgxpool.Pool { return s.pool.Pool }

// HashText is hashText.
func HashText(text string) int32 { return hashText(text) }

// Backends are the server's processes of this store's connections.
func (s *Store) Backends() (all []int) {
	for _, conn := range s.pool.AcquireAllIdle(context.Background()) {
		all = append(all, int(conn.Conn().PgConn().PID()))
		conn.Release()
	}
	return all
}

// WithCallTimeout gives the calls with a context another timeout of the store's own.
func WithCallTimeout(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, timeoutKey{}, d)
}

func Raw(tx *ent.Tx) pgxRunner { return raw(tx) }

func InsertJob(ctx context.Context, tx *ent.Tx, n job.New) (job.Row, bool, error) {
	row, added, err := insertJobOn(ctx, raw(tx), n, "")
	if err == nil && added && n.LeaseOwner == "" {
		wakeOnCommit(tx, topicJobs, string(row.Class))
	}
	return row, added, err
}

// EnqueueOf queues a job of an owner.
func EnqueueOf(ctx context.Context, s *Store, n job.New, owner string) error {
	_, _, err := insertJobOn(ctx, s.pool, n, owner)
	return err
}

func Fence(ctx context.Context, tx *ent.Tx, f job.Fence) error {
	fence(tx, f)
	return pgxOf(tx).flush(ctx)
}

func FinishJob(ctx context.Context, tx *ent.Tx, f job.Fence, o job.Outcome) error {
	return finishJob(ctx, tx, f, o)
}

func WakeOnCommit(tx *ent.Tx, topic, key string) { wakeOnCommit(tx, topic, key) }

func QueueFence(tx *ent.Tx, f job.Fence) { fence(tx, f) }

func Bucket(resource string) string { return bucket(resource) }

func Later(tx *ent.Tx, sql string, args ...any) { later(tx, sql, args...) }

// Batcher is a batcher of the tests' own.
type Batcher = batcher[string, int]

// NewBatcher makes a Batcher whose members differ in their names, which run answers.
func NewBatcher(run func(names []string, answer func(name string, n int, err error))) *Batcher {
	return &Batcher{key: func(name string) string { return name },
		run: func(_ context.Context, all []*member[string, int]) {
			var names []string
			byName := map[string]*member[string, int]{}
			for _, m := range all {
				names = append(names, m.in)
				byName[m.in] = m
			}
			run(names, func(name string, n int, err error) { byName[name].answer(n, err) })
		}}
}

// Do is do.
func (b *batcher[In, Out]) Do(ctx context.Context, in In, alone func() (Out, error)) (Out, error) {
	return b.do(ctx, in, alone)
}

// Hold makes those that come wait for a batch, until the returned function begins it. What runs ends before: whoever
// has its answer may be ahead of the end of its batch, which begins the next one.
func (b *batcher[In, Out]) Hold() (begin func()) {
	b.running.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = true
	return b.next
}

// Waiting is how many wait for a batch.
func (b *batcher[In, Out]) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// Claims is the batcher of claims.
func (s *Store) Claims() *batcher[checkout.ClaimRequest, checkout.ClaimResult] { return s.claims }

// Settles is the batcher of settlements.
func (s *Store) Settles() *batcher[settleRequest, order.Order] { return s.settles }

// Changes is the batcher of what jobs change.
func (s *Store) Changes() *batcher[change, struct{}] { return s.changes }

// Lookups is the batcher of reads.
func (s *Store) Lookups() *batcher[lookUpRequest, any] { return s.lookups }

const (
	BatchSize = batchSize
	Shards    = shards
)

// ClaimStatements are what a batch of claims sends before its commit; SettleStatements what one of settlements does.
func ClaimStatements() []string {
	return []string{batchLimitsSQL, sellingLockSQL, pausedSQL, undecidedSQL, overRateSQL, stocksSQL, claimsSQL}
}

func SettleStatements() []string { return []string{batchLimitsSQL, fenceAllSQL, settlesSQL} }

// MoveStatement moves an order.
var MoveStatement = moveOrderSQL

func Post(ctx context.Context, s *Store, p ledger.Posting) error {
	return s.tx(ctx, func(_ context.Context, tx *ent.Tx) error {
		post(tx, s.stamp(), p)
		return nil
	})
}

// PostFor is Post of an owner's posting.
func PostFor(ctx context.Context, s *Store, owner x402.Address, p ledger.Posting) error {
	return s.tx(ctx, func(_ context.Context, tx *ent.Tx) error {
		postFor(tx, s.stamp(), owner, p)
		return nil
	})
}

// Statement is one of the store's, with its arguments, and what its transaction begins with.
type Statement struct {
	Name, SQL string
	Args      []any
	First     []string
}

// Maintenance are the statements by which the service looks for what is due, and deletes at most limit rows of before a
// time.
func Maintenance(before time.Time, limit int) []Statement {
	final := finalStatuses()
	return []Statement{
		{"due jobs", everywhere(claimJobsSQL), []any{"w", []string{"order_fulfill"}, limit, time.Minute, job.Deliver}, nil},
		{"passed leases", everywhere(reapJobsSQL), []any{limit}, nil},
		{"depth of the queue", depthJobsSQL, nil, nil},
		{"oldest orders", oldestOrdersSQL, nil, nil},
		{"orders whose time is over", expireSQL,
			[]any{order.PaymentRequired, before, limit, order.Expired, "worker", "not paid in time"}, nil},
		{"parked jobs", everywhere(clearParkedSQL), []any{"order_fulfill", limit}, nil},
		{"jobs of maintenance", everywhere(pruneJobsSQL),
			[]any{[]string{"order_fulfill", "payment_confirm"}, before, limit}, nil},
		{"jobs of final orders", everywhere(pruneOrderJobsSQL), []any{"order_fulfill", before, limit, final}, nil},
		{"reservations", everywhere(pruneReservationsSQL), []any{before, limit}, nil},
		{"transactions", pruneTransactionsSQL, []any{before, limit}, nil},
		{"expired orders", everywhere(pruneExpiredSQL), []any{before, limit}, nil},
		{"timelines", pruneTimelineSQL, []any{walkTimeline, time.Unix(0, 0), "", before, limit, final},
			[]string{customPlansSQL, indexPlansSQL}},
		{"reads", pruneReadsSQL, []any{before, limit}, nil},
		{"events", pruneEventsSQL, []any{before, limit}, nil},
		{"oldest event", oldestEventSQL, []any{limit}, nil},
		{"first event to roll up", firstEventSQL, []any{before, endOfTime}, nil},
		{"days of events", pruneDaysSQL, []any{before, limit}, nil},
		{"events of providers", pruneEventsOfProvidersSQL, []any{before, limit}, nil},
		{"challenges", pruneChallengesSQL, []any{before, limit}, nil},
		{"sessions", pruneSessionsSQL, []any{before, limit}, nil},
	}
}

// MigrateWith is Migrate with files and limits of a test's own.
func MigrateWith(
	ctx context.Context, url string, files fs.FS, log *slog.Logger, lockTimeout, within time.Duration,
) (int, error) {
	return migrateWith(ctx, url, files, log, migrationLimits{lockTimeout: lockTimeout, within: within})
}

// SumBy is Sum with another number of entries for each statement.
func (t Treasury) SumBy(ctx context.Context, after, upto, atOnce int64) (map[string]money.USDC, int64, error) {
	return t.sum(ctx, after, upto, atOnce)
}

// InsertAudit adds a row to the audit trail.
func InsertAudit(tx *ent.Tx, row *ent.Audit) { insert(tx, ent.AuditTable, row) }

// Everywhere is a statement without the place that a distributed database wants.
func Everywhere(sql string) string { return everywhere(sql) }

// Made are the statements that are made when the program starts.
func Made() map[string]string {
	return map[string]string{
		"reportTransferSQL": reportTransferSQL, "concludeSQL": concludeSQL, "reserveCardSQL": reserveCardSQL,
		"claimsSQL": claimsSQL, "reserveProfileSQL": reserveProfileSQL, "replacePlansSQL": replacePlansSQL,
		"reserveTopupSQL": reserveTopupSQL, "learnPlansSQL": learnPlansSQL, "openFindingsSQL": openFindingsSQL,
		"enterSQL": enterSQL, "addJobSQL": addJobSQL, "insertJobSQL": insertJobSQL, "insertAloneSQL": insertAloneSQL,
		"moveOrderSQL": moveOrderSQL, "fenceAllSQL": fenceAllSQL, "settlesSQL": settlesSQL, "insertCardSQL": insertCardSQL,
		"postShardedSQL": postShardedSQL, "setSwitchSQL": setSwitchSQL, "arriveSQL": arriveSQL, "leaveOutSQL": leaveOutSQL,
		"keepReceiptSQL": keepReceiptSQL,
	}
}
