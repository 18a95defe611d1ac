package invariants

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestGoodBooksBreakNothing(t *testing.T) {
	closed, cancelled, asking, kept, approved := good(), good(), good(), good(), good()
	approvedRefund(approved)
	closeCard(closed)
	cancelEsim(cancelled)
	sellEsim(asking)
	asking.supplier.Esims[0].Status = "cancelled" // its answer is lost
	asking.cancels = []cancelRow{{"job_y", "ord_e", "profile_e", "operator_review", "cancelling", 0, 0, ""}}
	sellEsim(kept)
	kept.cancels = []cancelRow{{"job_y", "ord_e", "profile_e", "succeeded", "kept", 0, 0, ""}}
	sent := good()
	cancelEsim(sent)
	refundByHand(sent, bob)
	proven := good()
	signed(proven)
	unloaded := good()
	unloaded.cards[1].Status, unloaded.issuer.Cards[1].Status, unloaded.issuer.Cards[1].LoadCents = "PENDING", "live", 0
	for _, r := range []*records{good(), closed, cancelled, asking, kept, approved, sent, proven, unloaded} {
		for _, v := range r.check() {
			t.Error(v)
		}
	}
}

// approvedRefund makes Dora's refund one that two operators have decided.
func approvedRefund(r *records) {
	r.secondAbove = 2499
	r.moves[13].To = "operator_review"
	r.moves = slices.Insert(r.moves, 14, moveRow{"ord_d", 5, "operator_review", "refund_pending", "operator:ann"})
	r.moves[15].Version = 6
	r.orders[3].Version = 6
	r.audit = append(r.audit, auditRow{"ann", "order.decide", "ord_d", "never delivered", "k2"})
	r.approvals = []approvalRow{{
		"apr_d", "order.refund", "ord_d", "approved", "ann", "ben", 2500, noon.Add(time.Hour), noon.Add(time.Minute),
	}}
}

// corruptClosings are closings of cards that did not happen as they are recorded.
var corruptClosings = corruptions{
	"a closed card that is live": {func(r *records) {
		closeCard(r)
		r.issuer.Cards[0].Status = "locked"
	}, []string{"I26"}},
	"a remainder that was withdrawn twice": {func(r *records) {
		closeCard(r)
		r.issuer.Movements = append(r.issuer.Movements, issuerMove{"mov_3", "ref-x", "crd_1", "out", 1400, "done"})
	}, []string{"I6", "I26"}},
	"a remainder that was refunded and never withdrawn": {func(r *records) {
		closeCard(r)
		r.issuer.Movements = r.issuer.Movements[:1]
	}, []string{"I26"}},
	"a refund before the withdrawal": {func(r *records) {
		closeCard(r)
		r.closings[0].Stage, r.closings[0].Status = "withdrawing", "operator_review"
		r.issuer.Movements = r.issuer.Movements[:1]
	}, []string{"I10", "I26"}},
	"a remainder that was never refunded": {func(r *records) {
		closeCard(r)
		r.refunds, r.chain.payouts, r.chain.used = r.refunds[:1], r.chain.payouts[:1], r.chain.used[:4]
	}, []string{"I26"}},
	"a refund of more than was left": {func(r *records) {
		closeCard(r)
		r.refunds[1].Value++
		r.chain.payouts[1].Value++
	}, []string{"I9", "I26"}},
	"a refund of more than was ever paid": {func(r *records) {
		closeCard(r)
		r.closings[0].LeftCents, r.issuer.Movements[1].AmountCents = 1600, 1600
		r.refunds[1].Value, r.chain.payouts[1].Value = 16_000_000, 16_000_000
	}, []string{"I9", "I10"}},
	"a closing that nobody works on": {func(r *records) {
		closeCard(r)
		r.closings[0].Status = "queued"
	}, []string{"I26"}},
	"a remainder that is not in the ledger": {func(r *records) {
		closeCard(r)
		r.entries, r.postings = r.entries[:len(r.entries)-6], r.postings[:len(r.postings)-2]
	}, []string{"I10"}},
}

// corruptEsimTopups are top-ups of eSIMs that did not happen as they are recorded.
var corruptEsimTopups = corruptions{
	"a top-up": {topUpEsim, nil},
	"a top-up that the supplier does not have": {func(r *records) {
		topUpEsim(r)
		r.supplier.Topups = nil
	}, []string{"I10", "I28"}},
	"a top-up on another eSIM": {func(r *records) {
		topUpEsim(r)
		r.supplier.Topups[0].Onto = "esm_9"
	}, []string{"I28"}},
	"two top-ups for one order": {func(r *records) {
		topUpEsim(r)
		r.topups = append(r.topups, topupRow{"topup_u", "ord_t", "profile_e", "failed", "ref-u", ""})
		r.supplier.Topups = append(r.supplier.Topups,
			supplierEsim{"esm_3", "ref-u", "released", 2_000_000, "pln", "esm_1"})
	}, []string{"I28"}},
	"a top-up of a cancelled eSIM": {func(r *records) {
		topUpEsim(r)
		r.profiles[0].Status = "cancelled"
	}, []string{"I8", "I27", "I28"}},
	"a top-up that nobody paid for": {func(r *records) {
		topUpEsim(r)
		r.supplier.Topups = append(r.supplier.Topups,
			supplierEsim{"esm_3", "ref-u", "released", 2_000_000, "pln", "esm_1"})
	}, []string{"I28"}},
}

