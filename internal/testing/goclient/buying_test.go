package goclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/clients/go/roamcard/roamcardtest"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/devserver"
)

// purchase buys a card over each protocol, and repeats over the other.
func purchase(s *stage) {
	ctx := s.t.Context()
	overREST := func(c *roamcard.Client, key string) (order struct {
		OrderID  string
		Replayed bool
	}) {
		res, err := c.HTTP.Post(s.BaseURL+"/api/card/purchase", "application/json",
			strings.NewReader(`{ "idempotencyKey": "`+key+`" }`))
		if err != nil {
			s.t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if err := json.NewDecoder(res.Body).Decode(&order); err != nil || res.StatusCode != http.StatusOK {
			s.t.Fatalf("over REST: %d, %v", res.StatusCode, err)
		}
		return order
	}

	w := s.wallet()
	c := s.buyer(w)
	bought, err := c.Cards.Purchase(ctx, roamcard.NewKey())
	if err != nil || bought.IdempotencyKey == "" || bought.Transaction == "" || bought.RequestID == "" ||
		bought.Order.GetReplayed() {
		s.t.Fatalf("%+v, %v", bought, err)
	}
	if again := overREST(c, bought.IdempotencyKey); again.OrderID != bought.Order.GetOrderId() || !again.Replayed {
		s.t.Errorf("over REST it is %+v, want order %s again", again, bought.Order.GetOrderId())
	}
	if card, err := c.Cards.WaitUntilActive(ctx, bought.Order.GetOrderId()); err != nil || card == "" {
		s.t.Errorf("card %q, %v", card, err)
	}
	s.paid(w, 1, 2500)

	w = s.wallet()
	c = s.buyer(w)
	order := overREST(c, "over REST")
	if again, err := c.Cards.Purchase(ctx, "over REST"); err != nil || again.Order.GetOrderId() != order.OrderID ||
		!again.Order.GetReplayed() {
		s.t.Errorf("over Connect it is %v, %v; want order %s again", again, err, order.OrderID)
	}
	if card, err := c.Cards.WaitUntilActive(ctx, order.OrderID); err != nil || card == "" {
		s.t.Errorf("card %q, %v", card, err)
	}
	s.paid(w, 1, 2500)
}

// activeCard buys a card and waits for it.
func (s *stage) activeCard(c *roamcard.Client) string {
	s.t.Helper()
	bought, err := c.Cards.Purchase(s.t.Context(), roamcard.NewKey())
	if err != nil {
		s.t.Fatal(err)
	}
	card, err := c.Cards.WaitUntilActive(s.t.Context(), bought.Order.GetOrderId())
	if err != nil {
		s.t.Fatal(err)
	}
	return card
}

func controls(s *stage) {
	ctx, w := s.t.Context(), s.wallet()
	c := s.buyer(w)
	card := s.activeCard(c)
	if none, err := roamcard.Collect(c.Cards.Transactions(ctx, card)); err != nil || len(none) != 0 {
		s.t.Errorf("of an unused card: %v, %v", none, err)
	}
	// Until the fee of the issue is withdrawn it is not frozen.
	var frozen *roamcardv1.Card
	var err error
	apptest.Await(s.t, "the fee is withdrawn", func() error {
		if frozen, err = c.Cards.Freeze(ctx, card); errors.Is(err, &roamcard.APIError{Code: "card_not_active"}) {
			return err
		}
		return nil
	})
	if err != nil || roamcard.CardStatusOf(frozen) != roamcard.CardFrozen || frozen.GetId() != card {
		s.t.Fatalf("frozen: %v, %v", frozen, err)
	}
	_, err = c.Cards.TopUp(ctx, 2500, roamcard.NewKey())
	if !errors.Is(err, &roamcard.APIError{Code: "active_card_missing"}) {
		s.t.Errorf("a top-up: %v", err)
	}
	at := s.lockedCard(frozen.GetLast4())
	s.charge(at, 700)
	thawed, err := c.Cards.Unfreeze(ctx, card)
	if err != nil || roamcard.CardStatusOf(thawed) != roamcard.CardActive {
		s.t.Fatalf("unfrozen: %v, %v", thawed, err)
	}
	s.charge(at, 300)
	all, err := roamcard.Collect(c.Cards.Transactions(ctx, card))
	if err != nil || len(all) != 2 {
		s.t.Fatalf("%v, %v", all, err)
	}
	done, declined := all[0], all[1]
	if done.GetAmountUsdCents() != 300 || done.GetStatus() != "completed" ||
		done.GetMerchant().GetName() != "Corner shop" {
		s.t.Errorf("after it was unfrozen: %v", done)
	}
	if declined.GetAmountUsdCents() != 700 || declined.GetDeclineReason() != "card_frozen" {
		s.t.Errorf("while it was frozen: %v", declined)
	}
	s.paid(w, 2, 2500)
}

// lockedCard is the issuer's name of a card that is locked.
func (s *stage) lockedCard(last4 string) string {
	s.t.Helper()
	var books struct {
		Cards []struct{ ID, Status, Number string }
	}
	res, err := http.Get(s.SandboxURL + "/control/books")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(&books); err != nil {
		s.t.Fatal(err)
	}
	for _, c := range books.Cards {
		if c.Status == "locked" && strings.HasSuffix(c.Number, last4) {
			return c.ID
		}
	}
	s.t.Fatalf("no card that ends with %s is locked", last4)
	return ""
}

// charge is a merchant's purchase with a card of the issuer.
func (s *stage) charge(at string, cents int) {
	s.t.Helper()
	devserver.Exchange(s.t, s.SandboxURL+"/control/cards/"+at+"/purchases",
		map[string]any{"amountCents": cents, "merchant": "Corner shop"}, new(any))
}

func topUp(s *stage) {
	ctx, w := s.t.Context(), s.wallet()
	c := s.buyer(w)
	card := s.activeCard(c)
	s.Inject(fault{"on": "paid", "status": 503}, fault{"on": "paid", "cut": 0})
	bought, err := c.Cards.TopUp(ctx, 2500, roamcard.NewKey())
	if err != nil || bought.Order.GetTopup().GetCardCreditUsdCents() != 2450 {
		s.t.Fatalf("%+v, %v", bought, err)
	}
	var last *roamcardv1.Order
	err = c.Orders.Watch(ctx, bought.Order.GetOrderId(), func(o *roamcardv1.Order) bool { last = o; return true })
	if err != nil || last.GetStatus() != "fulfilled" || last.GetTopup().GetStatus() != "credited" {
		s.t.Fatalf("it ended at %v, %v", last, err)
	}
	// 15.00 of the card and 24.50, once the fee of the issue is withdrawn.
	apptest.Await(s.t, "the card has both", func() error {
		read, err := c.Cards.Balance(ctx, card)
		if err == nil && read.GetAvailableUsdCents() != 3950 {
			err = fmt.Errorf("%d cents on the card, want 3950", read.GetAvailableUsdCents())
		}
		return err
	})
	s.paid(w, 2, 2500, 2500)
}

// esim buys a plan by its id; its secrets show nowhere, and open the order.
func esim(s *stage) {
	ctx, w := s.t.Context(), s.wallet()
	c := s.buyer(w)
	plans, err := roamcard.Collect(c.Plans.List(ctx, "JP", "country"))
	if err != nil || len(plans) == 0 {
		s.t.Fatalf("%d plans, %v", len(plans), err)
	}
	plan, price := plans[0].GetPlanId(), roamcard.Cents(plans[0].GetPriceUsdCents())
	bought, err := c.ESIM.Purchase(ctx, plan, "an eSIM for Japan")
	if err != nil || bought.Order.GetDelivery().GetPlanId() != plan || bought.Credentials == nil ||
		bought.DeliveryToken.IsZero() {
		s.t.Fatalf("%v, %v", bought, err)
	}
	id := bought.Order.GetOrderId()
	if again, err := c.ESIM.Purchase(ctx, plan, "an eSIM for Japan"); err != nil || again.Order.GetOrderId() != id ||
		!again.Order.GetReplayed() {
		s.t.Errorf("again: %v, %v", again, err)
	}
	s.paid(w, 1, price)
	inJSON, err := json.Marshal(bought)
	if err != nil {
		s.t.Fatal(err)
	}
	written := fmt.Sprintf("%v %+v %#v %s %v", bought, bought, bought.Credentials, inJSON, bought.Order)
	for _, secret := range []roamcard.Secret{bought.Credentials.LPA, bought.Credentials.ICCID, bought.DeliveryToken} {
		if strings.Contains(written, secret.Reveal()) {
			s.t.Error("a secret shows in what is printed")
		}
	}
	byToken := roamcard.WithDeliveryToken(ctx, bought.DeliveryToken)
	if o, err := c.ESIM.Status(byToken, id); err != nil || o.GetStatus() != "fulfilled" {
		s.t.Errorf("by its token: %v, %v", o.GetStatus(), err)
	}
	stranger := s.buyer(s.wallet())
	if _, err := stranger.ESIM.Status(ctx, id); !isNotFound(err) {
		s.t.Errorf("another wallet: %v", err)
	}
	if _, err := stranger.ESIM.Status(roamcard.WithDeliveryToken(ctx, roamcard.NewSecret("wrong")), id); err == nil {
		s.t.Error("another token opens the order")
	}
}

// esimLate buys one that the sandbox's supplier delivers after 30 s, which is twice what the service waits.
func esimLate(s *stage) {
	ctx, w := s.t.Context(), s.wallet()
	c := s.buyer(w)
	plans, err := roamcard.Collect(c.Plans.List(ctx, "", ""))
	if err != nil {
		s.t.Fatal(err)
	}
	bought, err := c.ESIM.Purchase(ctx, "", roamcard.NewKey()+"~005")
	if err != nil || bought.Credentials != nil || bought.Order.GetDelivery().GetStatus() != "pending" {
		s.t.Fatalf("%v, %v; want an order without its eSIM", bought, err)
	}
	id := bought.Order.GetOrderId()
	if _, err := c.ESIM.Install(ctx, id, s.person(new([]string))); !isCode(err, "order_not_fulfilled") {
		s.t.Errorf("before it is there: %v", err)
	}
	if err := c.Orders.Watch(ctx, id, func(*roamcardv1.Order) bool { return true }); err != nil {
		s.t.Fatal(err)
	}
	var seen []string
	if shown, err := c.ESIM.Install(ctx, id, s.person(&seen)); err != nil || !shown.Seen ||
		!strings.Contains(seen[0], "LPA:1$") {
		s.t.Errorf("%v, %v, seen %d pages", shown, err, len(seen))
	}
	s.paid(w, 1, roamcard.Cents(plans[0].GetPriceUsdCents()))
}

func payOrder(s *stage) {
	ctx, w := s.t.Context(), s.wallet()
	c := s.buyer(w)
	opened, err := c.Orders.CreateCard(ctx, "for later")
	if err != nil || opened.GetStatus() != "payment_required" {
		s.t.Fatalf("%v, %v", opened, err)
	}
	s.Inject(fault{"on": "paid", "cut": -5})
	for i, named := range []string{opened.GetPayableUrl(), opened.GetOrderId(), opened.GetPayableUrl()} {
		o, err := c.Orders.Pay(ctx, named)
		if err != nil || o.GetOrderId() != opened.GetOrderId() || o.GetStatus() == "payment_required" {
			s.t.Errorf("paid %d times: %v, %v", i+1, o, err)
		}
	}
	if _, err := c.Orders.Pay(ctx, "https://elsewhere.example/pay/"+opened.GetOrderId()); err == nil {
		s.t.Error("an address of another service was paid")
	}
	s.paid(w, 1, 2500)
}

// person opens pages as a browser does, presses their buttons, and records what they show.
func (s *stage) person(seen *[]string) roamcard.BrowserPresenter {
	return roamcard.BrowserPresenter{Open: func(ctx context.Context, url string) error {
		page, err := roamcardtest.Look(ctx, url)
		*seen = append(*seen, page.HTML)
		return err
	}}
}
