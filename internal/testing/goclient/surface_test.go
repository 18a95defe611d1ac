package goclient_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func TestClientReadsPublicDataWithoutAWallet(t *testing.T) {
	ctx, s := t.Context(), newStage(t)
	c := s.buyer(nil)
	settings, err := c.Discovery.Config(ctx)
	if err != nil || settings.GetNetwork().GetPayTo() != s.PayTo {
		t.Errorf("settings: %v, %v", settings, err)
	}
	if d, err := c.Discovery.Card(ctx); err != nil || d.GetPayment().GetAmount() != "25000000" {
		t.Errorf("card: %v, %v", d, err)
	}
	if d, err := c.Discovery.TopUp(ctx); err != nil || d == nil {
		t.Errorf("top-up: %v, %v", d, err)
	}
	if d, err := c.Discovery.ESIM(ctx); err != nil || d == nil {
		t.Errorf("eSIM: %v, %v", d, err)
	}
	document, err := c.Discovery.Agent(ctx)
	if err != nil || !json.Valid(document) {
		t.Errorf("agent: %s, %v", document, err)
	}
	if _, err := c.Cards.Purchase(ctx, roamcard.NewKey()); !errors.Is(err, roamcard.ErrNoSigner) {
		t.Errorf("bought without a wallet: %v", err)
	}
	if _, err := c.Cards.List(ctx); !errors.Is(err, roamcard.ErrNoSigner) {
		t.Errorf("cards without a wallet: %v", err)
	}
}

func TestQuoteSaysWhatThePolicyDecides(t *testing.T) {
	ctx, s := t.Context(), newStage(t)
	w := s.wallet()
	c := s.buyer(w, capped(2500, 2500), func(c *roamcard.Config) { c.Policy.Mode = roamcard.PolicyGated })
	if v, err := c.Quote.Card(ctx); err != nil || v.Quote.Amount != 2500 || v.Denied != nil || !v.Asks ||
		v.Quote.Operation != roamcard.OpCard {
		t.Errorf("card: %+v, %v", v, err)
	}
	if v, err := c.Quote.ESIM(ctx, ""); err != nil || v.Quote.Amount <= 0 || v.Quote.Operation != roamcard.OpESIM {
		t.Errorf("eSIM: %+v, %v", v, err)
	}
	if _, err := c.Quote.TopUp(ctx, -1); err == nil {
		t.Error("a top-up below nothing was quoted")
	}
	rich := s.buyer(s.wallet(), capped(2500, 2500))
	s.activeCard(rich)
	if v, err := rich.Quote.TopUp(ctx, 3000); err != nil || v.Quote.Amount != 3000 ||
		!errors.Is(v.Denied, roamcard.ErrPolicyDenied) {
		t.Errorf("top-up: %+v, %v", v, err)
	}
	s.paid(w, 0)
}

func TestAnswersAndErrorsHaveRequestIDs(t *testing.T) {
	ctx, s := t.Context(), newStage(t)
	c := s.buyer(s.wallet())
	var raw roamcard.RawResponse
	if _, err := c.Cards.List(roamcard.WithRawResponse(ctx, &raw)); err != nil || raw.Status != http.StatusOK ||
		raw.RequestID() == "" {
		t.Errorf("%+v, %v", raw, err)
	}
	_, err := c.Orders.Get(ctx, "ord_none")
	told, ok := errors.AsType[*roamcard.APIError](err)
	if !ok || told.Code != "order_not_found" || told.RequestID == "" || !errors.Is(err, roamcard.ErrNotFound) ||
		errors.Is(err, roamcard.ErrConflict) {
		t.Errorf("%+v, %v", told, err)
	}
	s.Inject(fault{"on": "/roamcard.v1.CardService/ListCards", "status": 502, "forward": false})
	if _, err := s.buyer(s.wallet(), func(c *roamcard.Config) { c.MaxRetries = new(0) }).Cards.List(ctx); !errors.Is(err,
		roamcard.ErrUnavailable) {
		t.Errorf("502: %v", err)
	}
	if _, err := c.ESIM.Purchase(ctx, "", "a key that is "+
		string(make([]byte, 200))); !errors.Is(err, &roamcard.APIError{Code: "schema_invalid"}) {
		t.Errorf("a bad key: %v", err)
	} else if told, _ := errors.AsType[*roamcard.APIError](err); len(told.Fields) == 0 {
		t.Errorf("no field is named: %+v", told)
	}
}

func TestSessionBelongsToItsWalletAndEnds(t *testing.T) {
	ctx, s := t.Context(), newStage(t)
	w := s.wallet()
	c := s.buyer(w)
	if err := c.Auth.SignOut(ctx); err != nil {
		t.Errorf("out before in: %v", err)
	}
	for range 2 {
		if session, err := c.Auth.SignIn(ctx); err != nil || !strings.EqualFold(session.GetWallet(), w.Address()) {
			t.Errorf("%v, %v", session, err)
		}
		if err := c.Auth.SignOut(ctx); err != nil {
			t.Error(err)
		}
	}
	opened, err := c.Orders.CreateESIM(ctx, "", roamcard.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	if paid, err := c.Orders.Pay(ctx, opened.GetOrderId()); err != nil || paid.GetOrderId() != opened.GetOrderId() {
		t.Errorf("%v, %v", paid, err)
	}
	s.paid(w, 1, roamcard.Cents(opened.GetAmountUsdCents()))
}

func TestListsReadEveryPage(t *testing.T) {
	ctx, s := t.Context(), newStage(t)
	w := s.wallet()
	c := s.buyer(w, func(c *roamcard.Config) { c.OperatorToken = roamcard.NewSecret(s.OperatorToken) })
	bought, err := c.Cards.Purchase(ctx, roamcard.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for order, err := range c.Orders.List(ctx, false) {
		if err != nil {
			t.Fatal(err)
		}
		seen[order.GetOrderId()] = true
		if order.GetOrderId() == bought.Order.GetOrderId() {
			break // and no more is asked for
		}
	}
	if !seen[bought.Order.GetOrderId()] {
		t.Errorf("orders %v, want %s among them", seen, bought.Order.GetOrderId())
	}
	if _, err := c.Cards.WaitUntilActive(ctx, bought.Order.GetOrderId()); err != nil {
		t.Fatal(err)
	}
	if jobs, err := roamcard.Collect(c.Admin().FeeJobs(ctx, nil)); err != nil || len(jobs) == 0 {
		t.Errorf("%d fee jobs, %v", len(jobs), err)
	}
	fulfilled := &roamcardv1.ListOrderQueueRequest{Status: proto.String("fulfilled")}
	if queue, err := roamcard.Collect(c.Admin().OrderQueue(ctx, fulfilled)); err != nil || len(queue) == 0 {
		t.Errorf("%d orders, %v", len(queue), err)
	}
	if kept, err := c.Admin().GetChallengeRetention(ctx, &roamcardv1.GetChallengeRetentionRequest{}); err != nil ||
		kept.GetTotal() == 0 {
		t.Errorf("challenges: %v, %v", kept, err)
	}
	if _, err := roamcard.Collect(s.buyer(w).Admin().FeeJobs(ctx, nil)); !errors.Is(err, roamcard.ErrUnauthorized) {
		t.Errorf("without a token: %v", err)
	}
}