// corruptCancels are cancellations of eSIMs that did not happen as they are recorded.
var corruptCancels = corruptions{
	"a cancelled eSIM that the supplier still has out": {func(r *records) {
		cancelEsim(r)
		r.supplier.Esims[0].Status = "released"
	}, []string{"I27"}},
	"a refund before the supplier's grant": {func(r *records) {
		cancelEsim(r)
		r.cancels[0].Stage, r.cancels[0].Status, r.cancels[0].Credit, r.cancels[0].Refund = "cancelling", "operator_review",
			0, 0
		r.profiles[0].Status, r.supplier.Esims[0].Status = "ready", "released"
	}, []string{"I9", "I10", "I27"}},
	"a cancelled eSIM that was never refunded": {func(r *records) {
		cancelEsim(r)
		r.refunds, r.chain.payouts, r.chain.used = r.refunds[:1], r.chain.payouts[:1], r.chain.used[:5]
	}, []string{"I27"}},
	"a refund by hand that the chain does not show": {func(r *records) {
		cancelEsim(r)
		refundByHand(r, alice)
	}, []string{"I27"}},
	"a refund by hand and one of the treasury": {func(r *records) {
		cancelEsim(r)
		r.cancels[0].ByHand = "0xf9"
		r.chain.byHand = []payout{{"0xf9", 3, shop, bob, 4_000_000}}
	}, []string{"I27"}},
	"a refund by hand of two orders": {func(r *records) {
		cancelEsim(r)
		refundByHand(r, bob)
		r.closings = append(r.closings, closingRow{Job: "job_z", ByHand: "0xF9", Status: "succeeded", Stage: "closed"})
	}, []string{"I26", "I27"}},
	"a refund of more than the supplier credited": {func(r *records) {
		cancelEsim(r)
		r.refunds[1].Value++
		r.chain.payouts[1].Value++
	}, []string{"I9", "I27"}},
	"a second refund of an eSIM": {func(r *records) {
		cancelEsim(r)
		r.chain.payouts = append(r.chain.payouts, payout{"0xf3", 7, bank, bob, 4_000_000})
	}, []string{"I9"}},
	"a credit of more than the eSIM cost": {func(r *records) {
		cancelEsim(r)
		r.supplier.Esims[0].Cost--
	}, []string{"I10", "I27"}},
	"a cancelled profile that nobody gave back": {func(r *records) {
		sellEsim(r)
		r.profiles[0].Status, r.supplier.Esims[0].Status = "cancelled", "cancelled"
	}, []string{"I8", "I27"}},
	"an eSIM that was refused and is gone": {func(r *records) {
		cancelEsim(r)
		r.cancels[0].Stage = "kept"
	}, []string{"I8", "I9", "I10", "I27"}},
	"a cancellation that nobody works on": {func(r *records) {
		cancelEsim(r)
		r.cancels[0].Status = "queued"
	}, []string{"I27"}},
	"a credit that is not in the ledger": {func(r *records) {
		cancelEsim(r)
		r.entries, r.postings = r.entries[:len(r.entries)-6], r.postings[:len(r.postings)-2]
	}, []string{"I10"}},
}

// The test corrupts a copy of good books in every way, and expects the invariants named, and no others.
func TestEveryCheckFires(t *testing.T) {
	fired := map[string]bool{}
	for _, group := range []corruptions{
		corruptPayments, corruptDeliveries, corruptRefunds, corruptAmounts, corruptRecords, corruptTransactions,
		corruptTopups, corruptOutages, corruptPostings, corruptUnmatched, corruptClosings, corruptCancels, corruptEsimTopups,
		corruptReceipts,
	} {
		for name, tt := range group {
			t.Run(name, func(t *testing.T) {
				r := good()
				tt.corrupt(r)
				var got []string
				for _, v := range r.check() {
					got = append(got, v.ID)
					fired[v.ID] = true
					t.Log(v)
				}
				got = slices.Compact(got)
				if !slices.Equal(got, tt.want) {
					t.Errorf("broken: %v, want %v", got, tt.want)
				}
			})
		}
	}
	for _, inv := range invariants() {
		if !fired[inv.id] {
			t.Errorf("%s never fires", inv.id)
		}
	}
}

// corruptions are ways to corrupt good books, with the invariants that must notice each.
type corruptions map[string]struct {
	corrupt func(*records)
	want    []string
}

