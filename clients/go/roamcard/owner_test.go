package roamcard_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func (s stage) slowReplyIsAskedForAgain(t *testing.T) {
	w, p := s.wallet(t), s.proxy(t)
	p.inject(t, fault{"on": "paid", "delayMs": 60_000})
	c := buyerOf(t, s.BaseURL, p.BaseURL, w, func(cfg *roamcard.Config) { cfg.AnswerWithin = 2 * time.Second })
	if _, err := c.BuyCard(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	s.paid(t, w, 1)
	if all, different := p.sent(t); all != 2 || different != 1 {
		t.Errorf("sent %d, different %d; want 2, 1", all, different)
	}
}

// topsUpAndReveals is the life of a card with answers that are lost on the way.
func (s stage) topsUpAndReveals(t *testing.T) {
	w, p := s.wallet(t), s.proxy(t)
	c := buyerOf(t, s.BaseURL, p.BaseURL, w, nil)
	card := s.activeCard(t, c)
	p.inject(t, fault{"on": "paid", "status": 503}, fault{"on": "paid", "cut": 0})
	topup, err := c.TopUp(t.Context(), 2500, "")
	if err != nil || topup.GetTopup().GetCardCreditUsdCents() != 2450 {
		t.Fatalf("top-up: %v, %v", err, topup)
	}
	var last *roamcardv1.Order
	err = c.WatchOrder(t.Context(), topup.GetOrderId(), func(o *roamcardv1.Order) bool { last = o; return true })
	if err != nil || last.GetStatus() != "fulfilled" || last.GetTopup().GetStatus() != "credited" {
		t.Fatalf("the top-up ended at %v, %v", last, err)
	}
	s.paid(t, w, 2)
	if all, different := p.sent(t); all != 4 || different != 2 || w.signed != 2 {
		t.Errorf("signed %d, sent %d, different %d; want 2, 4, 2", w.signed, all, different)
	}
	revealOnPage(t, t.Context(), c, card)
}

func (s stage) activeCard(t *testing.T, c *roamcard.Client) string {
	t.Helper()
	order, err := c.BuyCard(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	card, err := c.WaitUntilActive(t.Context(), order.GetOrderId())
	if err != nil {
		t.Fatal(err)
	}
	return card
}

func (s stage) lostJournalPaysOnce(t *testing.T) {
	w, p := s.wallet(t), s.proxy(t)
	var orders [2]*roamcardv1.Order
	for i := range orders {
		var err error
		if orders[i], err = buyerOf(t, s.BaseURL, p.BaseURL, w, nil).BuyCard(t.Context(), "the same key"); err != nil {
			t.Fatal(err)
		}
	}
	if orders[0].GetOrderId() != orders[1].GetOrderId() || !orders[1].GetReplayed() || w.nonces[0] != w.nonces[1] {
		t.Errorf("orders %v, nonces %v; want one of each", orders, w.nonces)
	}
	s.paid(t, w, 1)
}

func (s stage) capOfADayIsShared(t *testing.T) {
	w, p, path := s.wallet(t), s.proxy(t), filepath.Join(t.TempDir(), "journal.json")
	client := func() *roamcard.Client {
		journal, err := roamcard.NewFileJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		return buyerOf(t, s.BaseURL, p.BaseURL, w, func(cfg *roamcard.Config) {
			cfg.Journal, cfg.Policy.MaxPerPayment, cfg.Policy.MaxPerDay = journal, 3000, 7500
		})
	}
	s.activeCard(t, client())
	// 50 of 75 are left: of three top-ups at once two fit.
	var calls sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		c := client()
		calls.Go(func() { _, errs[i] = c.TopUp(t.Context(), 2500, fmt.Sprint("top-up ", i)) })
	}
	calls.Wait()
	denied := 0
	for _, err := range errs {
		if errors.Is(err, roamcard.ErrPolicyDenied) {
			denied++
		} else if err != nil {
			t.Error(err)
		}
	}
	if denied != 1 {
		t.Errorf("%v: %d were denied, want 1", errs, denied)
	}
	s.paid(t, w, 3)
}

// isFollowed buys a card and follows its order through faults of the stream: it moves forwards only, each
// time once, to its end.
func (s stage) isFollowed(t *testing.T, faults []fault) {
	p := s.proxy(t)
	c := buyerOf(t, s.BaseURL, p.BaseURL, s.wallet(t), nil)
	order, err := c.BuyCard(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	here := make([]fault, len(faults))
	for i, f := range faults {
		here[i] = fault{"on": "/roamcard.v1.OrderService/WatchOrder"}
		for name, value := range f {
			here[i][name] = value
		}
	}
	p.inject(t, here...)
	step := map[string]int{"settling": 1, "settled": 2, "provisioning": 3, "fulfilled": 4}
	var seen []string
	at := 0
	err = c.WatchOrder(t.Context(), order.GetOrderId(), func(o *roamcardv1.Order) bool {
		now := o.GetStatus() + " " + o.GetIssuance().GetStatus()
		if step[o.GetStatus()] < max(at, 1) || (len(seen) > 0 && seen[len(seen)-1] == now) {
			t.Errorf("%s after %v", now, seen)
		}
		at, seen = step[o.GetStatus()], append(seen, now)
		return true
	})
	if err != nil || len(seen) == 0 || seen[len(seen)-1] != "fulfilled active" {
		t.Errorf("seen %v, %v; want it to end at fulfilled", seen, err)
	}
}
