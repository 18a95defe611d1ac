package card_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestOwnerFreezesAndUnfreezes(t *testing.T) {
	s, id := owned(t, card.Active)
	for range 2 { // the second time changes nothing
		got, err := s.Freeze(t.Context(), id, owner)
		if err != nil || got.Status != card.Frozen {
			t.Fatalf("frozen: %+v, %v", got, err)
		}
	}
	// Nobody waits for what the owner alone can do.
	_, err := s.Balance(t.Context(), id, owner)
	wantHopeless(t, err, fault.CardNotActive, "Unfreeze it")
	_, _, err = s.Fundable(t.Context(), owner, 0)
	wantHopeless(t, err, fault.ActiveCardMissing, "Unfreeze it")
	for range 2 {
		got, err := s.Unfreeze(t.Context(), id, owner)
		if err != nil || got.Status != card.Active {
			t.Fatalf("unfrozen: %+v, %v", got, err)
		}
	}
	if _, err := s.Balance(t.Context(), id, owner); err != nil {
		t.Error(err)
	}
}

func TestOnlyTheOwnerControlsACardThatIsLive(t *testing.T) {
	s, id := owned(t, card.Active)
	for name, use := range map[string]func(of x402.Address) error{
		"freeze":       func(of x402.Address) error { _, err := s.Freeze(t.Context(), id, of); return err },
		"unfreeze":     func(of x402.Address) error { _, err := s.Unfreeze(t.Context(), id, of); return err },
		"transactions": func(of x402.Address) error { _, _, err := s.Transactions(t.Context(), id, of, "", 5); return err },
	} {
		if err := use(x402.Address{1}); fault.Of(err) != fault.CardNotFound {
			t.Errorf("%s by a stranger: %v", name, err)
		}
	}
	s.issuer.SetState(s.ref(id), card.AccountClosed)
	_, err := s.Freeze(t.Context(), id, owner)
	wantHopeless(t, err, fault.CardNotActive, "CLOSED")
}

// wantHopeless wants a fault that to wait does not end, and what it says.
func wantHopeless(t *testing.T, err error, code fault.Code, says string) {
	t.Helper()
	if f, ok := fault.As(err); !ok || f.Code != code || f.Retryable || !strings.Contains(f.Detail, says) {
		t.Errorf("%+v, want a final %s that says %q", err, code, says)
	}
}

func TestOwnerCannotUndoTheIssuersLock(t *testing.T) {
	for name, before := range map[string]func(*shelf, uuid.UUID){
		"never frozen by the owner": func(*shelf, uuid.UUID) {},
		"frozen and unfrozen before": func(s *shelf, id uuid.UUID) {
			if _, err := s.Freeze(t.Context(), id, owner); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Unfreeze(t.Context(), id, owner); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, id := owned(t, card.Active)
			before(s, id)
			s.issuer.SetState(s.ref(id), card.AccountFrozen)
			asked := s.issuer.Calls(cardtest.Lock)
			_, err := s.Unfreeze(t.Context(), id, owner)
			wantFault(t, err, fault.CardLocked)
			if n := s.issuer.Calls(cardtest.Lock) - asked; n != 0 {
				t.Errorf("the issuer was asked %d times", n)
			}
		})
	}
}

func TestFreezingThatIsNotKnownIsAskedAgain(t *testing.T) {
	s, id := owned(t, card.Active)
	for _, mode := range []fulfilmenttest.Mode{fulfilmenttest.ErrorBefore, fulfilmenttest.TimeoutAfter} {
		s.issuer.Fault(cardtest.Lock, mode)
		_, err := s.Freeze(t.Context(), id, owner)
		wantFault(t, err, fault.DependencyDown)
		for _, set := range []struct {
			do   func() (card.Card, error)
			want card.Status
		}{
			{func() (card.Card, error) { return s.Freeze(t.Context(), id, owner) }, card.Frozen},
			{func() (card.Card, error) { return s.Unfreeze(t.Context(), id, owner) }, card.Active},
		} {
			if got, err := set.do(); err != nil || got.Status != set.want {
				t.Errorf("after %s: %+v, %v; want %s", mode, got, err, set.want)
			}
		}
	}
}