// corruptPayments are payments that the chain does not show, or shows otherwise.
var corruptPayments = corruptions{
	"a credit nobody bought with": {func(r *records) {
		r.chain.credits = append(r.chain.credits, transfer{"0xdd", 1, bob, 5})
	}, []string{"I1"}},
	"a credit of another amount": {func(r *records) { r.chain.credits[0].Value-- }, []string{"I1"}},
	"a payment nobody made": {func(r *records) {
		r.chain.credits, r.chain.used = r.chain.credits[1:], r.chain.used[1:]
	}, []string{"I1", "I2", "I5", "I18", "I29"}},
	"an authorization in two payments": {func(r *records) {
		p := r.payments[1]
		p.ID, p.Nonce, p.Payer, p.Order = "pay_x", r.payments[0].Nonce, "0xA11CE00000000000000000000000000000000001", "ord_a"
		r.payments = append(r.payments, p)
	}, []string{"I2"}},
	"a dead payment that moved": {func(r *records) {
		r.chain.used = append(r.chain.used, use{"0xb2", 6, bob, "0x0b"})
		r.chain.credits = append(r.chain.credits, transfer{"0xb2", 7, bob, 25_000_000})
	}, []string{"I1", "I2", "I29"}},
	"an order paid and not marked so": {func(r *records) {
		r.orders[0].Status = "payment_required"
		r.moves[3].To = "payment_required"
	}, []string{"I2", "I14", "I18"}},
	"two authorizations on their way": {func(r *records) {
		r.payments = append(r.payments, paymentRow{
			"pay_x", "ord_a", "claimed", usdc, alice, shop, 25_000_000, "0x1a", nil, nil, noon,
		})
		r.transactions = append(r.transactions, transactionRow{
			"att_x", relay, 5, "open", []string{"0xee"}, noon, []string{"pay_x"}, []string{"open"}})
	}, []string{"I3", "I8"}},
	"two orders for one purchase": {func(r *records) {
		o := r.orders[1]
		o.ID = "ord_b2"
		r.orders = append(r.orders, o)
	}, []string{"I3"}},
	"a paid order without a job":    {func(r *records) { r.jobs = r.jobs[1:] }, []string{"I4"}},
	"a payment that nobody follows": {func(r *records) { r.jobs = slices.Delete(r.jobs, 3, 4) }, []string{"I4"}},
	"a paid order that never settled": {
		func(r *records) { r.moves[1].To = "payment_required"; r.moves[2].From = "payment_required" }, []string{"I4", "I14"},
	},
	"a card nobody paid for": {func(r *records) {
		r.issuer.Cards = append(r.issuer.Cards, issuerCard{"crd_9", "ref-z", "live", 2500, 2500, ""})
	}, []string{"I5"}},
	"a movement nobody paid for": {func(r *records) {
		r.issuer.Movements = append(r.issuer.Movements, issuerMove{"mov_9", "ref-z", "crd_9", "in", 2500, "queued"})
	}, []string{"I5"}},
}

// corruptDeliveries are goods delivered twice, to nobody or not at all.
var corruptDeliveries = corruptions{
	"a reference executed twice": {func(r *records) { r.issuer.Executed["ref-a"] = 2 }, []string{"I6"}},
	"a reference booked twice": {func(r *records) {
		r.issuer.Cards = append(r.issuer.Cards, issuerCard{"crd_3", "ref-c", "declined", 2500, 0, ""})
	}, []string{"I6"}},
	"two live cards": {func(r *records) {
		r.cards = append(r.cards, cardRow{"card_x", "ord_a", alice, "PENDING", "ref-x", "", 2500})
	}, []string{"I7", "I8"}},
	"two live cards at the issuer": {func(r *records) {
		r.cards = append(r.cards, cardRow{"card_x", "ord_a", alice, "CLOSED", "ref-x", "", 2500})
		r.issuer.Cards = append(r.issuer.Cards, issuerCard{"crd_3", "ref-x", "live", 2500, 0, ""})
	}, []string{"I7", "I8", "I10"}},
	"a stuck order": {func(r *records) {
		r.orders[0].Status, r.orders[0].Version = "provisioning", 3
		r.moves = slices.Delete(r.moves, 3, 4)
		r.reservations[0].Released = false
	}, []string{"I8"}},
	"a fulfilled order without a card": {func(r *records) { r.cards[0].Account = "" }, []string{"I8"}},
	"an undecided payment":             {func(r *records) { r.payments[1].Status = "claimed" }, []string{"I8", "I13"}},
}

// corruptRefunds are refunds that were not sent, not due or not recorded.
var corruptRefunds = corruptions{
	"fulfilled and refunded": {func(r *records) {
		r.orders[0].Status, r.orders[0].Version = "refunded", 5
		r.moves = append(r.moves, moveRow{"ord_a", 5, "fulfilled", "refunded", "worker"})
	}, []string{"I4", "I9", "I10", "I14"}},
	"a refund nobody recorded": {func(r *records) {
		r.chain.payouts = append(r.chain.payouts, payout{"0xd3", 1, bank, dora, 25_000_000})
	}, []string{"I9"}},
	"a refund that never moved": {func(r *records) {
		r.chain.payouts, r.chain.used = nil, r.chain.used[:3]
	}, []string{"I9", "I29"}},
	"an operator's large refund": {func(r *records) {
		approvedRefund(r)
		r.approvals = nil
	}, []string{"I9"}},
	"an approval of somebody else's decision": {func(r *records) {
		approvedRefund(r)
		r.approvals[0].Asked = "eve"
	}, []string{"I9"}},
	"an approval of the opposite": {func(r *records) {
		approvedRefund(r)
		r.approvals[0].Action = "order.fulfill"
	}, []string{"I9"}},
	"a delivery by hand that nobody approved": {func(r *records) {
		r.secondAbove = 2499
		for i, m := range r.moves {
			if m.To == "fulfilled" {
				r.moves[i].From, r.moves[i].Actor = "operator_review", "operator:ann"
				break
			}
		}
	}, []string{"I9", "I14", "I22"}},
	"an approval by who asked": {func(r *records) {
		approvedRefund(r)
		r.approvals[0].Approved = "ann"
	}, []string{"I9"}},
	"an approval after its time": {func(r *records) {
		approvedRefund(r)
		r.approvals[0].Decided = noon.Add(time.Hour)
	}, []string{"I9"}},
	"an approval that was rejected": {func(r *records) {
		approvedRefund(r)
		r.approvals[0].Status = "rejected"
	}, []string{"I9"}},
	"a refund of another amount": {func(r *records) { r.chain.payouts[0].Value-- }, []string{"I9"}},
	"a refund to somebody else":  {func(r *records) { r.chain.payouts[0].To = bob }, []string{"I9"}},
	"more refunded than paid": {func(r *records) {
		r.refunds[0].Value, r.chain.payouts[0].Value = 26_000_000, 26_000_000
	}, []string{"I9"}},
	"a refund for who did not pay": {func(r *records) {
		r.refunds[0].Recipient, r.chain.payouts[0].To = bob, bob
	}, []string{"I9"}},
	"two refunds of one order": {func(r *records) {
		b := r.refunds[0]
		b.ID, b.Nonce, b.Status, b.Transaction, b.LogIndex = "ref_x", "0x2e", "dead", nil, nil
		r.refunds = append([]refundRow{b}, r.refunds...)
	}, []string{"I9"}},
	"a dead refund that moved": {func(r *records) {
		r.refunds[0].Status, r.refunds[0].Transaction, r.refunds[0].LogIndex = "dead", nil, nil
	}, []string{"I9"}},
	"a refund of an order that waits": {func(r *records) {
		tx, at := "0xd4", int64(7)
		r.refunds = append(r.refunds, refundRow{"ref_c", "ord_c", "paid", usdc, bank, carol, 25_000_000, "0x2c", &tx, &at})
		r.chain.payouts = append(r.chain.payouts, payout{"0xd4", 7, bank, carol, 25_000_000})
		r.chain.used = append(r.chain.used, use{"0xd4", 6, bank, "0x2c"})
	}, []string{"I9"}},
	"refunded and at the issuer all the same": {func(r *records) { r.issuer.Cards[2].Status = "live" }, []string{"I9"}},
	"a refund nobody follows":                 {func(r *records) { r.jobs = r.jobs[:len(r.jobs)-1] }, []string{"I4"}},
	"a refunded top-up that was loaded": {func(r *records) {
		r.orders[3].Kind = "card_topup"
		r.cards[2] = cardRow{"card_d", "ord_d", dora, "FAILED", "ref-d", "crd_3", 2500}
		r.issuer.Movements = append(r.issuer.Movements, issuerMove{"mov_2", "ref-l", "crd_3", "in", 2450, "done"})
	}, []string{"I10"}},
}

