package goclient_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// costsOnePayment buys a card through faults: each costs one more copy of the same bytes, and no money.
func (s *stage) costsOnePayment(faults []fault, changes ...func(*roamcard.Config)) {
	s.t.Helper()
	w := s.wallet()
	already, before := s.sent()
	s.Inject(faults...)
	if _, err := s.buyer(w, changes...).Cards.Purchase(s.t.Context(), roamcard.NewKey()); err != nil {
		s.t.Fatal(err)
	}
	if all, different := s.sent(); all-already != len(faults)+1 || different-before != 1 {
		s.t.Errorf("%v: sent %d payments, %d different ones; want %d, all the same", faults, all-already, different-before,
			len(faults)+1)
	}
	s.paid(w, 1, 2500)
}

func replyDropped(s *stage) {
	for _, faults := range [][]fault{
		{{"on": "paid", "cut": 0}},
		{{"on": "paid", "cut": 100}},
		{{"on": "paid", "cut": -5}},
		{{"on": "paid", "cut": "request"}},
		{{"on": "paid", "cut": 0}, {"on": "paid", "status": 503}, {"on": "paid", "cut": 40}},
	} {
		s.costsOnePayment(faults)
	}
	// An eSIM without naming a plan: the cheapest is another one by the time of the repeat, perhaps.
	w := s.wallet()
	plans, err := roamcard.Collect(s.buyer(w).Plans.List(s.t.Context(), "", ""))
	if err != nil {
		s.t.Fatal(err)
	}
	s.Inject(fault{"on": "paid", "cut": 0}, fault{"on": "paid", "cut": -5})
	first, err := s.buyer(w).ESIM.Purchase(s.t.Context(), "", "the same key for good")
	if err != nil || first.Credentials == nil {
		s.t.Fatalf("%v, %v", first, err)
	}
	s.paid(w, 1, roamcard.Cents(plans[0].GetPriceUsdCents()))
}

func replyLate(s *stage) {
	s.costsOnePayment([]fault{{"on": "paid", "delayMs": 120_000}}, func(c *roamcard.Config) {
		c.Timeout = 20 * time.Second // clock: the answer that is lost never comes in this time, and any other does
	})
	// A caller who gives up is told what to call again with, and then gets the order.
	w := s.wallet()
	c := s.buyer(w)
	s.Inject(fault{"on": "paid", "delayMs": 60_000})
	ctx, giveUp := context.WithCancel(s.t.Context())
	var caller sync.WaitGroup
	caller.Go(func() {
		defer giveUp()
		_ = apptest.Eventually(s.t, func() error { // the caller gives up in any case
			// What was only sent may get there after what is sent again.
			if len(s.transfers(w)) == 0 {
				return errors.New("the payment has not arrived")
			}
			return nil
		})
	})
	_, err := c.Cards.Purchase(ctx, "given up")
	caller.Wait()
	if unclear, ok := errors.AsType[*roamcard.AmbiguousPaymentError](err); !ok || unclear.IdempotencyKey != "given up" ||
		!errors.Is(err, context.Canceled) {
		s.t.Errorf("given up: %v", err)
	}
	if again, err := c.Cards.Purchase(s.t.Context(), "given up"); err != nil || !again.Order.GetReplayed() {
		s.t.Errorf("again: %v, %v", again, err)
	}
	s.paid(w, 1, 2500)
}

func unavailable(s *stage) {
	s.costsOnePayment([]fault{{"on": "paid", "status": 503, "forward": false}, {"on": "paid", "status": 503}})
	s.costsOnePayment([]fault{{"on": "paid", "status": 503}, {"on": "paid", "status": 503, "forward": false}})
}

