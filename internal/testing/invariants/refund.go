package invariants

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// sentBackRow is a transfer of which the database lost the order and the refund with a restore: the program has found
// both on the chain. Place is the transfer's, and Reason ends with the transaction of the refund.
type sentBackRow struct{ Place, Reason string }

// refund is the transaction of the refund; nonsense when the row names none.
func (b sentBackRow) refund() string { return lower(b.Reason[strings.LastIndexByte(b.Reason, ' ')+1:]) }

// parsePlace reads TRANSACTION/LOGINDEX.
func parsePlace(text string) place {
	transaction, index, _ := strings.Cut(text, "/")
	n, err := strconv.ParseInt(index, 10, 64)
	if err != nil {
		return place{}
	}
	return place{lower(transaction), n}
}

// arrivedAndBack are the transfers of which a restore has lost the order and the refund.
func (r *records) arrivedAndBack() map[place]bool {
	back := map[place]bool{}
	for _, b := range r.sentBack {
		back[parsePlace(b.Place)] = true
	}
	return back
}

// lostRefunds checks the transfers that were sent back by a refund which no row has, and takes these refunds off the
// payouts.
func (r *records) lostRefunds(payouts map[place]payout) (f findings) {
	credits := r.creditsByPlace()
	for _, b := range r.sentBack {
		credit, arrived := credits[parsePlace(b.Place)]
		sent := false
		for at, back := range payouts {
			if arrived && !sent && at.tx == b.refund() && same(credit.From, back.To) &&
				(credit.Value == back.Value || r.isItsRefund(credit, back)) {
				sent = true
				delete(payouts, at)
			}
		}
		if !sent {
			f.add("the transfer %s is resolved as sent back, and the chain shows no such refund: %s", b.Place, b.Reason)
		}
	}
	return f
}

// isItsRefund reports whether a payout has the nonce of a payment's refund: the SHA-256 of "roamcard refund v2", the
// payer and the payment's nonce. Then it is the refund, whatever the goods were worth when they were given back.
func (r *records) isItsRefund(credit transfer, back payout) bool {
	uses := r.usesByNonce()
	for _, u := range r.chain.used {
		if !same(u.Transaction, credit.Transaction) || u.LogIndex+1 != credit.LogIndex || !same(u.Payer, credit.From) {
			continue
		}
		of, err := hex.DecodeString(strings.TrimPrefix(u.Payer, "0x") + strings.TrimPrefix(u.Nonce, "0x"))
		if err != nil {
			continue
		}
		nonce := sha256.Sum256(append([]byte("roamcard refund v2"), of...))
		for _, by := range uses[[2]string{lower(back.From), "0x" + hex.EncodeToString(nonce[:])}] {
			if same(by.Transaction, back.Transaction) {
				return true
			}
		}
	}
	return false
}

// refundsAreProven follows every refund from its row to the chain and to the order, and back.
func refundsAreProven(r *records) []string {
	var f findings
	orders, uses := r.ordersByID(), r.usesByNonce()
	payouts := map[place]payout{}
	for _, p := range r.chain.payouts {
		payouts[place{lower(p.Transaction), p.LogIndex}] = p
	}
	refunds, nonces := map[string]refundRow{}, map[[2]string]string{}
	for _, b := range r.refunds {
		if _, twice := refunds[b.Order]; twice {
			f.add("order %s has two refunds", b.Order)
		}
		refunds[b.Order] = b
		nonce := [2]string{lower(b.Treasury), lower(b.Nonce)}
		if other, taken := nonces[nonce]; taken {
			f.add("refunds %s and %s share a nonce", other, b.ID)
		}
		nonces[nonce] = b.ID
		proof := uses[nonce]
		at, proven := b.place()
		switch out, there := payouts[at]; {
		case b.Status == "paid" && len(proof) != 1:
			f.add("refund %s is paid, its authorization is used %d times on chain", b.ID, len(proof))
		case b.Status == "paid" && (!proven || !there || !same(proof[0].Transaction, out.Transaction)):
			f.add("refund %s is paid, and the chain shows no transfer where it says", b.ID)
		case b.Status == "paid" && (out.Value != b.Value || !same(out.To, b.Recipient) || !same(out.From, b.Treasury)):
			f.add("refund %s is of %d to %s, the chain shows %d to %s", b.ID, b.Value, b.Recipient, out.Value, out.To)
		case b.Status != "paid" && len(proof) > 0:
			f.add("refund %s is %s, but the chain moved its money in %s", b.ID, b.Status, proof[0].Transaction)
		}
		delete(payouts, at)
	}
	f = append(f, r.lostRefunds(payouts)...)
	for _, p := range payouts {
		if r.treasuries[lower(p.From)] {
			f.add("the treasury paid %d to %s in %s, which no refund records", p.Value, p.To, p.Transaction)
		}
	}
	closings, cancels := r.closingsByOrder(), r.cancelsByOrder()
	for _, o := range orders {
		if cancels[o.ID].granted() {
			continue // the refund is of what the supplier credited for the order's eSIM, see I27
		}
		if c, closing := closings[o.ID]; closing && c.LeftCents > 0 {
			continue // the refund is of what was left on the order's card, see I26
		}
		if b, ok := refunds[o.ID]; (ok && b.Status == "paid") != (o.Status == "refunded") {
			f.add("order %s is %s, its refund is %q", o.ID, o.Status, b.Status)
		}
	}
	return f
}

