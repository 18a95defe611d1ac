package hostile_test

import (
	"bytes"
	"fmt"
	"math/big"
	"net/http"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/uuid"
)

// spentPayments are attacks with payments that are made, or are being made.
func spentPayments() []attack {
	return []attack{
		{
			name: "spent-payment-of-another", ref: "A10", by: watcher, do: replaysFromTheChain,
			aim: "goods or secrets for a payment that is public on the chain",
			defence: "a payment belongs to one payer and key; secrets need the payer's session, a fresh signature or the " +
				"same request in its time",
		},
		{
			name: "one-payment-for-many-keys", ref: "A5", by: payer, do: oneHeaderManyKeys,
			held:    "checkout TestAuthorizationBuysOnceWhateverTheKey",
			aim:     "several goods for one payment",
			defence: "the authorization's nonce is unique in the database, and in the token",
		},
		{
			name: "one-nonce-over-two-keys-at-once", ref: "A8", by: payer, do: racesOneNonce,
			aim:     "several goods for one payment, by speed",
			defence: "key and nonce are claimed in one transaction before anything is sent",
		},
		{
			name: "copies-of-one-request", ref: "A8", by: payer, do: racesOneRequest,
			held:    "checkout TestConcurrentCopiesOfARequestMakeOneOrder",
			aim:     "several goods, or several answers, for one request",
			defence: "the first claim wins, and all others wait for its answer",
		},
		{
			name: "one-key-many-signatures", ref: "A6", by: payer, do: racesOneKey,
			held:    "store TestOrdersPassTheKit/KeyIsOneOrderWhateverPaysForIt",
			aim:     "the service takes several payments for one purchase",
			defence: "a purchase has one live authorization; the others are neither stored nor sent",
		},
		{
			name: "payments-for-many-cards", ref: "A40", by: payer, do: racesForCards,
			held:    "checkout TestOwnerBuysOneCardAtATime",
			aim:     "several cards of one owner, or money taken without a card",
			defence: "one live card for each owner, decided in the claim",
		},
		{
			name: "key-of-another", ref: "A9", by: stranger, do: guessesAKey,
			held:    "checkout TestForgedPaymentLearnsNothingOfTheOrder",
			aim:     "learn of, or disturb, another's purchase by its key",
			defence: "a key counts for its payer alone, and an unpaid request says nothing about it",
		},
		{
			name: "payment-on-another-route", ref: "A2", by: payer, do: paysElsewhere,
			held:    "payment TestVerifyAcceptsExactTermsOnly",
			aim:     "expensive goods for a cheap payment",
			defence: "the terms are computed again on each route, and the resource is part of them",
		},
		{
			name: "another's-order-paid", ref: "A38", by: payer, do: paysAnothersOrder,
			held:    "checkout TestCreatedOrderIsPaidOnceByItsOwner",
			aim:     "take over another's order",
			defence: "the payer must be the owner, which is looked at before anything is sent",
		},
		{
			name: "money-gone-after-the-claim", ref: "A21", by: payer, do: emptiesTheWallet,
			aim:     "goods without money: the authorization is cancelled or the wallet emptied before it is sent",
			defence: "goods are made only after the transfer's log was read",
		},
		{
			name: "top-up-without-a-card", ref: "A39", by: payer, do: topsUpNothing,
			aim:     "money that cannot be delivered and has to be refunded",
			defence: "the card is looked up before the challenge and in the claim",
		},
	}
}

