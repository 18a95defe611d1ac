package endtoend_test

import (
	"fmt"
	"testing"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// thirdParty is a wallet with gas, which sends what others have signed.
type thirdParty struct {
	*buyer
	nonce uint64
}

func (w *world) thirdParty() *thirdParty {
	w.t.Helper()
	s := &thirdParty{buyer: w.buyer()}
	w.giveGas(s.address)
	return s
}

// broadcast brings a payment to the chain, before the service has seen it.
func (s *thirdParty) broadcast(p x402.Payment) {
	s.w.t.Helper()
	s.transact(s.nonce, x402.TransferCall(p.Authorization, p.Signature))
	s.nonce++
	eventually(s.w.t, func() (bool, string) { return s.w.spent(p.Authorization), "not in a block" })
}

// wantUnclaimed is the answer to a payment whose money has arrived and whose sender is not proven, once that is known.
func (w *world) wantUnclaimed(a answer) {
	w.t.Helper()
	a = a.settled()
	if a.status != 402 || !a.is(fault.PaymentUnclaimed) || a.header.Get(x402.HeaderRequired) == "" ||
		a.problem.OrderID != "" {
		w.t.Fatalf("%d %s, want 402 %s", a.status, clipped(a.body), fault.PaymentUnclaimed)
	}
	for _, flaw := range flaws(a) {
		w.t.Errorf("%s: %s", flaw, clipped(a.body))
	}
}

// TestPreemptedBuyerPaysOnce: a third party sends the signed transfer before the service sees it. The buyer does as any
// x402 client does: it signs again when it is told to.
func TestPreemptedBuyerPaysOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{instances: 2})
	third, b := w.thirdParty(), w.buyer()
	w.fund(b.address, price()) // and not a cent more
	first := b.payment()
	third.broadcast(first)
	request := purchase("k", header(t, first))
	w.wantUnclaimed(w.send(request))
	request.at = w.instances[1]
	w.wantUnclaimed(w.send(request))

	var o paidOrder
	w.send(purchase("k", header(t, b.payment()))).into(t, 200, &o)
	if !o.Replayed || o.Payment.Amount != price().String() {
		t.Errorf("bought %+v", o)
	}
	w.awaitSettled()
	if n := w.transferCount(b); n != 1 || len(w.issuer.books().Cards) != 1 || w.balance(b.address) != 0 {
		t.Errorf("%d transfers, %d cards, %s left", n, len(w.issuer.books().Cards), w.balance(b.address))
	}
	// The spent authorization opens nothing of the order, and pays for nothing else.
	wantProblem(t, "under another key", w.send(purchase("another", header(t, first))), 409, fault.AuthorizationAlreadyUsed)
	w.checkBooks()
	w.wantAllDelivered()
}

// TestPreemptedDerivedNonceNeedsNoSecondSignature: the nonce was derived from the purchase, over either protocol.
func TestPreemptedDerivedNonceNeedsNoSecondSignature(t *testing.T) {
	onlyTorture(t, "checkout TestCheckoutDerivedNonceProvesItsKey")
	t.Parallel()
	w := newWorld(t, plan{})
	third := w.thirdParty()
	derived := func(b *buyer) x402.Payment {
		return b.payment(func(p *x402.Payment) {
			p.Authorization.Nonce = x402.DerivedNonce(origin, purchasePath, b.address, "my-first-card", 0)
		})
	}
	for _, path := range []string{purchasePath, "/roamcard.v1.CardService/PurchaseCard"} {
		b := w.buyer()
		p := derived(b)
		third.broadcast(p)
		r := purchase("my-first-card", header(t, p))
		r.path = path
		if a := w.send(r); a.status != 200 {
			t.Fatalf("%s: %d %s", path, a.status, clipped(a.body))
		}
		w.awaitSettled()
		b.wantPaidOnce(path)
	}
	w.checkBooks()
	w.wantAllDelivered()
}

