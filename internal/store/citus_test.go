package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestOwnersHashAsPostgresDistributesThem: the shard of an owner is known without asking.
func TestOwnersHashAsPostgresDistributesThem(t *testing.T) {
	s := storetest.New(t)
	texts := []string{"", "0", "0x00000000000000000000000000000000000000aa"}
	for n := range 60 {
		texts = append(texts, strings.Repeat("0123456789abcdef", 4)[:n], fmt.Sprintf("0x%040x", n*7919))
	}
	rows, err := s.Pool().Query(t.Context(),
		"SELECT hashtext(of) FROM unnest($1::text[]) WITH ORDINALITY AS t (of, n) ORDER BY n", texts)
	if err != nil {
		t.Fatal(err)
	}
	want, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if got := store.HashText(text); got != want[i] {
			t.Errorf("%q: %d, want %d", text, got, want[i])
		}
	}
}

// TestClaimStaysInOneShard, with all that a claim may count, and is committed in one phase.
func TestClaimStaysInOneShard(t *testing.T) {
	if !storetest.Distributed() {
		t.Skip("needs Citus: make citus")
	}
	url := storetest.URL(t)
	s := storetest.Open(t, url)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]int{}
	for n := range 12 {
		s.Pool().Reset()
		p := claimRequest(fmt.Sprint("key-", n))
		p.Order.Owner = x402.Address{18: 1, 19: byte(n)}
		p.Payment.Authorization.From = p.Order.Owner
		p.MaxUndecided, p.MaxInFlight, p.InFlightSince = 3, 3, time.Now().Add(-time.Hour)
		p.Hits = []limit.Hit{{Class: "paid", Name: p.Order.Owner.Lower(), Rate: limit.Rate{Count: 10, Per: time.Hour}}}
		p.Reservations = []order.Reservation{
			{Resource: "card/" + p.Order.Owner.Lower(), Units: 1, Limit: 1},
			{Resource: "float/card", Units: 2500, Most: 25_000, Limit: 100_000_000, Unsettled: 50_000_000, AsOf: time.Now()},
		}
		if got, err := s.Orders().Claim(t.Context(), p); err != nil || got.Claim != checkout.Fresh {
			t.Fatalf("claim: %v, %v", got.Claim, err)
		}
		touched := storetest.Touched(t, s.Backends(), config.Database)
		if len(touched) != 1 {
			t.Errorf("claim %d was sent to %v", n, touched)
		}
		for worker, last := range touched {
			if used[worker]++; len(last) != 1 || !strings.EqualFold(last[0], "commit") {
				t.Errorf("claim %d ended with %q", n, last)
			}
		}
	}
	if len(used) != len(storetest.Workers()) {
		t.Errorf("the claims were sent to %v", used)
	}
	if n := storetest.TwoPhases(t, config.Database); n != 0 {
		t.Errorf("%d commits in two phases", n)
	}
	// What is counted is seen: rows of all shards are changed in two phases.
	if _, err := s.Pool().Exec(t.Context(), "UPDATE jobs SET version = version + 1"); err != nil {
		t.Fatal(err)
	}
	if storetest.TwoPhases(t, config.Database) == 0 {
		t.Error("two phases are not counted")
	}
}