// corruptAmounts are loads, fees and payments of another amount.
var corruptAmounts = corruptions{
	"a card opened without its fee, which is withdrawn all the same": {func(r *records) {
		r.fees = []feeRow{{Job: "job_f", Kept: true}}
		r.cards[0].LoadCents, r.issuer.Cards[0].LoadCents = 1500, 1500
	}, []string{"I16"}},
	"a fee that is owed, and posted as withdrawn": {func(r *records) {
		r.fees = []feeRow{{Job: "job_f", Owed: true}}
		r.jobs[5].Status, r.issuer.Movements[0].Status = "failed", "declined"
	}, []string{"I10"}},
	"a load of another amount": {func(r *records) { r.issuer.Cards[0].LoadCents = 5000 }, []string{"I10"}},
	"a fee of another amount":  {func(r *records) { r.issuer.Movements[0].AmountCents = 1500 }, []string{"I10"}},
	"a payment of another amount": {func(r *records) {
		r.payments[0].Value, r.chain.credits[0].Value = 24_999_999, 24_999_999
	}, []string{"I10"}},
}

// corruptRecords are owners, answers, moves, jobs and reservations that contradict each other.
var corruptRecords = corruptions{
	"a row of another owner":  {func(r *records) { r.owned[2].Owner = bob }, []string{"I25"}},
	"a row without its owner": {func(r *records) { r.owned[4].Owner = "" }, []string{"I25"}},
	"a row whose owner is written in another way": {func(r *records) {
		r.owned[0].Owner = strings.ToUpper(alice)
	}, []string{"I25"}},
	"a row of an order that is not there": {func(r *records) { r.owned[0].Order = "ord_x" }, []string{"I25"}},
	"an owner without an order":           {func(r *records) { r.owned[3].Owner = alice }, []string{"I25"}},
	"an order of somebody else":           {func(r *records) { r.orders[1].Owner = alice }, []string{"I11"}},
	"a card of somebody else":             {func(r *records) { r.cards[1].Owner = bob }, []string{"I11"}},
	"a payment to somebody else":          {func(r *records) { r.payments[1].PayTo = bob }, []string{"I11"}},
	"two answers that differ":             {func(r *records) { r.answers[2].Amount = "1" }, []string{"I12"}},
	"a challenge after the broadcast": {
		func(r *records) { r.answers[1].Status = http.StatusPaymentRequired }, []string{"I13"},
	},
	"a move that is not in the graph": {
		func(r *records) { r.moves[3].From = "settling"; r.moves[2].To = "settling" }, []string{"I14"},
	},
	"a lost move":             {func(r *records) { r.moves = slices.Delete(r.moves, 2, 3) }, []string{"I14"}},
	"a status without a move": {func(r *records) { r.orders[0].Version = 5 }, []string{"I14"}},
	"review left by no operator": {func(r *records) {
		r.orders[2].Status, r.orders[2].Version = "fulfilled", 5
		r.moves = append(r.moves, moveRow{"ord_c", 5, "operator_review", "fulfilled", "worker"})
		r.reservations[2].Released = true
	}, []string{"I8", "I14"}},
	"a challenge used too late": {
		func(r *records) { late := noon.Add(time.Hour); r.challenges[0].ConsumedAt = &late }, []string{"I15"},
	},
	"two fees": {func(r *records) {
		r.issuer.Movements = append(r.issuer.Movements, issuerMove{"mov_2", "ref-g", "crd_1", "out", 1000, "done"})
	}, []string{"I16"}},
	"a fee that was never taken": {
		func(r *records) { r.issuer.Movements[0].Status = "declined" }, []string{"I16"},
	},
	"a fee the job does not know": {func(r *records) { r.jobs[5].Status = "failed" }, []string{"I10", "I16"}},
	"no fee job": {
		func(r *records) { r.jobs = slices.Delete(r.jobs, 5, 6) }, []string{"I10", "I16"},
	},
	"a reservation of an order that has ended": {func(r *records) { r.reservations[0].Released = false }, []string{"I17"}},
	"an overdrawn float":                       {func(r *records) { r.issuer.FloatCents = -1 }, []string{"I17"}},
	"an order that a buyer saw is gone": {
		func(r *records) { r.answers[2].OrderID, r.answers[3].OrderID = "ord_z", "ord_z" }, []string{"I18"},
	},
	"a transaction that was never booked": {
		func(r *records) { r.answers[2].Transaction, r.answers[3].Transaction = "0xcc", "0xcc" }, []string{"I18"},
	},
	"a lease on a finished job": {func(r *records) { r.jobs[0].Leased = true }, []string{"I19"}},
	"two open jobs for one order": {func(r *records) {
		r.jobs = append(r.jobs, jobRow{"job_x", fulfillJob, "x", "ord_a", "queued", 1, 0, false}, jobRow{
			"job_y", fulfillJob, "y", "ord_a", "queued", 1, 0, false,
		})
	}, []string{"I19"}},
}