// replaysFromTheChain rebuilds a settled payment from its call data, as anybody can.
func replaysFromTheChain(r *trial) {
	victim, thief := r.wallet(100), r.wallet(0)
	body := keyed(uuid.NewString())
	offered := victim.terms(r, cardPath, body)
	made := victim.pays(r, offered)
	var paid order
	victim.offers(r.Context(), cardPath, body, made.header(r)).into(r, &paid)
	var tx struct{ Input hexutil.Bytes }
	r.rpc(&tx, "eth_getTransactionByHash", paid.Payment.Transaction)
	if !bytes.Contains(tx.Input, made.words()) {
		r.Fatalf("the payment is not in the call data %x", tx.Input)
	}
	at := bytes.Index(tx.Input, made.words())
	rebuilt := made
	rebuilt.authorization = authorization{
		From: common.BytesToAddress(tx.Input[at : at+32]), To: common.BytesToAddress(tx.Input[at+32 : at+64]),
		Value: new(big.Int).SetBytes(tx.Input[at+64 : at+96]),
		After: made.After, Before: made.Before, Nonce: [32]byte(tx.Input[at+160 : at+192]),
	}
	before := r.goods()
	for _, key := range []string{"1", body["idempotencyKey"].(string)[:35]} {
		for path, other := range map[string]map[string]any{
			cardPath: keyed(key), topupPath: keyed(key), esimPath: keyed(key),
		} {
			a := thief.send(r.Context(), http.MethodPost, path, other, headerPayment, rebuilt.header(r))
			if a.status != http.StatusConflict && a.status != http.StatusPaymentRequired {
				r.Errorf("%s with key %q: %d %.300s", path, key, a.status, a.body)
			}
			if bytes.Contains(a.body, []byte(paid.OrderID)) || bytes.Contains(a.body, []byte("token")) {
				r.Errorf("%s with key %q tells of the order: %.300s", path, key, a.body)
			}
		}
	}
	r.rest()
	if now := r.goods(); now.Esims != before.Esims || now.Cards > before.Cards+1 {
		r.Errorf("the providers made %+v, and had %+v", now, before)
	}
	if has := r.has(victim); has.Cards != 1 || has.Transfers != 1 {
		r.Errorf("the victim has %+v", has)
	}
}

func oneHeaderManyKeys(r *trial) {
	p := r.wallet(100)
	o, header := p.buys(r, esimPath)
	for range sized(4, 9) {
		body := keyed(uuid.NewString())
		a := p.offers(r.Context(), esimPath, body, header)
		if a.status != http.StatusConflict || a.code() != "authorization_already_used" ||
			bytes.Contains(a.body, []byte(o.OrderID)) {
			r.Errorf("another key: %d %.300s", a.status, a.body)
		}
	}
	r.exactly(p, 1)
}

// exactly checks that a wallet has paid for so many eSIMs or cards, and has them.
func (r *trial) exactly(p *wallet, n int) {
	r.Helper()
	r.rest()
	has := r.has(p)
	if has.Transfers-has.Refunds != n || has.Cards+has.Loads+has.Esims != n {
		r.Errorf("%s paid %d times, was refunded %d times, and has %d cards, %d loads and %d eSIMs; want %d of each",
			p.address, has.Transfers, has.Refunds, has.Cards, has.Loads, has.Esims, n)
	}
}

func racesOneNonce(r *trial) {
	for range sized(2, 20) {
		p := r.wallet(100)
		offered := p.terms(r, esimPath, keyed(uuid.NewString()))
		header := p.pays(r, offered).header(r)
		won := map[string]bool{}
		for _, a := range race(20,
			func(int) answer { return p.offers(r.Context(), esimPath, keyed(uuid.NewString()), header) }) {
			switch a.status {
			case http.StatusOK:
				var o order
				a.into(r, &o)
				won[o.OrderID] = true
			case http.StatusConflict, http.StatusTooManyRequests, http.StatusPaymentRequired:
			default:
				r.Errorf("%d %.300s %v", a.status, a.body, a.err)
			}
		}
		if len(won) != 1 {
			r.Errorf("%d keys got an order", len(won))
		}
		r.exactly(p, 1)
	}
}

func racesOneRequest(r *trial) {
	for range sized(2, 20) {
		p := r.wallet(100)
		body := keyed(uuid.NewString())
		header := p.pays(r, p.terms(r, esimPath, body)).header(r)
		orders := map[string]bool{}
		for _, a := range race(20, func(int) answer { return p.offers(r.Context(), esimPath, body, header) }) {
			switch a.status {
			case http.StatusOK:
				var o order
				a.into(r, &o)
				orders[o.OrderID] = true
			case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			default:
				r.Errorf("%d %.300s %v", a.status, a.body, a.err)
			}
		}
		if len(orders) != 1 {
			r.Errorf("%d orders", len(orders))
		}
		r.exactly(p, 1)
	}
}