// TestPreemptedEsimIsShownToItsPayerOnly: the stranger who reads the chain gets neither the eSIM nor another plan.
func TestPreemptedEsimIsShownToItsPayerOnly(t *testing.T) {
	onlyTorture(t, "checkout TestCheckoutSessionProvesThePayer")
	t.Parallel()
	w := newWorld(t, plan{})
	w.awaitEsimReady(nil)
	third, b := w.thirdParty(), w.buyer()
	terms := w.esimTerms("a key of some length")
	first := b.esimPayment(terms)
	pay, err := x402.DecodePayment(first)
	if err != nil {
		t.Fatal(err)
	}
	third.broadcast(pay)
	for _, key := range []string{"a stranger's guess", "a key of some length"} {
		w.wantUnclaimed(w.send(esimPurchase(key, first)))
	}
	b.signIn()
	var o esimOrder
	r := esimPurchase("a key of some length", first)
	r.header["Authorization"] = b.bearer()["Authorization"]
	w.send(r).into(t, 200, &o)
	if o.Credentials == nil || o.Delivery.Token == "" || !o.Replayed {
		t.Errorf("with a session: %+v", o)
	}
	w.awaitSettled()
	b.wantPaidOnce("")
	w.checkBooks()
}

// TestUsedAuthorizationIsUnknownWhileItsLogIsHidden: the token says that it is used, and the node shows no event.
func TestUsedAuthorizationIsUnknownWhileItsLogIsHidden(t *testing.T) {
	onlyTorture(t, "checkout TestCheckoutUnclearUseIsUnknown")
	t.Parallel()
	w, node := newProxyWorld(t, nil)
	third, b := w.thirdParty(), w.buyer()
	for _, mode := range []nodeMode{answerEmpty, answerNull, failBefore} {
		p := b.payment()
		third.broadcast(p)
		node.inject(nodeFault{method: "eth_getLogs", mode: mode})
		a := w.send(purchase(string(mode), header(t, p)))
		node.clearFaults()
		if a.status != 503 || a.header.Get(x402.HeaderRequired) != "" || *a.problem.SafeToPayAgain ||
			a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", mode, a.status, clipped(a.body))
		}
		w.wantUnclaimed(w.send(purchase(string(mode), header(t, p))))
		var o paidOrder
		w.send(purchase(string(mode), header(t, b.payment()))).into(t, 200, &o)
		w.awaitSettled()
		b = w.buyer()
	}
	w.checkBooks()
	w.wantAllDelivered()
}

// TestCancelledOrSpentAuthorizationIsSafeToReplace is today's answer, with its proof.
func TestCancelledOrSpentAuthorizationIsSafeToReplace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	third := w.thirdParty()
	for name, use := range map[string]func(b *buyer, p x402.Payment){
		"cancelled": func(b *buyer, p x402.Payment) {
			w.giveGas(b.address)
			b.transact(0, b.cancelCall(p.Authorization.Nonce))
		},
		"used_elsewhere": func(b *buyer, p x402.Payment) {
			p.Authorization.To = third.address
			third.broadcast(b.signed(p))
		},
	} {
		b := w.buyer()
		p := b.payment()
		use(b, p)
		eventually(t, func() (bool, string) { return w.spent(p.Authorization), "not in a block" })
		a := w.send(purchase(name, header(t, p)))
		if a.status != 402 || !a.is(fault.PaymentRejected) || !*a.problem.SafeToPayAgain {
			t.Errorf("%s: %d %s", name, a.status, clipped(a.body))
		}
		if told, err := x402.DecodeSettlement(a.header.Get(x402.HeaderResponse)); err != nil || told.Success ||
			told.ErrorReason != name {
			t.Errorf("%s: proof %+v, %v", name, told, err)
		}
		var o paidOrder
		w.send(purchase(name, header(t, b.payment()))).into(t, 200, &o)
		if o.Replayed {
			t.Errorf("%s: bought %+v", name, o)
		}
	}
	w.awaitSettled()
	w.checkBooks()
	w.wantAllDelivered()
}

