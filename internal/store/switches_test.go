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
	act := order.OperatorContext{Operator: "ann", Reason: "drill", Key: key}
	if _, err := s.Admin().SetSwitch(t.Context(), product, paused, act); err != nil {
		t.Errorf("set the switch: %v", err)
	}
}

// over sells a claim over a provider.
func over(provider string) func(*checkout.ClaimRequest) {
	return func(p *checkout.ClaimRequest) { p.Provider = provider }
}

// TestSwitchIsAnsweredOnceNoClaimCanSucceed: one process is in the middle of a claim when another sets the switch.
func TestSwitchIsAnsweredOnceNoClaimCanSucceed(t *testing.T) {
	for _, of := range []order.Kind{card.Kind, availability.OfProvider("lithic")} {
		t.Run(string(of), func(t *testing.T) { switchDuringAClaim(t, of) })
	}
}

func switchDuringAClaim(t *testing.T, of order.Kind) {
	t.Helper()
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
		_, err := selling.Orders().Claim(t.Context(), claimRequest("under way", reserving(scarce), over("lithic")))
		claimed <- err
	}()
	awaitWaiting(t, operators, 1, nil)
	go func() {
		defer close(answered)
		pause(t, operators, of, true, "1")
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
		after := claimRequest("after", over("lithic"))
		if _, err := s.Orders().Claim(t.Context(), after); !errors.Is(err, availability.ErrPaused) {
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

func TestSwitchClosesItsProviderWhateverIsSold(t *testing.T) {
	s := storetest.New(t)
	lithic := availability.OfProvider("lithic")
	pause(t, s, lithic, true, "1")
	for _, product := range storetest.Kinds() {
		of := func(p *checkout.ClaimRequest) { p.Order.Kind = product }
		opened := claimRequest("opened "+string(product), of, over("lithic"))
		until := time.Now().Add(time.Hour)
		opened.Order.ExpiresAt = &until
		stored, err := s.Orders().Create(t.Context(), opened.Order, checkout.Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		opened.Order, opened.Existing = stored, true
		arrived := claimRequest("arrived "+string(product), of, over("lithic"))
		arrived.Payment.ArrivedAt = new(time.Now())
		for _, p := range []checkout.ClaimRequest{
			claimRequest("new "+string(product), of, over("lithic")), opened, arrived,
		} {
			if _, err := s.Orders().Claim(t.Context(), p); !errors.Is(err, availability.ErrPaused) {
				t.Errorf("%s over the closed provider: %v", p.Order.Key, err)
			}
		}
		for name, p := range map[string]checkout.ClaimRequest{
			"another provider": claimRequest("over stripe "+string(product), of, over("stripe")),
			"no provider":      claimRequest("over none "+string(product), of),
		} {
			if got := claim(t, s, p); got.Claim != checkout.Fresh {
				t.Errorf("%s over %s: claim %d", product, name, got.Claim)
			}
		}
	}
	pause(t, s, lithic, false, "2")
	if got := claim(t, s, claimRequest("over lithic again", over("lithic"))); got.Claim != checkout.Fresh {
		t.Errorf("claim %d once it is open again", got.Claim)
	}
}

func TestSwitchesOfProvidersAreListedOnceSet(t *testing.T) {
	s := storetest.New(t)
	lithic := availability.OfProvider("lithic")
	find := func() (found []availability.Switch) {
		all, err := s.Admin().Switches(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if _, ok := availability.ProviderOf(one.Product); ok {
				found = append(found, one)
			}
		}
		if len(all)-len(found) != len(storetest.Kinds()) {
			t.Errorf("%+v are not the switches of all products", all)
		}
		return found
	}
	if got := find(); len(got) != 0 {
		t.Errorf("before any was set: %+v", got)
	}
	pause(t, s, lithic, true, "1")
	if got := find(); len(got) != 1 || got[0].Product != lithic || !got[0].Paused || got[0].Operator != "ann" {
		t.Errorf("set: %+v", got)
	}
	if _, err := s.Orders().Claim(t.Context(), claimRequest("another's")); err != nil {
		t.Errorf("a product is closed with a provider: %v", err)
	}
	pause(t, s, lithic, false, "2")
	if got := find(); len(got) != 1 || got[0].Paused {
		t.Errorf("opened: %+v", got)
	}
}
