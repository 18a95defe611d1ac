package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// claimedBy claims purchases of so many wallets.
func claimedBy(t *testing.T, s *store.Store, n int) (all []settlementOf, claims []checkout.ClaimResult) {
	t.Helper()
	for i := range n {
		p := claimRequest("k", owned(i))
		all, claims = append(all, settling(p)), append(claims, claim(t, s, p))
	}
	return all, claims
}

// hourly are the hits of a claim, of which its wallet has so many in an hour.
func hourly(p *checkout.ClaimRequest, count int) []limit.Hit {
	return limit.New(limit.Rates{limit.Paid: {Count: count, Per: time.Hour}}, time.Now).Hit(limit.Paid,
		p.Order.Owner.Lower())
}

func statusOf(t *testing.T, s *store.Store, id order.ID) order.Status {
	t.Helper()
	o, err := s.Orders().Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return o.Status
}

// TestSettlementThatFailsTakesNoOtherAlong: a lost lease, an end of it, a payment and an order in another status, and a
// posting that does not balance.
func TestSettlementThatFailsTakesNoOtherAlong(t *testing.T) {
	storetest.NeedsBatches(t)
	s := storetest.New(t)
	for _, c := range []struct {
		name  string
		spoil func(n *settlementOf, claim *checkout.ClaimResult)
		lost  bool
	}{
		{"another worker has the job", func(_ *settlementOf, r *checkout.ClaimResult) { r.Job.Attempt++ }, true},
		{"the lease is over", func(_ *settlementOf, r *checkout.ClaimResult) {
			exec(t, s, "UPDATE jobs SET lease_until = now() - interval '1 s' WHERE id = $1", r.Job.ID)
		}, true},
		{"the payment is dead", func(n *settlementOf, _ *checkout.ClaimResult) {
			exec(t, s, "UPDATE payments SET status = 'dead' WHERE id = $1", n.payment.ID)
		}, false},
		{"the order has moved", func(n *settlementOf, _ *checkout.ClaimResult) {
			exec(t, s, "UPDATE orders SET status = 'operator_review' WHERE id = $1", n.move.Order)
		}, false},
		{"the posting is not balanced", func(n *settlementOf, _ *checkout.ClaimResult) {
			n.move.Postings[0].Entries[0].Amount++
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []settlementOf
			var claims []checkout.ClaimResult
			for i := range 5 {
				p := claimRequest(c.name, owned(i))
				all, claims = append(all, settling(p)), append(claims, claim(t, s, p))
			}
			const bad = 2
			c.spoil(&all[bad], &claims[bad])
			before := stored(t, s, all[bad].claim)
			settled, errs := settleBatch(t, s, all, claims)
			for i, n := range all {
				if i == bad {
					if errs[i] == nil || errors.Is(errs[i], job.ErrLeaseLost) != c.lost {
						t.Errorf("the bad one: %v", errs[i])
					}
					if after := stored(t, s, n.claim); fmt.Sprint(after) != fmt.Sprint(before) {
						t.Errorf("the bad one became %v", after)
					}
					continue
				}
				if errs[i] != nil || settled[i].Status != order.Settled ||
					statusOf(t, s, n.move.Order) != order.Settled {
					t.Errorf("member %d: %+v, %v", i, settled[i], errs[i])
				}
			}
		})
	}
}