func killed(s *stage) {
	w, journal := s.wallet(), filepath.Join(s.t.TempDir(), "journal.json")
	buyer := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^TestBuyerProcess$")
		cmd.Env = append(os.Environ(), "BUYER_KEY="+w.key, "BUYER_BASE="+s.BaseURL, "BUYER_PROXY="+s.proxy.URL,
			"BUYER_JOURNAL="+journal)
		cmd.Stderr = os.Stderr
		return cmd
	}
	s.Inject(fault{"on": "paid", "delayMs": 60_000})
	first := buyer()
	if err := first.Start(); err != nil {
		s.t.Fatal(err)
	}
	apptest.Await(s.t, "the first buyer's payment has arrived", func() error {
		if len(s.transfers(w)) == 0 {
			return errors.New("nothing has arrived")
		}
		return nil
	})
	_ = first.Process.Kill()
	_ = first.Wait()
	pending, err := s.buyer(w, s.storedIn(journal)).Pending(s.t.Context())
	if err != nil || len(pending) != 1 || pending[0].Key != killedKey || pending[0].Operation != roamcard.OpCard ||
		pending[0].Amount != 25_000_000 {
		s.t.Errorf("the journal has %v open, %v", pending, err)
	}
	if out, err := buyer().Output(); err != nil || !strings.Contains(string(out), "replayed: true") {
		s.t.Fatalf("the second buyer: %v\n%s", err, out)
	}
	s.paid(w, 0, 2500) // others signed
	if _, different := s.sent(); different != 1 {
		s.t.Errorf("%d different payments were sent", different)
	}
}

const killedKey = "the killed buyer's card"

// TestBuyerProcess is not a test but the buyer process that others kill.
func TestBuyerProcess(t *testing.T) {
	if os.Getenv("BUYER_KEY") == "" {
		t.Skip("run by the scenario killed")
	}
	signer, err := roamcard.NewKeySigner(os.Getenv("BUYER_KEY"))
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, proxy: &proxy{URL: os.Getenv("BUYER_PROXY")}}
	s.BaseURL = os.Getenv("BUYER_BASE")
	bought, err := s.buyer(signer, s.storedIn(os.Getenv("BUYER_JOURNAL"))).Cards.Purchase(t.Context(), killedKey)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.WriteString("replayed: " + map[bool]string{true: "true", false: "false"}[bought.Order.GetReplayed()] +
		"\n")
}

func journalLost(s *stage) {
	w, journal := s.wallet(), filepath.Join(s.t.TempDir(), "journal.json")
	var orders [2]*roamcardv1.Order
	for i := range orders {
		bought, err := s.buyer(w, s.storedIn(journal)).Cards.Purchase(s.t.Context(), "the same key")
		if err != nil {
			s.t.Fatal(err)
		}
		orders[i] = bought.Order
		if err := os.Remove(journal); err != nil {
			s.t.Fatal(err)
		}
	}
	if orders[0].GetOrderId() != orders[1].GetOrderId() || !orders[1].GetReplayed() || w.nonces[0] != w.nonces[1] {
		s.t.Errorf("orders %v, nonces %v; want one of each", orders, w.nonces)
	}
	s.paid(w, 2, 2500)
	// A payment that the service calls dead is the only one of its purchase until the chain can no longer take it.
	w = s.wallet()
	c := s.buyer(w, capped(2500, 2500))
	s.Inject(fault{"on": "paid", "dead": true}, fault{"on": "paid", "dead": true})
	for range 2 {
		_, err := c.Cards.Purchase(s.t.Context(), "k")
		if told, ok := errors.AsType[*roamcard.APIError](err); !ok || told.IdempotencyKey != "k" ||
			time.Until(told.RetryAt) < time.Minute {
			s.t.Fatalf("a dead payment: %+v", err)
		}
	}
	if bought, err := c.Cards.Purchase(s.t.Context(), "k"); err != nil || bought.Order.GetReplayed() {
		s.t.Fatalf("%v, %v", bought, err)
	}
	s.paid(w, 1, 2500)
}

func parallel(s *stage) {
	sameOrder := func(w *wallet, clients ...*roamcard.Client) {
		var calls sync.WaitGroup
		orders := make([]string, 8)
		for i := range orders {
			calls.Go(func() {
				bought, err := clients[i%len(clients)].Cards.Purchase(s.t.Context(), "one key for all")
				if err != nil {
					s.t.Error(err)
					return
				}
				orders[i] = bought.Order.GetOrderId()
			})
		}
		calls.Wait()
		for _, id := range orders {
			if id != orders[0] {
				s.t.Errorf("orders %v, want one", orders)
			}
		}
		s.paid(w, 1, 2500)
	}
	w := s.wallet()
	sameOrder(w, s.buyer(w))
	w, journal := s.wallet(), filepath.Join(s.t.TempDir(), "journal.json")
	sameOrder(w, s.buyer(w, s.storedIn(journal)), s.buyer(w, s.storedIn(journal)))
	if _, different := s.sent(); different != 2 {
		s.t.Errorf("%d different payments, want one of each wallet", different)
	}
}
