package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

func pause(t *testing.T, s *store.Store, product order.Kind, paused bool, key string) {
	t.Helper()
	act := order.Act{Operator: "ann", Reason: "drill", Key: key}
	if _, err := s.Admin().SetSwitch(t.Context(), product, paused, act); err != nil {
		t.Errorf("set the switch: %v", err)
	}
}

// TestSwitchIsAnsweredOnceNoClaimCanSucceed: one process is in the middle of a claim when another sets the switch.
func TestSwitchIsAnsweredOnceNoClaimCanSucceed(t *testing.T) {
	url := storetest.URL(t)
	selling, operators := storetest.Open(t, url), storetest.Open(t, url)
	// The claim waits for its reservation, which it takes last.
	tx, err := selling.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	scarce := order.Reservation{Resource: "scarce/1", Units: 1, Limit: 1}
	if _, err := tx.Exec(t.Context(), "INSERT INTO locks (id) VALUES ($1)", store.Bucket(scarce.Resource)); err != nil {
		t.Fatal(err)
	}
	claimed, answered := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := selling.Orders().Claim(t.Context(), claimRequest("under way", holding(scarce)))
		claimed <- err
	}()
	awaitWaiting(t, operators, 1, nil)
	go func() {
		defer close(answered)
		pause(t, operators, card.Kind, true, "1")
	}()
	awaitWaiting(t, operators, 2, answered)
	select {
	case <-answered:
		t.Error("the switch was answered while a claim was under way that then succeeded")
	default:
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-claimed; err != nil {
		t.Errorf("the claim that was first: %v", err)
	}
	<-answered
	for _, s := range []*store.Store{selling, operators} {
		if _, err := s.Orders().Claim(t.Context(), claimRequest("after")); !errors.Is(err, availability.ErrPaused) {
			t.Errorf("a claim after the answer: %v", err)
		}
	}
	n := 0
	if err := selling.Pool().QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d orders, %v", n, err)
	}
}

// awaitWaiting waits until so many sessions wait for a lock, or something ends.
func awaitWaiting(t *testing.T, s *store.Store, want int, ended <-chan struct{}) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		var n int
		err := s.Pool().QueryRow(t.Context(), `SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND
			pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		if n >= want {
			return
		}
		select {
		case <-ended:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatalf("%d sessions do not wait", want)
}

func TestSwitchClosesItsOwnProductHoweverItIsBought(t *testing.T) {
	s := storetest.New(t)
	for _, product := range storetest.Kinds() {
		of := func(p *checkout.ClaimRequest) { p.Order.Kind = product }
		opened := claimRequest("opened "+string(product), of)
		until := time.Now().Add(time.Hour)
		opened.Order.ExpiresAt = &until
		stored, err := s.Orders().Create(t.Context(), opened.Order, checkout.Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		opened.Order, opened.Existing = stored, true
		pause(t, s, product, true, "1")
		if _, err := s.Orders().Claim(t.Context(), claimRequest("new", of)); !errors.Is(err, availability.ErrPaused) {
			t.Errorf("%s: a purchase: %v", product, err)
		}
		if _, err := s.Orders().Claim(t.Context(), opened); !errors.Is(err, availability.ErrPaused) {
			t.Errorf("%s: the payment of an open order: %v", product, err)
		}
		if _, err := s.Orders().Create(t.Context(), claimRequest("another", of).Order,
			checkout.Bounds{}); !errors.Is(err, availability.ErrPaused) {
			t.Errorf("%s: another open order: %v", product, err)
		}
		for _, other := range storetest.Kinds() {
			if other == product {
				continue
			}
			p := claimRequest("with "+string(product), func(p *checkout.ClaimRequest) { p.Order.Kind = other })
			if _, err := s.Orders().Claim(t.Context(), p); err != nil {
				t.Errorf("%s while %s is closed: %v", other, product, err)
			}
		}
		pause(t, s, product, false, "2")
		if got := claim(t, s, opened); got.Claim != checkout.Fresh {
			t.Errorf("%s: claim %d of the open order, once it is sold again", product, got.Claim)
		}
	}
}