func racesOneKey(r *trial) {
	for range sized(2, 20) {
		p := r.wallet(100)
		body := keyed(uuid.NewString())
		offered := p.terms(r, esimPath, body)
		made := make([]payment, 12)
		for i := range made {
			made[i] = p.pays(r, offered)
		}
		got := 0
		for _, a := range race(len(made),
			func(i int) answer { return p.offers(r.Context(), esimPath, body, made[i].header(r)) }) {
			if a.status == http.StatusOK {
				got++
			} else if a.status != http.StatusTooManyRequests && a.status != http.StatusServiceUnavailable {
				r.Errorf("%d %.300s %v", a.status, a.body, a.err)
			}
		}
		if got == 0 {
			r.Error("nobody got the order")
		}
		r.exactly(p, 1)
		used := 0
		for _, m := range made {
			if r.used(m.authorization) {
				used++
			} else {
				r.keep("an unsent signature", hexutil.Encode(m.Signature))
			}
		}
		if used != 1 {
			r.Errorf("%d authorizations were sent", used)
		}
	}
}

func racesForCards(r *trial) {
	p := r.wallet(1000)
	offered := p.terms(r, cardPath, keyed("x"))
	made := make([]payment, 8)
	for i := range made {
		made[i] = p.pays(r, offered)
	}
	race(len(made), func(i int) answer {
		return p.offers(r.Context(), cardPath, keyed(fmt.Sprint("card ", i)), made[i].header(r))
	})
	r.exactly(p, 1)
}

func guessesAKey(r *trial) {
	victim, thief := r.wallet(100), r.wallet(100)
	body := keyed("a key of 16 characters or more")
	header := victim.pays(r, victim.terms(r, esimPath, body)).header(r)
	var theirs, own order
	victim.offers(r.Context(), esimPath, body, header).into(r, &theirs)
	known, unknown := thief.send(r.Context(), http.MethodPost, esimPath, body), thief.send(r.Context(), http.MethodPost,
		esimPath, keyed(uuid.NewString()))
	if known.status != unknown.status || len(known.body) != len(unknown.body) {
		r.Errorf("a used key shows: %d, %d bytes and %d, %d bytes", known.status, len(known.body), unknown.status,
			len(unknown.body))
	}
	forged := victim.pays(r, thief.terms(r, esimPath, body), func(m *payment) { m.Signature = make([]byte, 65) })
	if a := thief.send(r.Context(), http.MethodPost, esimPath, body, headerPayment, forged.header(r)); bytes.Contains(
		a.body, []byte(theirs.OrderID)) {
		r.Errorf("a forged payment with the right key tells of the order: %.300s", a.body)
	}
	thief.offers(r.Context(), esimPath, body, thief.pays(r, thief.terms(r, esimPath, body)).header(r)).into(r, &own)
	if own.OrderID == theirs.OrderID {
		r.Error("the thief got the victim's order")
	}
	r.exactly(victim, 1)
	r.exactly(thief, 1)
}

func paysElsewhere(r *trial) {
	p := r.wallet(1000)
	p.owns(r)
	cheap := p.terms(r, esimPath, keyed("cheap"))
	costly := p.terms(r, topupPath, map[string]any{"idempotencyKey": "costly", "amountUsdCents": 25000})
	var open, alike order
	p.post(r, "/api/orders", map[string]any{"amountUsdCents": 5000}).into(r, &open)
	p.post(r, "/api/orders", map[string]any{"amountUsdCents": 2500}).into(r, &alike)
	even := p.terms(r, topupPath, map[string]any{"idempotencyKey": "even", "amountUsdCents": 2500})
	before := r.goods()
	moved := p.moved()
	for _, c := range []struct {
		path    string
		body    any
		offered terms
	}{
		{topupPath, map[string]any{"idempotencyKey": "costly", "amountUsdCents": 25000}, cheap},
		{topupPath, keyed("default"), cheap},
		{topupPath, keyed("default"), costly},
		{"/pay/" + open.OrderID, nil, cheap},
		{"/api/x402/pay/" + open.OrderID, nil, costly},
		{esimPath, keyed("esim"), costly},
		{cardPath, keyed("even"), even},
		{cardPath, keyed("alike"), p.terms(r, "/pay/"+alike.OrderID, nil)},
	} {
		a := p.offers(r.Context(), c.path, c.body, p.pays(r, c.offered).header(r))
		if a.status != http.StatusPaymentRequired && a.status != http.StatusConflict {
			r.Errorf("%s paid for with %v: %d %.300s", c.path, c.offered.Accepts[0]["amount"], a.status, a.body)
		}
	}
	r.rest()
	if now := r.goods(); now != before || p.moved() != moved {
		r.Errorf("the providers made %+v, and had %+v; %d units moved", now, before, p.moved()-moved)
	}
}

