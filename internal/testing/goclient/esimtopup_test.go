package goclient_test

import (
	"strconv"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// esimTopup buys more data for an eSIM.
func esimTopup(s *stage) {
	ctx, w := s.t.Context(), s.wallet()
	c := s.buyer(w)
	bought, err := c.ESIM.Purchase(ctx, "", "an eSIM to top up")
	if err != nil {
		s.t.Fatal(err)
	}
	id, price := bought.Order.GetOrderId(), roamcard.Cents(bought.Order.GetAmountUsdCents())
	total := func() int64 {
		p, err := c.ESIM.Profile(ctx, id)
		if err != nil {
			s.t.Fatal(err)
		}
		n, err := strconv.ParseInt(p.GetUsage().GetTotalBytes(), 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		return n
	}
	had := total()
	plans, err := roamcard.Collect(c.ESIM.TopUps(ctx, id))
	if err != nil || len(plans) == 0 {
		s.t.Fatalf("%d plans, %v", len(plans), err)
	}
	byToken := roamcard.WithDeliveryToken(ctx, bought.DeliveryToken)
	if again, err := roamcard.Collect(c.ESIM.TopUps(byToken, id)); err != nil || len(again) != len(plans) {
		s.t.Errorf("by its token: %d plans, %v", len(again), err)
	}
	more, cost := plans[0].GetPlanId(), roamcard.Cents(plans[0].GetPriceUsdCents())
	if v, err := c.Quote.ESIMTopUp(ctx, id, more); err != nil || v.Quote.Amount != cost ||
		v.Quote.Operation != roamcard.OpESIMTopup {
		s.t.Errorf("quoted %+v, %v", v, err)
	}
	added, err := c.ESIM.TopUp(ctx, id, more, "more data")
	if err != nil || roamcard.KindOf(added.Order) != roamcard.KindESIMTopUp ||
		roamcard.ESIMTopUpOf(added.Order) != roamcard.DeliveryFulfilled ||
		added.Order.GetEsimTopup().GetOrderId() != id || added.Order.GetEsimTopup().GetPlanId() != more {
		s.t.Fatalf("%v, %v", added, err)
	}
	if again, err := c.ESIM.TopUp(ctx, id, more, "more data"); err != nil || !again.Order.GetReplayed() ||
		again.Order.GetOrderId() != added.Order.GetOrderId() {
		s.t.Errorf("again: %v, %v", again, err)
	}
	if has := total(); has != had+int64(plans[0].GetDataMb())<<20 {
		s.t.Errorf("it had %d bytes, and has %d", had, has)
	}
	s.paid(w, 2, price, cost)
	other := s.wallet()
	stranger := s.buyer(other)
	if _, err := stranger.ESIM.TopUp(ctx, id, more, "data of another's"); !isNotFound(err) {
		s.t.Errorf("another wallet: %v", err)
	}
	s.paid(other, 1) // signed, and never sent to the chain
}