func exec(t *testing.T, s *store.Store, sql string, args ...any) {
	t.Helper()
	if _, err := s.Pool().Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func TestFailureOfABatchOfSettlementsIsToldToAll(t *testing.T) {
	storetest.NeedsBatches(t)
	s := storetest.New(t)
	all, claims := claimedBy(t, s, 5)
	for _, mode := range []string{"error", "panic"} {
		if err := faultpoint.Arm("settle.before_commit:" + mode); err != nil {
			t.Fatal(err)
		}
		_, errs := settleBatch(t, s, all, claims)
		for i, err := range errs {
			// A panic may have come after the commit.
			if err == nil || errors.Is(err, store.ErrUnknownCommit) != (mode == "panic") ||
				statusOf(t, s, all[i].move.Order) != order.Settling {
				t.Errorf("%s: %v", mode, err)
			}
		}
	}
	if _, errs := settleBatch(t, s, all, claims); errors.Join(errs...) != nil {
		t.Error(errs)
	}
}

// TestOrderIsSettledOnceByAllProcesses, each with batches of its own, while the others are settled too.
func TestOrderIsSettledOnceByAllProcesses(t *testing.T) {
	url := storetest.URL(t)
	stores := []*store.Store{storetest.Open(t, url), storetest.Open(t, url), storetest.Open(t, url)}
	all, claims := claimedBy(t, stores[0], 40)
	won := make([]atomic.Int32, len(all))
	var group sync.WaitGroup
	for _, s := range stores {
		for i, n := range all {
			group.Go(func() {
				if _, err := n.in(t, s, claims[i].Job.Fence()); err == nil {
					won[i].Add(1)
				} else if errors.Is(err, store.ErrUnknownCommit) {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	for i := range won {
		if n := won[i].Load(); n != 1 {
			t.Errorf("order %d is settled %d times", i, n)
		}
	}
	for sql, want := range map[string]int{
		"SELECT count(*) FROM orders WHERE status = 'settled' AND version = 2": len(all),
		"SELECT count(*) FROM payments WHERE status = 'paid'":                  len(all),
		"SELECT count(*) FROM ledger_postings":                                 len(all),
		"SELECT count(*) FROM timeline":                                        2 * len(all),
		"SELECT count(*) FROM jobs":                                            2 * len(all),
	} {
		if n := rows(t, stores[0], sql); n != want {
			t.Errorf("%s: %d, want %d", sql, n, want)
		}
	}
}

// TestBatchThatIsCutOffIsStoredOrNot: the connection ends at each statement, before or after the server has it. Whoever
// is told that nothing was stored is told the truth, and nothing is stored by halves.
func TestBatchThatIsCutOffIsStoredOrNot(t *testing.T) {
	storetest.NeedsBatches(t)
	target := storetest.URL(t)
	direct := storetest.Open(t, target)
	const members = 4
	owner := 0
	for _, part := range []struct {
		name       string
		statements []string
	}{{"claims", store.ClaimStatements()}, {"settlements", store.SettleStatements()}} {
		for i, sql := range part.statements {
			for _, forward := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, statement %d, forwarded %t", part.name, i, forward), func(t *testing.T) {
					s := storetest.Open(t, proxied(t, target, func(sent []byte) cut {
						switch {
						case !bytes.Contains(sent, executing(sql)):
							return pass
						case forward:
							return cutAfter
						}
						return cutBefore
					}))
					var all []settlementOf
					var claims []checkout.ClaimResult
					for n := range members {
						owner++
						p := claimRequest(fmt.Sprint("cut", n), owned(owner), func(p *checkout.ClaimRequest) {
							p.MaxUndecided, p.Hits = 5, hourly(p, 5)
							p.Reservations = []order.Reservation{{Resource: "float", Units: 1, Most: 3, Limit: 100_000,
								AsOf: time.Now()}}
						})
						all = append(all, settling(p))
						if part.name == "settlements" {
							claims = append(claims, claim(t, direct, p))
						}
					}
					var errs []error
					want := order.Settled
					if part.name == "claims" {
						want = order.Settling
						var requests []checkout.ClaimRequest
						for _, n := range all {
							requests = append(requests, n.claim)
						}
						_, errs = claimBatch(t, s, requests...)
					} else {
						_, errs = settleBatch(t, s, all, claims)
					}
					// What was sent with the commit may be stored; nothing else is.
					last := i == len(part.statements)-1
					if last && forward {
						eventually(t, "the batch is stored", func() bool {
							o, err := direct.Orders().Find(t.Context(), all[0].move.Order)
							return err == nil && o.Status == want
						})
					}
					for n, one := range all {
						o, err := direct.Orders().Find(t.Context(), one.move.Order)
						is := err == nil && o.Status == want
						switch {
						case is != (last && forward):
							t.Errorf("member %d is stored: %t", n, is)
						case is && errs[n] != nil && !errors.Is(errs[n], store.ErrUnknownCommit):
							t.Errorf("member %d is stored: %v", n, errs[n])
						case !is && errs[n] == nil:
							t.Errorf("member %d is not stored, and was answered", n)
						}
					}
				})
			}
		}
	}
}

// TestIdleStoreAnswersInOneRoundTrip: a claim or settlement that comes alone waits for nothing, and is sent at once
// from its beginning to its commit.
func TestIdleStoreAnswersInOneRoundTrip(t *testing.T) {
	var begun, committed atomic.Int32
	s := storetest.Open(t, proxied(t, storetest.URL(t), func(sent []byte) cut {
		if bytes.Contains(sent, executing("begin")) {
			begun.Add(1)
			if bytes.Contains(sent, executing("commit")) {
				committed.Add(1)
			}
		}
		return pass
	}))
	const claims = 3
	for i := range claims {
		p := claimRequest("k", owned(i), func(p *checkout.ClaimRequest) {
			p.MaxUndecided, p.Hits = 5, hourly(p, 5)
			p.Reservations = []order.Reservation{{Resource: "float", Units: 1, Most: 2, Limit: 1000, AsOf: time.Now()}}
		})
		n := settling(p)
		if _, err := n.in(t, s, claim(t, s, p).Job.Fence()); err != nil {
			t.Fatal(err)
		}
	}
	if begun.Load() != 2*claims || committed.Load() != 2*claims {
		t.Errorf("%d transactions for %d claims and settlements, %d of them in one round trip", begun.Load(), 2*claims,
			committed.Load())
	}
}