func paysAnothersOrder(r *trial) {
	victim, other := r.wallet(100), r.wallet(100)
	victim.owns(r)
	var open order
	victim.post(r, "/api/orders", map[string]any{"amountUsdCents": 2500}).into(r, &open)
	before, moved := r.goods(), victim.moved()
	path := "/pay/" + open.OrderID
	for _, path := range []string{path, "/api/x402" + path} {
		a := other.offers(r.Context(), path, nil, other.pays(r, other.terms(r, path, nil)).header(r))
		if a.status != http.StatusPaymentRequired && a.status != http.StatusConflict {
			r.Errorf("%s: %d %.300s", path, a.status, a.body)
		}
	}
	other.signsIn(r)
	if a := other.post(r, "/api/orders/"+open.OrderID+"/pay", map[string]any{"paymentSignature": other.pays(r,
		other.terms(r, path, nil)).header(r)}); a.status != http.StatusNotFound {
		r.Errorf("as a stranger signed in: %d %.300s", a.status, a.body)
	}
	r.nothing(before, other)
	if victim.moved() != moved {
		r.Error("the victim has paid")
	}
}

// emptiesTheWallet takes the money away after the claim: the relayer's account is out of ether until then.
func emptiesTheWallet(r *trial) {
	before := r.goods()
	var thieves []*wallet
	for i := range sized(4, 16) {
		p := r.wallet(100)
		body := keyed(uuid.NewString())
		made := p.pays(r, p.terms(r, esimPath, body), func(m *payment) { m.Before -= 90 })
		answers := make(chan answer, 1)
		go func() { answers <- p.offers(r.Context(), esimPath, body, made.header(r)) }()
		if i%2 == 0 {
			p.funds(0) // it has it elsewhere
		} else {
			p.cancels(made.authorization)
		}
		a := <-answers
		// Whoever was faster: the payment came first and is delivered, or nothing was.
		if r.used(made.authorization) && i%2 == 0 != (a.status == http.StatusOK) {
			r.Errorf("the payment was used, and the answer is %d %.300s", a.status, a.body)
		}
		thieves = append(thieves, p)
	}
	r.rest()
	delivered := 0
	for _, p := range thieves {
		has := r.has(p)
		if has.Esims != has.Transfers {
			r.Errorf("%+v", has)
		}
		delivered += has.Transfers
	}
	if now := r.goods(); now.Esims-before.Esims != delivered {
		r.Errorf("%d eSIMs for %d payments", now.Esims-before.Esims, delivered)
	}
}

// cancels makes an authorization void on the chain.
func (p *wallet) cancels(a authorization) {
	p.w.t.Helper()
	hash := p.cancelHash(a)
	s := p.sign65(domain("USD Coin", "2", 8453, p.w.books.USDC), hash)
	p.w.transact(p.address, p.w.books.USDC,
		slices.Concat(selector("cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)"),
			common.LeftPadBytes(a.From.Bytes(), 32), a.Nonce[:], number(uint64(s[64])), s[:64]))
}

func topsUpNothing(r *trial) {
	p, q := r.wallet(1000), r.wallet(1000)
	q.owns(r)
	offered := q.terms(r, topupPath, keyed("mine"))
	before, moved := r.goods(), q.moved()
	if a := p.send(r.Context(), http.MethodPost, topupPath, keyed("none"), headerPayment,
		p.pays(r, offered).header(r)); a.status != http.StatusConflict || a.code() != "active_card_missing" {
		r.Errorf("without a card: %d %.300s", a.status, a.body)
	}
	r.nothing(before, p)
	if q.moved() != moved {
		r.Error("the owner of a card has paid")
	}
}