// corruptTransactions are transactions of the relayers, and acts of operators, that are not recorded.
var corruptTransactions = corruptions{
	"a gap in the nonces": {func(r *records) {
		r.transactions[2].Nonce = 3
		r.chain.included["0xcc"] = inclusion{relay, 3}
		r.chain.sent[relay] = 4
	}, []string{"I21"}},
	"a nonce used twice": {func(r *records) {
		r.transactions[2].Nonce = 1
		r.chain.included["0xcc"] = inclusion{relay, 1}
		r.chain.sent[relay] = 2
	}, []string{"I21"}},
	"a transaction nobody recorded": {func(r *records) { r.chain.sent[relay] = 6 }, []string{"I21"}},
	"a transaction nobody stored":   {func(r *records) { r.transactions = r.transactions[1:] }, []string{"I21"}},
	"a transaction that only another relayer's restore has lost": {
		func(r *records) {
			r.lost = []Gap{{Relayer: "0x00000000000000000000000000000000000000aa", To: 99}}
			r.transactions = r.transactions[1:]
		},
		[]string{"I21"},
	},
	"a payment in two open transactions": {func(r *records) {
		r.transactions[3].Status, r.transactions[3].Payments = "open", []string{"pay_d", "pay_c"}
		r.transactions[3].Ends = []string{"open", "open"}
	}, []string{"I29"}},
	"a member that is open still": {func(r *records) { r.transactions[3].Ends[0] = "open" }, []string{"I29"}},
	"a member closed without a transfer": {func(r *records) {
		r.transactions[3].Payments, r.transactions[3].Ends = []string{"pay_d", "pay_b"}, []string{"closed", "closed"}
	}, []string{"I29"}},
	"a member given up that was moved": {func(r *records) { r.transactions[3].Ends[0] = "reverted" }, []string{"I29"}},
	"a transaction without members":    {func(r *records) { r.transactions[3].Payments = nil }, []string{"I29"}},
	"both variants in blocks": {
		func(r *records) { r.chain.included["0xb1"] = inclusion{relay, 1} }, []string{"I21"},
	},
	"an operator's act unaudited": {func(r *records) {
		r.orders[2].Status, r.orders[2].Version, r.reservations[2].Released = "fulfilled", 5, true
		r.moves = append(r.moves, moveRow{"ord_c", 5, "operator_review", "fulfilled", "operator:ann"})
	}, []string{"I22"}},
	"an audit row without a reason": {func(r *records) { r.audit[0].Reason = "" }, []string{"I22"}},
	"a retry unaudited":             {func(r *records) { r.audit = nil }, []string{"I22"}},
}

// corruptTopups are top-ups that nobody paid for or that were not loaded.
var corruptTopups = corruptions{
	"a load nobody paid for": {func(r *records) {
		r.issuer.Movements = append(r.issuer.Movements, issuerMove{"mov_2", "ref-l", "crd_1", "in", 2450, "done"})
	}, []string{"I10"}},
	"a top-up without its load": {func(r *records) {
		tx, at := "0xdd", int64(7)
		r.orders = append(r.orders, orderRow{"ord_t", "card_topup", "fulfilled", alice, "key-t", 5000, 1, "card_a"})
		r.payments = append(r.payments, paymentRow{
			"pay_t", "ord_t", "paid", usdc, alice, shop, 50_000_000, "0x0d", &tx, &at, noon,
		})
		r.chain.credits = append(r.chain.credits, transfer{"0xdd", 7, alice, 50_000_000})
		r.chain.used = append(r.chain.used, use{"0xdd", 6, alice, "0x0d"})
		r.moves = append(r.moves, moveRow{"ord_t", 1, "settling", "settled", "worker"})
		r.orders[len(r.orders)-1].Status = "fulfilled"
		r.moves = append(r.moves, moveRow{"ord_t", 2, "settled", "provisioning", "worker"}, moveRow{
			"ord_t", 3, "provisioning", "fulfilled", "worker",
		})
		r.orders[len(r.orders)-1].Version = 3
		r.jobs = append(r.jobs, jobRow{"job_t2", fulfillJob, "pay_t", "ord_t", "succeeded", 1, 1, false},
			jobRow{"job_kt", confirmJob, "pay_t", "ord_t", "succeeded", 1, 1, false})
		r.posted("settled", "ord_t", entryRow{"", "treasury:usdc", 50_000_000}, entryRow{"", "customer:ord_t", -50_000_000})
		r.posted("loaded", "ord_t", entryRow{"", "issuer:float", -49_000_000}, entryRow{"", "card:card_a", 49_000_000},
			entryRow{"", "customer:ord_t", 49_000_000}, entryRow{"", "holder:card_a", -49_000_000})
		r.posted("load_fee", "ord_t", entryRow{"", "customer:ord_t", 1_000_000}, entryRow{
			"", "revenue:load_fee", -1_000_000,
		})
	}, []string{"I10"}},
}

