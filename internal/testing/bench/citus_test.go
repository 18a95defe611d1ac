package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// BenchmarkClaimDistributed is the claim of BenchmarkClaim in a database that is distributed by owner, with how many of
// the transactions were committed in two phases. `make citus` runs it.
func BenchmarkClaimDistributed(b *testing.B) {
	if !storetest.Distributed() {
		b.Skip("needs Citus: make citus")
	}
	b.Run("claim", func(b *testing.B) { claimsDistributed(b, few) })
	b.Run("many/claim", func(b *testing.B) { claimsDistributed(b, many) })
}

func claimsDistributed(b *testing.B, clients int) {
	db := storetest.URL(b)
	s, err := store.Open(b.Context(), store.Config{URL: db, MaxConns: 16})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	all := make([]checkout.ClaimRequest, b.N)
	for i := range all {
		all[i] = claimOf(fmt.Sprint("key-", i))
	}
	config, err := pgx.ParseConfig(db)
	if err != nil {
		b.Fatal(err)
	}
	stop := releaseByShard(b, db)
	took := make([]time.Duration, b.N)
	begin := time.Now()
	b.ResetTimer()
	inParallel(b.N, clients, func(_, i int) {
		started := time.Now()
		if result, err := s.Orders().Claim(b.Context(), all[i]); err != nil || result.Claim != checkout.Fresh {
			b.Errorf("claim: %d, %v", result.Claim, err)
		}
		took[i] = time.Since(started)
	})
	b.StopTimer()
	reportRate(b, time.Since(begin), took)
	stop()
	b.ReportMetric(float64(storetest.TwoPhases(b, config.Database)), "two-phase-commits")
}

// releaseByShard is releaseReservations with a transaction for each shard.
func releaseByShard(b *testing.B, db string) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		connected(b, db, func(own context.Context, conn *pgx.Conn) error {
			for {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return nil
				}
				rows, err := conn.Query(own, "SELECT DISTINCT shard FROM reservations WHERE released_at IS NULL")
				if err != nil {
					return err
				}
				keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if err != nil {
					return err
				}
				for _, key := range keys {
					if _, err := conn.Exec(own, "UPDATE reservations SET released_at = 'epoch' WHERE released_at IS NULL "+
						"AND shard = $1", key); err != nil {
						return err
					}
				}
			}
		})
	}()
	return func() { cancel(); <-done }
}
