package store_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

var (
	lostAsset, lostPayTo = x402.Address{19: 0xa}, x402.Address{19: 0xb}
	lostBuyer            = x402.Address{19: 0xc}
)

// arrives keeps a transfer that no order has.
func arrives(t *testing.T, s *store.Store, value money.USDC) x402.Hash {
	t.Helper()
	n := nonce()
	err := s.Orders().Arrive(t.Context(), payment.Arrived{
		Network: x402.NetworkID, Asset: lostAsset,
		Authorization: x402.Authorization{From: lostBuyer, To: lostPayTo, Value: value, Nonce: n},
		Receipt:       payment.Receipt{Transaction: nonce(), Block: 7, SettledAt: time.Now()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ofNobody says that goods are of no order that there is.
func ofNobody(order.Order) bool { return false }

func lostOf(t *testing.T, s *store.Store) reconcile.Lost {
	t.Helper()
	lost, err := s.Recovery(lostAsset, lostPayTo, time.Hour).Lost(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return lost
}

// TestTransferIsRecoveredOnce: however many adopt the goods or send the money back, at once or again.
func TestTransferIsRecoveredOnce(t *testing.T) {
	s := storetest.New(t)
	r := s.Recovery(lostAsset, lostPayTo, time.Hour)
	act := order.OperatorContext{Operator: "ada", Reason: "why"}
	for name, do := range map[string]func(reconcile.Unmatched) (bool, error){
		"adopted": func(u reconcile.Unmatched) (bool, error) {
			a := reconcile.Adoption{Transfer: u, Kind: card.Kind, Reference: uuid.New(), Item: []byte("{}"), Step: "open",
				Made: ofNobody}
			return r.Adopt(t.Context(), a, act)
		},
		"returned": func(u reconcile.Unmatched) (bool, error) { return r.Return(t.Context(), u, act) },
	} {
		arrives(t, s, 25_000_000)
		u := lostOf(t, s).Unmatched[0]
		var group sync.WaitGroup
		var times atomic.Int32
		for range 6 {
			group.Go(func() {
				done, err := do(u)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if done {
					times.Add(1)
				}
			})
		}
		group.Wait()
		if again, err := do(u); again || err != nil || times.Load() != 1 {
			t.Errorf("%s %d times at once, and again %v, %v", name, times.Load(), again, err)
		}
		if left := lostOf(t, s).Unmatched; len(left) != 0 {
			t.Errorf("left after it was %s: %+v", name, left)
		}
	}
}

// TestRecoveryIsStoredWholeOrNotAtAll: the program dies while it applies a step.
func TestRecoveryIsStoredWholeOrNotAtAll(t *testing.T) {
	s := storetest.New(t)
	r := s.Recovery(lostAsset, lostPayTo, time.Hour)
	arrives(t, s, 25_000_000)
	u := lostOf(t, s).Unmatched[0]
	a := reconcile.Adoption{Transfer: u, Kind: card.Kind, Reference: uuid.New(), Item: []byte("{}"), Step: "open",
		Made: ofNobody}
	if err := faultpoint.Arm("recover.before_commit:error"); err != nil {
		t.Fatal(err)
	}
	if done, err := r.Adopt(t.Context(), a, order.OperatorContext{Operator: "ada", Reason: "why"}); done || err == nil {
		t.Fatalf("adopted: %v, %v", done, err)
	}
	if left := lostOf(t, s); len(left.Unmatched) != 1 || len(left.Orders) != 0 {
		t.Fatalf("something was stored: %+v", left)
	}
	if done, err := r.Adopt(t.Context(), a, order.OperatorContext{Operator: "ada", Reason: "why"}); !done || err != nil {
		t.Fatalf("adopted: %v, %v", done, err)
	}
}

// TestUnpaidOrderIsRecovered: the order that was paid in the lost time continues, once, also when it has expired by
// what is left. Its timeline says from where.
func TestUnpaidOrderIsRecovered(t *testing.T) {
	for _, from := range []order.Status{order.PaymentRequired, order.Expired} {
		s := storetest.New(t)
		arrives(t, s, 25_000_000)
		u := lostOf(t, s).Unmatched[0]
		o := claimRequest("opened").Order
		o.Owner, o.Status, o.Price = lostBuyer, order.PaymentRequired, 2500
		past := time.Now().Add(-time.Hour)
		o.ExpiresAt = &past
		opened, err := s.Orders().Create(t.Context(), o, checkout.Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		if from == order.Expired {
			if n, err := s.Orders().Expire(t.Context(), 1); n != 1 || err != nil {
				t.Fatalf("%d expire: %v", n, err)
			}
		}
		a := reconcile.Adoption{Transfer: u, Kind: card.Kind, Of: opened.ID, Reference: uuid.New(), Item: []byte("{}"),
			Step: "open", Made: ofNobody}
		ada := order.OperatorContext{Operator: "ada", Reason: "why"}
		for i, want := range []bool{true, false} {
			done, err := s.Recovery(lostAsset, lostPayTo, time.Hour).Adopt(t.Context(), a, ada)
			if done != want || err != nil {
				t.Errorf("%s: adopted, time %d: %v, %v", from, i+1, done, err)
			}
		}
		got, err := s.Orders().Find(t.Context(), opened.ID)
		if err != nil || got.Status != order.Settling || got.ExpiresAt != nil || got.RecoveredReference != nil {
			t.Errorf("%s: the order is %+v, %v", from, got, err)
		}
		history, err := s.Admin().History(t.Context(), opened.ID, ada)
		if err != nil || len(history.Timeline) == 0 {
			t.Fatalf("%s: %v", from, err)
		}
		if last := history.Timeline[len(history.Timeline)-1]; last.From != from || last.To != order.Settling {
			t.Errorf("%s: the timeline ends with %+v", from, last)
		}
	}
}

// TestGoodsAreAdoptedOnce: two owners' transfers do not get the same goods, though the unique key is by owner.
func TestGoodsAreAdoptedOnce(t *testing.T) {
	s := storetest.New(t)
	r, act, goods := s.Recovery(lostAsset, lostPayTo, time.Hour),
		order.OperatorContext{Operator: "ada", Reason: "why"}, uuid.New()
	var group sync.WaitGroup
	var times atomic.Int32
	for n := range 6 {
		a := adoption(x402.Address{0: 0xb0, 19: byte(n)})
		a.Reference = goods
		group.Go(func() {
			done, err := r.Adopt(t.Context(), a, act)
			if err != nil {
				t.Error(err)
			}
			if done {
				times.Add(1)
			}
		})
	}
	group.Wait()
	if times.Load() != 1 {
		t.Errorf("adopted %d times", times.Load())
	}
}

// TestAdoptedOrderIsFoundByItsKey: the buyer's repeat names the key, which the goods' reference is derived from,
// once.
func TestAdoptedOrderIsFoundByItsKey(t *testing.T) {
	s := storetest.New(t)
	arrives(t, s, 25_000_000)
	ref := uuid.New()
	a := reconcile.Adoption{Transfer: lostOf(t, s).Unmatched[0], Kind: card.Kind, Reference: ref, Item: []byte("{}"),
		Step: "open", Made: ofNobody}
	if done, err := s.Recovery(lostAsset, lostPayTo, time.Hour).Adopt(t.Context(), a,
		order.OperatorContext{Operator: "ada", Reason: "why"}); !done || err != nil {
		t.Fatal(done, err)
	}
	say := checkout.Rebinding{Kind: card.Kind, Owner: lostBuyer, Key: "my-key",
		Fingerprint: order.FingerprintOf(card.Kind, []byte("{}")), Reference: ref}
	other := say
	other.Owner = x402.Address{19: 0xd}
	if _, err := s.Orders().Rebind(t.Context(), other); err == nil {
		t.Error("another wallet has got the order")
	}
	got, err := s.Orders().Rebind(t.Context(), say)
	if err != nil || got.Key != "my-key" || got.Fingerprint != say.Fingerprint || *got.RecoveredReference != ref {
		t.Fatalf("rebound: %+v, %v", got, err)
	}
	if known, err := s.Orders().FindByKey(t.Context(), card.Kind, lostBuyer, "my-key"); err != nil || known.ID != got.ID {
		t.Errorf("found by its key: %+v, %v", known, err)
	}
	say.Key = "another-key"
	if _, err := s.Orders().Rebind(t.Context(), say); err == nil {
		t.Error("the order has got a second key")
	}
}

// TestClaimOfAdoptedGoodsGetsTheirOrder: a repeat that was on its way while its goods were adopted, alone or with
// others, takes no money for them.
func TestClaimOfAdoptedGoodsGetsTheirOrder(t *testing.T) {
	s := storetest.New(t)
	r, act := s.Recovery(lostAsset, lostPayTo, time.Hour), order.OperatorContext{Operator: "ada", Reason: "why"}
	var group sync.WaitGroup
	for n := range 24 {
		a := adoption(x402.Address{0: 0xb1, 19: byte(n)})
		if done, err := r.Adopt(t.Context(), a, act); !done || err != nil {
			t.Fatal(done, err)
		}
		group.Go(func() {
			got, err := s.Orders().Claim(t.Context(), repeatOf(a))
			if err != nil || got.Claim != checkout.Repeated || got.Order.Key != "my-key" ||
				got.Order.RecoveredReference == nil || *got.Order.RecoveredReference != a.Reference {
				t.Errorf("claimed: %+v, %v", got, err)
			}
		})
	}
	group.Wait()
}

// TestGoodsAreClaimedOrAdopted: a recovery adopts goods after, or while, the buyer's repeat claims an order for them.
func TestGoodsAreClaimedOrAdopted(t *testing.T) {
	s := storetest.New(t)
	r, act := s.Recovery(lostAsset, lostPayTo, time.Hour), order.OperatorContext{Operator: "ada", Reason: "why"}
	for n := range 24 {
		a := adoption(x402.Address{0: 0xb2, 19: byte(n)})
		a.Made = func(o order.Order) bool { return o.Key == "my-key" }
		var adopted bool
		var claimed checkout.ClaimResult
		var group sync.WaitGroup
		group.Go(func() {
			var err error
			if claimed, err = s.Orders().Claim(t.Context(), repeatOf(a)); err != nil {
				t.Error(err)
			}
		})
		if n%2 == 0 {
			group.Wait()
		}
		group.Go(func() {
			var err error
			if adopted, err = r.Adopt(t.Context(), a, act); err != nil {
				t.Error(err)
			}
		})
		group.Wait()
		if fresh := claimed.Claim == checkout.Fresh; adopted == fresh {
			t.Errorf("adopted %v, claimed %+v", adopted, claimed)
		}
	}
}

// TestCreatedOrderIsFoundAmongAdoptedOnes: the order that was created and paid in the lost time is not opened again.
func TestCreatedOrderIsFoundAmongAdoptedOnes(t *testing.T) {
	s := storetest.New(t)
	shop := checkouttest.Open(t, checkouttest.Options{Store: checkouttest.Of(s), Dead: true})
	request := checkout.CreateRequest{Kind: card.Kind, Owner: lostBuyer, Key: "my-key",
		Request: checkouttest.Purchase("").Request, Resource: "here"}
	a := adoption(lostBuyer)
	a.Reference = uuid.MustParse(shop.Cards.References(order.Order{
		Kind: card.Kind, Owner: lostBuyer, Reference: order.ReferenceOf(card.Kind, lostBuyer, "my-key"), Delivery: 1,
	})[0].Reference)
	if done, err := s.Recovery(lostAsset, lostPayTo, time.Hour).Adopt(t.Context(), a,
		order.OperatorContext{Operator: "ada", Reason: "why"}); !done || err != nil {
		t.Fatal(done, err)
	}
	for range 2 {
		got, err := shop.Create(t.Context(), request)
		if err != nil || got.Order.RecoveredReference == nil || *got.Order.RecoveredReference != a.Reference {
			t.Errorf("created: %+v, %v", got, err)
		}
	}
}

// adoption is of a card, with a transfer of its owner.
func adoption(owner x402.Address) reconcile.Adoption {
	u := reconcile.Unmatched{Transfer: reconcile.Transfer{
		Transaction: nonce(), From: owner, Value: 25_000_000, Nonce: nonce(),
	}}
	return reconcile.Adoption{Transfer: u, Kind: card.Kind, Reference: uuid.New(), Item: []byte("{}"), Step: "open",
		Made: ofNobody}
}

// repeatOf claims an order whose first delivery would be these goods.
func repeatOf(a reconcile.Adoption) checkout.ClaimRequest {
	return claimRequest("my-key", func(p *checkout.ClaimRequest) {
		p.Order.Owner, p.Goods = a.Transfer.From, a.Reference
	})
}