// deleteOrder deletes every trace of an order, as a database restored from an older dump has none.
func (w *world) deleteOrder(id string) {
	w.t.Helper()
	for _, sql := range []string{
		"DELETE FROM jobs WHERE payload->>'order' = $1",
		"DELETE FROM transaction_members WHERE payment_id IN (SELECT id FROM payments WHERE order_id = $1)",
		"DELETE FROM transactions WHERE $1 <> '' AND id NOT IN (SELECT transaction_id FROM transaction_members)",
		"DELETE FROM payments WHERE order_id = $1", "DELETE FROM reservations WHERE order_id = $1",
		"DELETE FROM cards WHERE order_id = $1",
		"DELETE FROM esim_profiles WHERE order_id = $1", "ALTER TABLE timeline DISABLE TRIGGER USER",
		"DELETE FROM timeline WHERE order_id = $1",
		"ALTER TABLE timeline ENABLE TRIGGER USER", "ALTER TABLE ledger_entries DISABLE TRIGGER USER",
		"ALTER TABLE ledger_postings DISABLE TRIGGER USER",
		"DELETE FROM ledger_entries WHERE posting_id IN (SELECT id FROM ledger_postings WHERE order_id = $1)",
		"DELETE FROM ledger_postings WHERE order_id = $1", "ALTER TABLE ledger_entries ENABLE TRIGGER USER",
		"ALTER TABLE ledger_postings ENABLE TRIGGER USER", "DELETE FROM orders WHERE id = $1",
	} {
		if sql[0] == 'A' {
			w.exec(sql)
			continue
		}
		w.exec(sql, id)
	}
	w.told.answers = nil // of what is lost
}

// TestLostOrderIsFoundByItsPayer: the order's rows are gone after the card was delivered. The same request, a new
// signature under the same key, and one under another key: there is one transfer and one card.
func TestLostOrderIsFoundByItsPayer(t *testing.T) {
	onlyTorture(t, "checkout TestCheckoutLostOrderFindsItsGoods")
	t.Parallel()
	w := newWorld(t, plan{})
	b := w.buyer()
	p := b.payment()
	var before, after paidOrder
	w.send(purchase("the key", header(t, p))).into(t, 200, &before)
	w.awaitSettled()
	w.deleteOrder(before.OrderID)

	w.wantUnclaimed(w.send(purchase("the key", header(t, p))))
	if a := w.send(purchase("another key", header(t, b.payment()))); a.status != 503 ||
		!a.is(fault.SettlementUnknown) || *a.problem.SafeToPayAgain {
		t.Errorf("under another key: %d %s", a.status, clipped(a.body))
	}
	w.send(purchase("the key", header(t, b.payment()))).into(t, 200, &after)
	if !after.Replayed || after.OrderID == before.OrderID || after.Payment.Transaction != before.Payment.Transaction {
		t.Errorf("found %+v, was %+v", after, before)
	}
	w.awaitSettled()
	if n := w.transferCount(b); n != 1 || len(w.issuer.books().Cards) != 1 {
		t.Errorf("%d transfers, %d cards", n, len(w.issuer.books().Cards))
	}
	w.checkBooks()
	w.wantAllDelivered()
}

// TestLostTopUpIsFoundByItsPayer is the same for a load, found by the books' reading of the chain alone.
func TestLostTopUpIsFoundByItsPayer(t *testing.T) {
	onlyTorture(t, "checkout TestCheckoutLostOrderFindsItsGoods, store TestGoodsAreAdoptedOnce")
	t.Parallel()
	w := newWorld(t, plan{change: withOperator})
	b := w.buyer()
	b.buyCard("card")
	for i, again := range []string{"top-up", "another"} {
		var before, after paidOrder
		b.topUp("top-up"+fmt.Sprint(i), 3000).into(t, 200, &before)
		w.awaitSettled()
		w.deleteOrder(before.OrderID)
		w.reconcileNow() // reads the chain
		a := b.topUp(again+fmt.Sprint(i), 3000)
		if again == "another" {
			wantProblem(t, "under another key", a, 503, fault.SettlementUnknown)
			continue
		}
		a.into(t, 200, &after)
		if !after.Replayed || after.Payment.Transaction != before.Payment.Transaction {
			t.Errorf("found %+v, was %+v", after, before)
		}
		w.awaitSettled()
	}
	if n := w.transferCount(b); n != 3 {
		t.Errorf("%d transfers", n)
	}
}

