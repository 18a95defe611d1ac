package goclient_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func reveal(s *stage) {
	ctx, w, journal := s.t.Context(), s.wallet(), filepath.Join(s.t.TempDir(), "journal.json")
	var log bytes.Buffer
	c := s.buyer(w, s.storedIn(journal), func(cfg *roamcard.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	card := s.activeCard(c)
	var shownPages []string
	shown, err := c.Cards.Reveal(ctx, card, s.person(&shownPages))
	if err != nil || !shown.Seen {
		s.t.Fatalf("%v, %v", shown, err)
	}
	page := shownPages[0]
	number := regexp.MustCompile(`\d{4} \d{4} \d{4} \d{4}`).FindString(page)
	if number == "" {
		s.t.Fatal("the page shows no card")
	}

	bought, err := c.ESIM.Purchase(ctx, "", roamcard.NewKey())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := c.Orders.Watch(ctx, bought.Order.GetOrderId(), func(*roamcardv1.Order) bool { return true }); err != nil {
		s.t.Fatal(err)
	}
	var seen []string
	for _, ctx := range []context.Context{ctx, roamcard.WithDeliveryToken(ctx, bought.DeliveryToken)} {
		if shown, err := c.ESIM.Install(ctx, bought.Order.GetOrderId(), s.person(&seen)); err != nil || !shown.Seen {
			s.t.Fatalf("%v, %v", shown, err)
		}
	}
	lpa := regexp.MustCompile(`LPA:1\$[^"]+`).FindString(seen[0])
	if lpa == "" || lpa != bought.Credentials.LPA.Reveal() ||
		!strings.Contains(seen[1], `<img src="data:image/png;base64,`) {
		s.t.Errorf("the page shows no eSIM, or another one")
	}
	kept, err := os.ReadFile(journal)
	if err != nil {
		s.t.Fatal(err)
	}
	told := fmt.Sprintf("%s %s %+v %+v", log.String(), kept, shown, bought)
	if !strings.Contains(log.String(), "payment settled") {
		s.t.Errorf("the log tells of no payment: %s", log.String())
	}
	for _, secret := range []string{
		strings.ReplaceAll(number, " ", ""), number, lpa, bought.DeliveryToken.Reveal(), w.key,
	} {
		if strings.Contains(told, secret) {
			s.t.Error("a secret is in the log, in the journal, or in what the caller gets")
		}
	}
}

func watch(s *stage) {
	for name, faults := range map[string][]fault{
		"whole":                   nil,
		"cut in the first":        {{"cutMessage": 1}},
		"cut in the second":       {{"cutMessage": 2}},
		"cut again and again":     {{"cutMessage": 2}, {"cutMessage": 1}, {"cutMessage": 2}, {"cutMessage": 1}},
		"none that gets through ": slices.Repeat([]fault{{"status": 501, "forward": false}}, 10),
	} {
		s.isFollowed(name, faults)
		s.areFollowed(name, faults)
	}
}

// areFollowed buys a card and an eSIM and watches both over one stream, through its faults: each ends at fulfilled.
func (s *stage) areFollowed(name string, faults []fault) {
	c := s.buyer(s.wallet())
	card, err := c.Cards.Purchase(s.t.Context(), roamcard.NewKey())
	if err != nil {
		s.t.Fatal(err)
	}
	esim, err := c.ESIM.Purchase(s.t.Context(), "", roamcard.NewKey())
	if err != nil {
		s.t.Fatal(err)
	}
	here := make([]fault, len(faults))
	for i, f := range faults {
		here[i] = fault{"on": "/roamcard.v1.OrderService/WatchOrders"}
		maps.Copy(here[i], f)
	}
	s.Inject(here...)
	ids := []string{card.Order.GetOrderId(), esim.Order.GetOrderId()}
	last := map[string]string{}
	err = c.Orders.WatchAll(s.t.Context(), ids, func(o *roamcardv1.Order) bool {
		last[o.GetOrderId()] = o.GetStatus()
		return true
	})
	if err != nil || len(last) != 2 || last[ids[0]] != "fulfilled" || last[ids[1]] != "fulfilled" {
		s.t.Errorf("%s: %v, %v; want both to end at fulfilled", name, last, err)
	}
	of, err := roamcard.Collect(c.Orders.ListKind(s.t.Context(), "esim"))
	if err != nil || len(of) != 1 || of[0].GetOrderId() != ids[1] || of[0].GetDelivery().GetPlanName() == "" {
		s.t.Errorf("orders of eSIMs: %v, %v", of, err)
	}
	moving := roamcard.OrderFilter{Kind: "esim", Active: true}
	if of, err = roamcard.Collect(c.Orders.Find(s.t.Context(), moving)); err != nil || len(of) != 0 {
		s.t.Errorf("orders of eSIMs that are not final: %v, %v", of, err)
	}
	token, until, err := c.ESIM.RotateToken(s.t.Context(), ids[1])
	if err != nil || token.Reveal() == esim.DeliveryToken.Reveal() || !until.After(time.Now()) {
		s.t.Errorf("the renewed token ends at %v, %v", until, err)
	}
}

// isFollowed buys a card and watches its order through faults of the stream: each status comes once, in order, to the
// end.
func (s *stage) isFollowed(name string, faults []fault) {
	c := s.buyer(s.wallet())
	bought, err := c.Cards.Purchase(s.t.Context(), roamcard.NewKey())
	if err != nil {
		s.t.Fatal(err)
	}
	here := make([]fault, len(faults))
	for i, f := range faults {
		here[i] = fault{"on": "/roamcard.v1.OrderService/WatchOrder"}
		for name, value := range f {
			here[i][name] = value
		}
	}
	s.Inject(here...)
	step := map[string]int{"settling": 1, "settled": 2, "provisioning": 3, "fulfilled": 4}
	var seen []string
	at := 0
	err = c.Orders.Watch(s.t.Context(), bought.Order.GetOrderId(), func(o *roamcardv1.Order) bool {
		now := o.GetStatus() + " " + o.GetIssuance().GetStatus()
		if step[o.GetStatus()] < max(at, 1) || (len(seen) > 0 && seen[len(seen)-1] == now) {
			s.t.Errorf("%s: %s after %v", name, now, seen)
		}
		at, seen = step[o.GetStatus()], append(seen, now)
		return true
	})
	if err != nil || len(seen) == 0 || seen[len(seen)-1] != "fulfilled active" {
		s.t.Errorf("%s: seen %v, %v; want it to end at fulfilled", name, seen, err)
	}
}

func signIn(s *stage) {
	ctx := s.t.Context()
	c := s.buyer(s.wallet())
	atOnce := func(want int) {
		s.t.Helper()
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				if _, err := c.Cards.List(ctx); err != nil {
					s.t.Error(err)
				}
			})
		}
		calls.Wait()
		signed := 0
		for _, r := range s.Requests() {
			if strings.HasSuffix(r.Path, "/VerifyChallenge") {
				signed++
			}
		}
		if signed != want {
			s.t.Errorf("signed in %d times, want %d", signed, want)
		}
	}
	atOnce(1)
	if _, err := c.Services.Auth.Logout(ctx, &roamcardv1.LogoutRequest{}); err != nil {
		s.t.Fatal(err)
	}
	atOnce(2)
}