// TestFreezingThatTakesEffectLateCanBeUndone: also after an unfreezing that the issuer has confirmed.
func TestFreezingThatTakesEffectLateCanBeUndone(t *testing.T) {
	s, id := owned(t, card.Active)
	s.issuer.Fault(cardtest.Lock, fulfilmenttest.TimeoutAfter)
	_, err := s.Freeze(t.Context(), id, owner)
	wantFault(t, err, fault.DependencyDown)
	c, err := s.store.Card(t.Context(), id, owner)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, err := s.Unfreeze(t.Context(), id, owner); err != nil || got.Status != card.Active {
			t.Fatalf("unfrozen: %+v, %v", got, err)
		}
		if _, err := s.issuer.SetFrozen(t.Context(), c.Account, true); err != nil {
			t.Fatal(err)
		}
	}
}

// A card that is frozen before its fee was withdrawn would keep the fee.
func TestCardIsNotFrozenBeforeItsFeeIsWithdrawn(t *testing.T) {
	s, id := owned(t, card.Active)
	fee := card.FeeArgs{Card: id, Order: "ord_1", Amount: card.Fee, Version: 1}
	if _, err := s.queue.Enqueue(t.Context(), job.New{Args: fee, UniqueKey: id.String()}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Freeze(t.Context(), id, owner)
	wantFault(t, err, fault.CardNotActive)
	if s.issuer.Calls(cardtest.Lock) != 0 {
		t.Error("the issuer was asked")
	}
}

func TestTransactionsAreShownPlainly(t *testing.T) {
	s, id := owned(t, card.Active)
	c, err := s.store.Card(t.Context(), id, owner)
	if err != nil {
		t.Fatal(err)
	}
	s.issuer.Charge(c.Account, 100, card.Merchant{
		Name: "Ev\x00il\n\tshop\u202e" + strings.Repeat("x", 200), Category: "5411", Country: "US",
	})
	for n := range 4 {
		s.issuer.Charge(c.Account, money.Cents(200+n), card.Merchant{Name: fmt.Sprint("shop ", n)})
	}
	if _, err := s.Freeze(t.Context(), id, owner); err != nil {
		t.Fatal(err)
	}
	var all []card.Transaction
	for after, pages := "", 0; pages < 5; pages++ {
		page, next, err := s.Transactions(t.Context(), id, owner, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page...)
		if after = next; next == "" {
			break
		}
	}
	if len(all) != 5 || all[0].Amount != 203 || all[4].Amount != 100 {
		t.Fatalf("listed %+v", all)
	}
	seen := map[string]bool{}
	for _, one := range all {
		if _, err := uuid.Parse(one.ID); err != nil || seen[one.ID] {
			t.Errorf("the id %q: %v, seen %t", one.ID, err, seen[one.ID])
		}
		seen[one.ID] = true
	}
	if name := all[4].Merchant.Name; !strings.HasPrefix(name, "Evil  shopx") || len(name) != 100 {
		t.Errorf("the merchant is %q", name)
	}
	for _, after := range []string{"%", "bm9uZQ"} { // not base64, and of no page
		_, _, err := s.Transactions(t.Context(), id, owner, after, 2)
		wantFault(t, err, fault.SchemaInvalid)
	}
}

func TestIssuerWithoutControlsOffersNone(t *testing.T) {
	s, id := owned(t, card.Active)
	of := &s.Providers[0].Capabilities
	of.Freeze, of.Transactions = false, false
	_, err := s.Freeze(t.Context(), id, owner)
	wantFault(t, err, fault.CardControlMissing)
	_, err = s.Unfreeze(t.Context(), id, owner)
	wantFault(t, err, fault.CardControlMissing)
	_, _, err = s.Transactions(t.Context(), id, owner, "", 2)
	wantFault(t, err, fault.CardControlMissing)
}