// TestPreemptedPaymentForUnavailableProductIsRefunded: a third party sent the payment, and what it was for is sold out.
// Its payer gets the money back; a stranger who presents it moves nothing. Nobody is told to pay again meanwhile.
func TestPreemptedPaymentForUnavailableProductIsRefunded(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, 100_000_000, plan{})
	w.awaitEsimReady(nil)
	third := w.thirdParty()
	esim := func(b *buyer) request {
		return esimPurchase("sold-out~008", b.esimPayment(w.esimTerms("sold-out~008")))
	}
	topup := func(b *buyer) request {
		pay := b.payment(func(p *x402.Payment) { p.Resource.URL = origin + "/api/card/topup" })
		return post("/api/card/topup", purchaseBody("no card")).paying(header(t, pay))
	}
	for name, request := range map[string]func(b *buyer) request{"eSIM": esim, "top-up without a card": topup} {
		b := w.buyer()
		r := request(b)
		pay, err := x402.DecodePayment(r.header[x402.HeaderSignature])
		if err != nil {
			t.Fatal(err)
		}
		third.broadcast(pay)
		a := w.send(r)
		if a.status != 409 && !a.is(fault.PaymentUnclaimed) {
			t.Errorf("%s: a stranger: %d %s", name, a.status, clipped(a.body))
		}
		if a.status == 409 && *a.problem.SafeToPayAgain {
			t.Errorf("%s: told to pay again: %s", name, clipped(a.body))
		}
		b.signIn()
		r.header["Authorization"] = b.bearer()["Authorization"]
		a = w.send(r)
		if a.status != 409 || !a.is(fault.TermsChanged) || a.problem.OrderID == "" ||
			*a.problem.SafeToPayAgain {
			t.Fatalf("%s: %d %s", name, a.status, clipped(a.body))
		}
		o := b.awaitStatus(a.problem.OrderID, "refunded")
		if o.Refund == nil || o.Refund.Amount != pay.Authorization.Value.String() || len(w.payouts(b.address)) != 1 {
			t.Errorf("%s: %+v, %d payouts", name, o, len(w.payouts(b.address)))
		}
		// The same request again moves nothing.
		if a := w.send(r); a.status != 409 || a.problem.OrderID != o.OrderID || len(w.payouts(b.address)) != 1 {
			t.Errorf("%s: repeated: %d %s", name, a.status, clipped(a.body))
		}
		b.wantPaidOnce(name)
	}
	w.checkBooks()
}

// TestLostRefundIsNotSpentAgain: the order was refunded, and its rows are gone. What arrived buys nothing any more.
func TestLostRefundIsNotSpentAgain(t *testing.T) {
	onlyTorture(t, "reconcile TestWhatWentBackPaysForNothing")
	t.Parallel()
	w := newAdminWorld(t, 100_000_000, plan{})
	b := w.buyer()
	b.signIn()
	var o paidOrder
	p := b.payment()
	w.send(purchase("refused~002", header(t, p))).into(t, 200, &o)
	b.awaitStatus(o.OrderID, "refunded")
	w.exec("DELETE FROM refunds WHERE order_id = $1", o.OrderID)
	w.deleteOrder(o.OrderID)
	w.wantUnclaimed(w.send(purchase("refused~002", header(t, p))))
	for _, key := range []string{"refused~002", "another"} {
		a := w.send(purchase(key, header(t, b.payment())))
		if a.status != 503 || !a.is(fault.SettlementUnknown) || *a.problem.SafeToPayAgain {
			t.Errorf("%s: %d %s", key, a.status, clipped(a.body))
		}
	}
	if n := w.transferCount(b); n != 1 || len(w.payouts(b.address)) != 1 {
		t.Errorf("%d transfers, %d payouts", n, len(w.payouts(b.address)))
	}
}