// corruptOutages are purchases answered while the issuer was down.
var corruptOutages = corruptions{
	"a sale while the issuer was down": {func(r *records) {
		r.down = []Span{{noon.Add(-time.Minute), noon.Add(time.Second)}}
		r.answers = r.answers[1:]
	}, []string{"I24"}},
	"a new purchase answered while the issuer was down": {func(r *records) {
		r.down = []Span{{noon.Add(time.Hour), noon.Add(2 * time.Hour)}}
		r.answers = append(r.answers, Answer{
			carol, "key-new", true, http.StatusPaymentRequired, "", "", "", noon.Add(90 * time.Minute),
		})
	}, []string{"I24"}},
}

// corruptPostings are postings that do not balance or do not say what happened.
var corruptPostings = corruptions{
	"a paid order without its posting": {func(r *records) {
		r.postings, r.entries = r.postings[:3], r.entries[:10]
	}, []string{"I4", "I10"}},
	"a posting that does not balance": {func(r *records) { r.entries[0].Amount++ }, []string{"I10"}},
	"a posting without entries":       {func(r *records) { r.entries = r.entries[:10] }, []string{"I10"}},
	"entries without a posting": {
		func(r *records) { r.entries = append(r.entries, entryRow{"x", "a", 1}, entryRow{"x", "b", -1}) }, []string{"I10"},
	},
	"a load that was not posted": {func(r *records) {
		r.postings = slices.Delete(r.postings, 1, 2)
		r.entries = slices.Delete(r.entries, 2, 6)
	}, []string{"I10"}},
	"a fee that was not posted": {func(r *records) {
		r.postings = slices.Delete(r.postings, 2, 3)
		r.entries = slices.Delete(r.entries, 6, 10)
	}, []string{"I10"}},
	"an eSIM": {func(r *records) { sellEsim(r) }, nil},
	"an eSIM whose sale was not posted": {
		func(r *records) { sellEsim(r); r.entries = r.entries[:len(r.entries)-2] }, []string{"I10"},
	},
	"an eSIM posted at another cost": {func(r *records) { sellEsim(r); r.supplier.Esims[0].Cost++ }, []string{"I10"}},
	"an eSIM that is not the buyer's yet": {func(r *records) {
		sellEsim(r)
		r.orders[4].Status = "operator_review"
		r.moves[len(r.moves)-1].To = "operator_review"
	}, []string{"I10"}},
}

// corruptUnmatched are postings of money that belongs to no purchase.
var corruptUnmatched = corruptions{
	"an unmatched transfer nobody sent": {func(r *records) { postUnmatched(r, "0xdd/1", 5) }, []string{"I20"}},
	"a payment posted as unmatched":     {func(r *records) { postUnmatched(r, "0xaa/7", 25_000_000) }, []string{"I20"}},
	"an unmatched transfer of another amount": {func(r *records) {
		r.chain.credits, r.unmatched = append(r.chain.credits, transfer{"0xdd", 1, bob, 5}), 5
		postUnmatched(r, "0xdd/1", 6)
	}, []string{"I20"}},
	"an unmatched transfer posted twice": {func(r *records) {
		r.chain.credits, r.unmatched = append(r.chain.credits, transfer{"0xdd", 1, bob, 5}), 5
		postUnmatched(r, "0xdd/1", 5)
		postUnmatched(r, "0xDD/1", 5)
	}, []string{"I20"}},
	"an unmatched transfer that an operator resolved": {func(r *records) { resolveUnmatched(r, 5, "treasury:usdc") }, nil},
	"an unmatched transfer that was given": {
		func(r *records) { resolveUnmatched(r, 5, "revenue:donation") }, nil,
	},
	"an unmatched transfer resolved for more": {
		func(r *records) { resolveUnmatched(r, 6, "treasury:usdc") }, []string{"I20"},
	},
	"an unmatched transfer resolved that never came": {func(r *records) {
		resolveUnmatched(r, 5, "treasury:usdc")
		r.postings[len(r.postings)-1].ID = "resolved/0xdd/2"
		r.entries[len(r.entries)-1].Posting, r.entries[len(r.entries)-2].Posting = "resolved/0xdd/2", "resolved/0xdd/2"
	}, []string{"I20"}},
	"a posting that says something else": {func(r *records) { r.postings[1].Order = "ord_c" }, []string{"I20"}},
	"an act audited twice":               {func(r *records) { r.audit = append(r.audit, r.audit[0]) }, []string{"I22"}},
}

func TestUnmatchedMoneyIsExpectedToTheCent(t *testing.T) {
	r := good()
	r.chain.credits = append(r.chain.credits, transfer{"0xDD", 1, bob, 5})
	r.unmatched = 5
	postUnmatched(r, "0xdd/1", 5)
	for _, v := range r.check() {
		t.Error(v)
	}
}

func TestClaimedPurchaseMayGoOnDuringAnOutage(t *testing.T) {
	r := good()
	r.down = []Span{{noon.Add(time.Second), noon.Add(time.Hour)}}
	r.answers = append(r.answers,
		Answer{carol, "key-new", true, http.StatusServiceUnavailable, "", "", "", noon.Add(time.Minute)},
		Answer{carol, "key-bad", true, http.StatusBadRequest, "", "", "", noon.Add(time.Minute)})
	for _, v := range r.check() {
		t.Error(v)
	}
}