// refundsMatchPayments: no more comes back than was paid, and to nobody else. What was left on a card may be more than
// the card cost: what was paid for its top-ups is in it, and its fee where that was written off.
func refundsMatchPayments(r *records) []string {
	var f findings
	paid, closings, orders := group(r.paidPayments(), func(p paymentRow) string { return p.Order }), r.closingsByOrder(),
		r.ordersByID()
	cancels, loaded, given := r.cancelsByOrder(), map[string]int64{}, map[string]bool{}
	fees := r.feesByJob()
	for _, j := range r.jobs {
		given[j.UniqueKey] = given[j.UniqueKey] || fees[j.ID].WrittenOff
	}
	for _, o := range r.orders {
		if o.Kind == "card_topup" && o.Status == "fulfilled" {
			loaded[o.Card] += creditOf(o.PriceCents) * unitsPerCent
		}
	}
	for _, b := range r.refunds {
		payments, most := paid[b.Order], int64(0)
		if len(payments) > 0 {
			most = payments[0].Value
		}
		if c, closing := closings[b.Order]; closing {
			if most += loaded[c.Card]; !given[c.Card] {
				most -= feeCents * unitsPerCent
			}
			if b.Value != c.LeftCents*unitsPerCent || orders[b.Order].Status != "fulfilled" {
				f.add("refund %s is of %d, and %d cents were left on card %s", b.ID, b.Value, c.LeftCents, c.Card)
			}
		}
		if c, cancelling := cancels[b.Order]; cancelling {
			if b.Value != c.Refund || orders[b.Order].Status != "fulfilled" {
				f.add("refund %s is of %d, and %d goes back for the eSIM of order %s", b.ID, b.Value, c.Refund, c.Order)
			}
		}
		switch {
		case len(payments) != 1:
			f.add("refund %s is of order %s, which has %d proven payments", b.ID, b.Order, len(payments))
		case b.Value > most:
			f.add("refund %s is of %d, %d was paid", b.ID, b.Value, most)
		case !same(b.Recipient, payments[0].Payer) || !same(b.Asset, payments[0].Asset):
			f.add("refund %s goes to %s, %s paid", b.ID, b.Recipient, payments[0].Payer)
		}
	}
	return f
}

// refundedIsNotDelivered looks into the issuer's books: what is refunded is not there, unless an operator
// decided so. Loads of refunded top-ups are the tenth rule's to find.
func refundedIsNotDelivered(r *records) []string {
	var f findings
	orders, decided := r.ordersByID(), map[string]bool{}
	for _, m := range r.moves {
		if m.To == "refund_pending" && strings.HasPrefix(m.Actor, "operator:") {
			decided[m.Order] = true
		}
	}
	cards := r.cardsByReference()
	for _, a := range r.issuer.Cards {
		c, ours := cards[lower(a.Reference)]
		// A card that nothing was ever loaded on costs its issuer a row, and nobody was told of it.
		if ours && a.live() && a.LoadCents > 0 && orders[c.Order].Status == "refunded" && !decided[c.Order] {
			f.add("order %s is refunded, and the issuer has its card %s", c.Order, a.ID)
		}
	}
	return f
}

// place is where an event stands.
type place struct {
	tx    string
	index int64
}

// place is where the refund says that its transfer stands.
func (b refundRow) place() (place, bool) {
	if b.Transaction == nil || b.LogIndex == nil {
		return place{}, false
	}
	return place{lower(*b.Transaction), *b.LogIndex}, true
}

// creditsByPlace are the transfers to who is paid by where they are.
func (r *records) creditsByPlace() map[place]transfer {
	credits := map[place]transfer{}
	for _, c := range r.chain.credits {
		credits[place{lower(c.Transaction), c.LogIndex}] = c
	}
	return credits
}

// usesByNonce sorts the used authorizations by payer and nonce.
func (r *records) usesByNonce() map[[2]string][]use {
	return group(r.chain.used, func(u use) [2]string { return [2]string{lower(u.Payer), lower(u.Nonce)} })
}
