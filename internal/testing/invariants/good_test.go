package invariants

import (
	"net/http"
	"time"
)

const (
	alice = "0xa11ce00000000000000000000000000000000001"
	bob   = "0xb0b0000000000000000000000000000000000002"
	carol = "0xca401000000000000000000000000000000000a3"
	dora  = "0xd04a000000000000000000000000000000000006"
	shop  = "0x5409000000000000000000000000000000000004"
	bank  = "0xba4c000000000000000000000000000000000007"
	usdc  = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
	relay = "0x4e1a700000000000000000000000000000000005"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// good are the books of four purchases: Alice has her card, Bob's authorization was cancelled, Carol's card
// was refused by the issuer and waits for an operator, and Dora's was refused and refunded.
func good() *records {
	paidA, paidC, at := "0xAA", "0xcc", int64(7)
	paidD, backD := "0xd1", "0xd2"
	used := noon.Add(time.Minute)
	r := &records{payTo: shop, treasuries: map[string]bool{lower(bank): true}}
	r.orders = []orderRow{
		{"ord_a", "card_issue", "fulfilled", alice, "key-a", 2500, 4, ""},
		{"ord_b", "card_issue", "payment_required", bob, "key-b", 2500, 2, ""},
		{"ord_c", "card_issue", "operator_review", carol, "key-c", 2500, 4, ""},
		{"ord_d", "card_issue", "refunded", dora, "key-d", 2500, 5, ""},
	}
	r.moves = []moveRow{
		{"ord_a", 1, "payment_required", "settling", "buyer"}, {"ord_a", 2, "settling", "settled", "worker"},
		{"ord_a", 3, "settled", "provisioning", "worker"}, {"ord_a", 4, "provisioning", "fulfilled", "worker"},
		{"ord_b", 1, "payment_required", "settling", "buyer"}, {"ord_b", 2, "settling", "payment_required", "worker"},
		{"ord_c", 1, "payment_required", "settling", "buyer"}, {"ord_c", 2, "settling", "settled", "worker"},
		{"ord_c", 3, "settled", "provisioning", "worker"}, {"ord_c", 4, "provisioning", "operator_review", "worker"},
		{"ord_d", 1, "payment_required", "settling", "buyer"}, {"ord_d", 2, "settling", "settled", "worker"},
		{"ord_d", 3, "settled", "provisioning", "worker"}, {"ord_d", 4, "provisioning", "refund_pending", "worker"},
		{"ord_d", 5, "refund_pending", "refunded", "worker"},
	}
	r.payments = []paymentRow{
		{"pay_a", "ord_a", "paid", usdc, alice, shop, 25_000_000, "0x0a", &paidA, &at, noon},
		{"pay_b", "ord_b", "dead", usdc, bob, shop, 25_000_000, "0x0b", nil, nil, noon},
		{"pay_c", "ord_c", "paid", usdc, carol, shop, 25_000_000, "0x0c", &paidC, &at, noon},
		{"pay_d", "ord_d", "paid", usdc, dora, shop, 25_000_000, "0x0d", &paidD, &at, noon},
	}
	r.refunds = []refundRow{{"ref_d", "ord_d", "paid", usdc, bank, dora, 25_000_000, "0x2d", &backD, &at}}
	r.transactions = []transactionRow{
		{"att_a", relay, 0, "closed", []string{"0xaa"}, noon, []string{"pay_a"}, []string{"closed"}},
		{"att_b", relay, 1, "reverted", []string{"0xb1", "0xb2"}, noon, []string{"pay_b"}, []string{"reverted"}},
		{"att_c", relay, 2, "open", []string{"0xcc"}, noon, []string{"pay_c"}, []string{"open"}},
		{"att_d", relay, 3, "closed", []string{"0xd1"}, noon, []string{"pay_d"}, []string{"closed"}},
		{"att_e", relay, 4, "closed", []string{"0xd2"}, noon, []string{"ref_d"}, []string{"closed"}},
	}
	r.cards = []cardRow{
		{"card_a", "ord_a", alice, "ACTIVE", "ref-a", "crd_1", 2500},
		{"card_c", "ord_c", carol, "FAILED", "ref-c", "", 2500},
		{"card_d", "ord_d", dora, "FAILED", "ref-d", "", 2500},
	}
	r.reservations = []reservationRow{
		{"ord_a", "float/card", 2500, true}, {"ord_b", "float/card", 2500, true}, {"ord_c", "float/card", 2500, false},
		{"ord_d", "float/card", 2500, true},
	}
	r.jobs = []jobRow{
		{"job_a", fulfillJob, "pay_a", "ord_a", "succeeded", 1, 1, false},
		{"job_b", fulfillJob, "pay_b", "ord_b", "succeeded", 1, 2, false},
		{"job_c", fulfillJob, "pay_c", "ord_c", "succeeded", 1, 1, false},
		{"job_ka", confirmJob, "pay_a", "ord_a", "succeeded", 1, 2, false},
		{"job_kc", confirmJob, "pay_c", "ord_c", "queued", 1, 1, false},
		{"job_f", feeJob, "card_a", "ord_a", "succeeded", 2, 1, false},
		{"job_t", "relayer_maintain", "1", "", "processing", 1, 1, true},
		{"job_d", fulfillJob, "pay_d", "ord_d", "succeeded", 1, 1, false},
		{"job_kd", confirmJob, "pay_d", "ord_d", "succeeded", 1, 1, false},
		{"job_rd", refundConfirmJob, "ref_d", "ord_d", "queued", 1, 1, false},
	}
	r.challenges = []challengeRow{{"ch_1", "reveal", noon, noon.Add(5 * time.Minute), &used}}
	r.audit = []auditRow{{"ann", "fee_job.retry", "job_f", "the issuer was down", "k1"}}
	r.chain = chainBook{
		credits: []transfer{{"0xaa", 7, alice, 25_000_000}, {"0xcc", 7, carol, 25_000_000}, {"0xd1", 7, dora, 25_000_000}},
		payouts: []payout{{"0xd2", 7, bank, dora, 25_000_000}},
		used: []use{
			{"0xaa", 6, alice, "0x0a"}, {"0xcc", 6, carol, "0x0c"}, {"0xd1", 6, dora, "0x0d"}, {"0xd2", 6, bank, "0x2d"},
		},
		included: map[string]inclusion{
			"0xaa": {relay, 0}, "0xb2": {relay, 1}, "0xcc": {relay, 2}, "0xd1": {relay, 3}, "0xd2": {relay, 4},
		},
		sent:  map[string]int64{relay: 5},
		fresh: []string{relay},
	}
	r.issuer = issuerBook{
		FloatCents: 1000,
		Cards: []issuerCard{
			{"crd_1", "ref-a", "live", 2500, 1500, ""}, {"crd_2", "ref-c", "declined", 2500, 0, "002"},
			{"crd_3", "ref-d", "declined", 2500, 0, "002"},
		},
		Movements: []issuerMove{{"mov_1", "ref-f", "crd_1", "out", 1000, "done"}},
		Executed:  map[string]int{"ref-a": 1, "ref-c": 1, "ref-f": 1},
	}
	r.postings = []postingRow{
		{"settled/ord_a", "ord_a", "settled"}, {"loaded/ord_a", "ord_a", "loaded"},
		{"fee_withdrawn/ord_a", "ord_a", "fee_withdrawn"},
		{"settled/ord_c", "ord_c", "settled"},
	}
	r.entries = []entryRow{
		{"settled/ord_a", "treasury:usdc", 25_000_000}, {"settled/ord_a", "customer:ord_a", -25_000_000},
		{"loaded/ord_a", "issuer:float", -25_000_000}, {"loaded/ord_a", "card:card_a", 25_000_000},
		{"loaded/ord_a", "customer:ord_a", 25_000_000}, {"loaded/ord_a", "holder:card_a", -25_000_000},
		{"fee_withdrawn/ord_a", "card:card_a", -10_000_000}, {"fee_withdrawn/ord_a", "issuer:float", 10_000_000},
		{"fee_withdrawn/ord_a", "holder:card_a", 10_000_000}, {"fee_withdrawn/ord_a", "revenue:issue_fee", -10_000_000},
		{"settled/ord_c", "treasury:usdc", 25_000_000}, {"settled/ord_c", "customer:ord_c", -25_000_000},
	}
	r.posted("settled", "ord_d", entryRow{"", "treasury:usdc", 25_000_000}, entryRow{"", "customer:ord_d", -25_000_000})
	r.posted("refunded", "ord_d", entryRow{"", "treasury:usdc", -25_000_000}, entryRow{"", "customer:ord_d", 25_000_000})
	r.owned = []ownedRow{
		{"payments", "pay_a", "ord_a", alice}, {"refunds", "ref_d", "ord_d", dora}, {"jobs", "job_a", "ord_a", alice},
		{"jobs", "job_t", "", ""}, {"ledger_entries", "1", "ord_a", alice},
	}
	r.answers = []Answer{
		{alice, "key-a", false, http.StatusPaymentRequired, "", "", "", noon.Add(-time.Second)},
		{alice, "key-a", true, http.StatusServiceUnavailable, "", "", "", noon.Add(time.Second)},
		{alice, "key-a", true, http.StatusOK, "ord_a", "0xaa", "25000000", noon.Add(2 * time.Second)},
		{alice, "key-a", true, http.StatusOK, "ord_a", "0xAA", "25000000", noon.Add(3 * time.Second)},
		{bob, "key-b", true, http.StatusPaymentRequired, "", "", "", noon.Add(time.Minute)},
	}
	return r
}

// sellEsim adds an eSIM for 5.00 that Bob bought and has, and that cost 4.00.
func sellEsim(r *records) {
	transaction, at := "0xe1", int64(7)
	r.orders = append(r.orders, orderRow{"ord_e", "esim", "fulfilled", bob, "key-e", 500, 4, ""})
	r.moves = append(r.moves, moveRow{"ord_e", 1, "payment_required", "settling", "buyer"}, moveRow{
		"ord_e", 2, "settling", "settled", "worker",
	},
		moveRow{"ord_e", 3, "settled", "provisioning", "worker"}, moveRow{"ord_e", 4, "provisioning", "fulfilled", "worker"})
	r.payments = append(r.payments, paymentRow{
		"pay_e", "ord_e", "paid", usdc, bob, shop, 5_000_000, "0x0e", &transaction, &at, noon,
	})
	r.chain.credits = append(r.chain.credits, transfer{transaction, at, bob, 5_000_000})
	r.chain.used = append(r.chain.used, use{transaction, at - 1, bob, "0x0e"})
	r.profiles = append(r.profiles, profileRow{"profile_e", "ord_e", "ready", "ref-e", "esm_1"})
	r.supplier = supplierBook{
		Esims: []supplierEsim{{"esm_1", "ref-e", "released", 4_000_000, "pln", ""}}, Executed: map[string]int{"ref-e": 1},
	}
	r.jobs = append(r.jobs, jobRow{"job_e", fulfillJob, "pay_e", "ord_e", "succeeded", 1, 1, false},
		jobRow{"job_ke", confirmJob, "pay_e", "ord_e", "succeeded", 1, 1, false})
	r.posted("settled", "ord_e", entryRow{"", "treasury:usdc", 5_000_000}, entryRow{"", "customer:ord_e", -5_000_000})
	r.posted("supplied", "ord_e", entryRow{"", "supplier:float", -4_000_000}, entryRow{"", "cost:esim", 4_000_000})
	r.posted("sold", "ord_e", entryRow{"", "customer:ord_e", 5_000_000}, entryRow{"", "revenue:esim", -5_000_000})
}

// closeCard closes the card of Alice, on which 14.00 were left.
func closeCard(r *records) {
	back, at := "0xf1", int64(7)
	r.cards[0].Status = "CLOSED"
	r.closings = []closingRow{{"job_x", "card_a", "ord_a", "succeeded", "closed", 1400, "ref-x", ""}}
	r.jobs = append(r.jobs, jobRow{"job_x", closeJob, "card_a", "ord_a", "succeeded", 1, 1, false},
		jobRow{"job_rx", refundConfirmJob, "ref_x", "ord_a", "queued", 1, 1, false})
	r.issuer.Cards[0].Status, r.issuer.Cards[0].BalanceCents = "terminated", 0
	r.issuer.Movements = append(r.issuer.Movements, issuerMove{"mov_2", "ref-x", "crd_1", "out", 1400, "done"})
	r.refunds = append(r.refunds, refundRow{"ref_x", "ord_a", "paid", usdc, bank, alice, 14_000_000, "0x2a", &back, &at})
	r.chain.payouts = append(r.chain.payouts, payout{back, at, bank, alice, 14_000_000})
	r.chain.used = append(r.chain.used, use{back, at - 1, bank, "0x2a"})
	r.posted("remainder_withdrawn", "ord_a", entryRow{"", "card:card_a", -14_000_000},
		entryRow{"", "issuer:float", 14_000_000}, entryRow{"", "holder:card_a", 14_000_000},
		entryRow{"", "customer:ord_a", -14_000_000})
	r.posted("remainder_returned", "ord_a", entryRow{"", "treasury:usdc", -14_000_000},
		entryRow{"", "customer:ord_a", 14_000_000})
}

// refundByHand makes the refund of Bob's eSIM one that an operator sent to somebody, without the treasury.
func refundByHand(r *records, to string) {
	r.cancels[0].ByHand = "0xf9"
	r.chain.byHand = []payout{{"0xf9", 3, shop, to, 4_000_000}}
	r.refunds, r.chain.payouts, r.chain.used = r.refunds[:1], r.chain.payouts[:1], r.chain.used[:5]
}

// cancelEsim gives the eSIM of Bob back, for the 4.00 that it cost.
func cancelEsim(r *records) {
	back, at := "0xf2", int64(7)
	sellEsim(r)
	r.profiles[0].Status, r.supplier.Esims[0].Status = "cancelled", "cancelled"
	r.cancels = []cancelRow{{"job_y", "ord_e", "profile_e", "succeeded", "refunded", 4_000_000, 4_000_000, ""}}
	r.jobs = append(r.jobs, jobRow{"job_y", cancelJob, "ord_e", "ord_e", "succeeded", 1, 1, false},
		jobRow{"job_ry", refundConfirmJob, "ref_y", "ord_e", "queued", 1, 1, false})
	r.refunds = append(r.refunds, refundRow{"ref_y", "ord_e", "paid", usdc, bank, bob, 4_000_000, "0x2e", &back, &at})
	r.chain.payouts = append(r.chain.payouts, payout{back, at, bank, bob, 4_000_000})
	r.chain.used = append(r.chain.used, use{back, at - 1, bank, "0x2e"})
	r.posted("cancelled", "ord_e", entryRow{"", "supplier:float", 4_000_000}, entryRow{"", "cost:esim", -4_000_000},
		entryRow{"", "revenue:esim", 4_000_000}, entryRow{"", "customer:ord_e", -4_000_000})
	r.posted("remainder_returned", "ord_e", entryRow{"", "treasury:usdc", -4_000_000},
		entryRow{"", "customer:ord_e", 4_000_000})
}

// topUpEsim adds data for 3.00 to the eSIM of Bob, which cost 2.00.
func topUpEsim(r *records) {
	sellEsim(r)
	transaction, at := "0xe2", int64(7)
	r.orders = append(r.orders, orderRow{"ord_t", "esim_topup", "fulfilled", bob, "key-t", 300, 4, ""})
	r.moves = append(r.moves, moveRow{"ord_t", 1, "payment_required", "settling", "buyer"},
		moveRow{"ord_t", 2, "settling", "settled", "worker"}, moveRow{"ord_t", 3, "settled", "provisioning", "worker"},
		moveRow{"ord_t", 4, "provisioning", "fulfilled", "worker"})
	r.payments = append(r.payments, paymentRow{
		"pay_t", "ord_t", "paid", usdc, bob, shop, 3_000_000, "0x0f", &transaction, &at, noon,
	})
	r.chain.credits = append(r.chain.credits, transfer{transaction, at, bob, 3_000_000})
	r.chain.used = append(r.chain.used, use{transaction, at - 1, bob, "0x0f"})
	r.topups = append(r.topups, topupRow{"topup_t", "ord_t", "profile_e", "ready", "ref-t", "esm_2"})
	r.supplier.Topups = append(r.supplier.Topups,
		supplierEsim{"esm_2", "ref-t", "released", 2_000_000, "pln", "esm_1"})
	r.supplier.Executed["ref-t"] = 1
	r.jobs = append(r.jobs, jobRow{"job_t", fulfillJob, "pay_t", "ord_t", "succeeded", 1, 1, false},
		jobRow{"job_kt", confirmJob, "pay_t", "ord_t", "succeeded", 1, 1, false})
	r.posted("settled", "ord_t", entryRow{"", "treasury:usdc", 3_000_000}, entryRow{"", "customer:ord_t", -3_000_000})
	r.posted("supplied", "ord_t", entryRow{"", "supplier:float", -2_000_000}, entryRow{"", "cost:esim", 2_000_000})
	r.posted("sold", "ord_t", entryRow{"", "customer:ord_t", 3_000_000}, entryRow{"", "revenue:esim", -3_000_000})
}

// postUnmatched posts money that belongs to nobody.
func postUnmatched(r *records, transfer string, units int64) {
	id := "unmatched/" + transfer
	r.postings = append(r.postings, postingRow{id, "", "unmatched"})
	r.entries = append(r.entries, entryRow{id, "treasury:usdc", units}, entryRow{id, "unmatched", -units})
}

// resolveUnmatched posts such money, of five units, and where it went.
func resolveUnmatched(r *records, units int64, to string) {
	r.chain.credits, r.unmatched = append(r.chain.credits, transfer{"0xdd", 1, bob, 5}), 5
	postUnmatched(r, "0xdd/1", 5)
	r.postings = append(r.postings, postingRow{"resolved/0xdd/1", "", "resolved"})
	r.entries = append(r.entries, entryRow{"resolved/0xdd/1", "unmatched", units}, entryRow{"resolved/0xdd/1", to, -units})
}

// posted adds a posting of an order.
func (r *records) posted(kind, order string, entries ...entryRow) {
	id := kind + "/" + order
	r.postings = append(r.postings, postingRow{id, order, kind})
	for _, e := range entries {
		e.Posting = id
		r.entries = append(r.entries, e)
	}
}