// TestClocksDifferByTheirSkew: what one process has used may be older than what another one has made.
func TestClocksDifferByTheirSkew(t *testing.T) {
	r := good()
	used := r.challenges[0].IssuedAt.Add(-2 * time.Second)
	r.challenges[0].ConsumedAt = &used
	for skew, broken := range map[time.Duration]int{0: 1, time.Second: 1, 2 * time.Second: 0} {
		r.skew = skew
		if got := challengesAreUsedOnce(r); len(got) != broken {
			t.Errorf("clocks that differ by %s break %v", skew, got)
		}
	}
}

// The rules are numbered from I1 to I26, without a gap.
func TestEveryInvariantHasItsCheck(t *testing.T) {
	named := map[string]bool{unchangedID: true, leaksID: true}
	for _, inv := range invariants() {
		named[inv.id] = true
		if inv.rule == "" {
			t.Errorf("%s has no words", inv.id)
		}
	}
	for n := 1; n <= 26; n++ {
		if id := fmt.Sprint("I", n); !named[id] {
			t.Errorf("%s has no check", id)
		}
	}
}

// The test changes each book a little, and then what maintenance changes.
func TestUnchangedSeesEveryBook(t *testing.T) {
	take := func(r *records) fingerprint {
		f, err := r.fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	before := take(good())
	for want, change := range map[string]func(*records){
		"":                   func(r *records) { r.jobs[6].Attempt++; r.transactions[2].Status = "closed" },
		"the orders changed": func(r *records) { r.orders[2].Status = "refund_pending" },
		"the timeline changed": func(r *records) {
			r.moves = append(r.moves, moveRow{"ord_b", 3, "payment_required", "expired", "worker"})
		},
		"the payments changed": func(r *records) { r.payments[1].Status = "claimed" },
		"the settlement transactions changed": func(r *records) {
			r.transactions[0].Hashes = append(r.transactions[0].Hashes, "0xab")
		},
		"the cards changed":                             func(r *records) { r.cards[1].Status = "PENDING" },
		"the reservations changed":                      func(r *records) { r.reservations[2].Released = true },
		"the jobs changed":                              func(r *records) { r.jobs[5].Attempt++ },
		"the audit changed":                             func(r *records) { r.audit = nil },
		"the ledger's postings changed":                 func(r *records) { r.postings[0].Kind = "other" },
		"the ledger's entries changed":                  func(r *records) { r.entries[0].Amount++ },
		"the chain's transfers changed":                 func(r *records) { r.chain.credits = r.chain.credits[1:] },
		"the issuer's movements changed":                func(r *records) { r.issuer.Movements = nil },
		"the issuer's references changed":               func(r *records) { r.issuer.Executed["ref-f"]++ },
		"the chain's count of our transactions changed": func(r *records) { r.chain.sent[relay]++ },
	} {
		r := good()
		change(r)
		found := before.compare(take(r))
		if want == "" && len(found) != 0 || want != "" &&
			(len(found) != 1 || found[0].Message != want || found[0].ID != "I20") {
			t.Errorf("%v, want %q", found, want)
		}
	}
}

// The test hides a secret in every form among other text.
func TestLeaksFindsASecretInEveryForm(t *testing.T) {
	const secret = "rcs_a\"quoted\\s3cret"
	const key = "0xA1b2c3d4e5f60718293a4b5c6d7e8f90"
	raw, err := hex.DecodeString(key[2:])
	if err != nil {
		t.Fatal(err)
	}
	escaped, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{
		"plain": "token " + secret + " seen", "small hex": hex.EncodeToString([]byte("x" + secret)),
		"capital hex": strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"JSON":        `{"a":` + string(escaped) + `}`, "the key": key, "the key in small letters": strings.ToLower(key),
		"the key without 0x": key[2:],
		"the key's bytes":    base64.StdEncoding.EncodeToString(raw),
	}
	for pad := range 3 {
		for name, encoding := range map[string]*base64.Encoding{
			"standard": base64.StdEncoding, "URL": base64.RawURLEncoding,
		} {
			texts[fmt.Sprint(name, " base64 after ", pad)] = encoding.EncodeToString([]byte(strings.Repeat("?", pad) + secret +
				"??"))
		}
	}
	for place, text := range texts {
		found := Leaks(map[string]string{place: text}, map[string]string{"the token": secret, "the key": key})
		if len(found) == 0 || found[0].ID != "I23" {
			t.Errorf("%s: %v", place, found)
		}
		for _, v := range found {
			if strings.Contains(v.String(), secret) || strings.Contains(v.String(), key) {
				t.Errorf("%s: the message tells the secret", place)
			}
		}
	}
	harmless := map[string]string{"a log": `{"msg":"order fulfilled","order":"ord_1"}`, "nothing": ""}
	if found := Leaks(harmless, map[string]string{"the token": secret, "the key": key}); len(found) != 0 {
		t.Errorf("found in harmless texts: %v", found)
	}
}

// TestReturnedMoneySellsNoCard: an order without a buyer's key, by which a recovery sends money back, has any price.
func TestReturnedMoneySellsNoCard(t *testing.T) {
	r := good()
	r.orders[3].Key, r.orders[3].PriceCents, r.payments[3].Value = strings.Repeat("-", 201), 3763, 37_630_000
	if broken := theMoneyAddsUp(r); len(broken) > 0 {
		t.Error(broken)
	}
	r.orders[3].Key = "key-d"
	if broken := theMoneyAddsUp(r); len(broken) != 1 {
		t.Errorf("a buyer's card for 37.63 breaks %v", broken)
	}
}

// TestRefusedGoodsOfALostOrderAreNobodys: a restore has lost an order that a provider had refused. What was never
// delivered may stand in its books; anything else may not, nor may it where nothing was lost.
func TestRefusedGoodsOfALostOrderAreNobodys(t *testing.T) {
	for _, c := range []struct {
		card, esim string
		lost       bool
		want       int
	}{{"declined", "cancelled", true, 0}, {"declined", "cancelled", false, 2}, {"live", "released", true, 2}} {
		r := good()
		sellEsim(r)
		if c.lost {
			r.lost = []Gap{{To: 1}}
		}
		r.issuer.Cards = append(r.issuer.Cards, issuerCard{ID: "crd_x", Reference: "ref-x", Status: c.card})
		r.supplier.Esims = append(r.supplier.Esims, supplierEsim{ID: "esm_x", Reference: "ref-y", Status: c.esim})
		if broken := append(deliveryNeedsATransfer(r), esimNeedsATransfer(r)...); len(broken) != c.want {
			t.Errorf("%+v: %v", c, broken)
		}
	}
}

// TestLostRefundIsFoundOnTheChain: a restore has lost an order with its refund, and the program says where both are.
func TestLostRefundIsFoundOnTheChain(t *testing.T) {
	r := good()
	r.orders, r.payments, r.refunds = r.orders[:3], r.payments[:3], nil
	broken := func() int { return len(creditsAreThePayments(r)) + len(refundsAreProven(r)) }
	if n := broken(); n != 2 {
		t.Errorf("a transfer and a refund that no row has break %d rules", n)
	}
	r.sentBack = []sentBackRow{{"0xD1/7", "the chain shows that the money was sent back, in 0xd2"}}
	if n := broken(); n != 0 {
		t.Errorf("where both are known, %d rules are broken", n)
	}
	r.chain.payouts[0].Value--
	if n := broken(); n != 2 {
		t.Errorf("a refund of less, which nobody knows, breaks %d rules", n)
	}
	of := r.chain.payouts[0]
	paid, err := hex.DecodeString(dora[2:] + "0d")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(append([]byte("roamcard refund v2"), paid...))
	r.chain.used = append(r.chain.used, use{
		Transaction: of.Transaction, LogIndex: of.LogIndex - 1, Payer: of.From, Nonce: "0x" + hex.EncodeToString(sum[:]),
	})
	if n := broken(); n != 0 {
		t.Errorf("the payment's own refund, of less, breaks %d rules", n)
	}
	r.chain.used = r.chain.used[:len(r.chain.used)-1]
	r.sentBack[0].Reason = "no place"
	if n := broken(); n != 2 {
		t.Errorf("a refund that is not there, and one that nobody knows, break %d rules", n)
	}
}

// TestKeyIsChargedOnce whatever the database has of it: the chain shows two payments that were signed for one key.
func TestKeyIsChargedOnce(t *testing.T) {
	r := good()
	a := r.payments[0]
	r.signed = []Signed{{a.Payer, "key-a", a.Nonce}, {a.Payer, "key-a", "0xunsent"}, {a.Payer, "key-a", a.Nonce}}
	if broken := oneChargePerKey(r); len(broken) != 0 {
		t.Error(broken)
	}
	again := r.chain.used[0]
	again.Nonce, again.LogIndex = "0xunsent", 99
	r.chain.used = append(r.chain.used, again)
	if broken := oneChargePerKey(r); len(broken) != 0 {
		t.Errorf("a nonce that was used to pay somebody else breaks %v", broken)
	}
	again.LogIndex = r.chain.used[0].LogIndex
	r.chain.used = append(r.chain.used, again)
	if broken := oneChargePerKey(r); len(broken) != 1 {
		t.Errorf("two charges break %v", broken)
	}
	in := fmt.Sprintf("%s/%d", again.Transaction, again.LogIndex+1)
	r.sentBack = []sentBackRow{{in, "it went back, in 0xd2"}}
	if broken := oneChargePerKey(r); len(broken) != 0 {
		t.Errorf("a charge that went back breaks %v", broken)
	}
}

// TestArrivedMoneyIsAChargeForWhatItPays: a restore has lost the order that it was signed for, and it has paid another.
func TestArrivedMoneyIsAChargeForWhatItPays(t *testing.T) {
	r := good()
	r.chain.used[1].Payer, r.chain.used[2].Payer = alice, alice
	r.signed = []Signed{{alice, "key-a", "0x0a"}, {alice, "key-a", "0x0c"}}
	if broken := oneChargePerKey(r); len(broken) != 0 {
		t.Errorf("what was signed for one key and has paid for another breaks %v", broken)
	}
	r.payments, r.signed = r.payments[:3], append(r.signed, Signed{alice, "key-c", "0x0d"})
	if broken := oneChargePerKey(r); len(broken) != 1 {
		t.Errorf("two charges for the other key break %v", broken)
	}
}

// TestFeeThatWasWrittenOffComesBack: it stayed on its card, and is its owner's.
func TestFeeThatWasWrittenOffComesBack(t *testing.T) {
	for amount, broken := range map[int64]int{2400: 0, 2501: 1} {
		r := good()
		closeCard(r)
		r.jobs[5].Status, r.fees = "failed", []feeRow{{Job: "job_f", WrittenOff: true}}
		r.closings[0].LeftCents, r.refunds[1].Value = amount, amount*unitsPerCent
		if found := refundsMatchPayments(r); len(found) != broken {
			t.Errorf("%d cents of a card with its fee came back: %v", amount, found)
		}
	}
}
