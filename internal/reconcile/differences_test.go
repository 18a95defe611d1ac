package reconcile

import (
	"slices"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/x402"
)

// unmatched is a transfer that no payment of ours explains.
var unmatched = Transfer{Transaction: x402.Hash{0xdd}, LogIndex: 5, Block: 50, From: bob, Value: 7}

// difference is what is changed in a copy of the good books, and the codes that the comparison finds then.
type difference struct {
	change func(*books, *card.Statement)
	want   []Code
}

// unmatchedDifferences are transfers that no payment explains, and what operators resolved of them.
var unmatchedDifferences = map[string]difference{
	"an unmatched transfer": {func(r *books, _ *card.Statement) {
		r.Arrivals = append(r.Arrivals, unmatched)
	}, []Code{TransferUnmatched}},
	"a stranger's same nonce": {func(r *books, _ *card.Statement) {
		s := unmatched
		s.Nonce = x402.Hash{1}
		r.Arrivals = append(r.Arrivals, s)
	}, []Code{TransferUnmatched}},
	"a second transfer of the payer's": {func(r *books, _ *card.Statement) {
		s := unmatched
		s.From, s.Value = alice, 25_000_000
		r.Arrivals = append(r.Arrivals, s)
	}, []Code{TransferUnmatched}},
	"a posted unmatched transfer stays open": {func(r *books, _ *card.Statement) {
		r.Arrivals = append(r.Arrivals, unmatched)
		r.Postings = append(r.Postings,
			ledger.Unmatched(unmatched.Transaction.String(), unmatched.LogIndex, unmatched.Value))
	}, []Code{TransferUnmatched}},
	"an unmatched transfer that an operator knows": {func(r *books, _ *card.Statement) {
		resolve(r, unmatched, Known)
	}, nil},
	"one that was sent back": {func(r *books, _ *card.Statement) { resolve(r, unmatched, RefundedByHand) }, nil},
	"one that was given":     {func(r *books, _ *card.Statement) { resolve(r, unmatched, Donation) }, nil},
	"one resolved without its posting": {func(r *books, _ *card.Statement) {
		resolve(r, unmatched, Donation)
		r.Postings = r.Postings[:len(r.Postings)-1]
	}, []Code{PostingMissing}},
	"one posted to another account than was resolved": {func(r *books, _ *card.Statement) {
		resolve(r, unmatched, Donation)
		r.Resolved[0].As = RefundedByHand
	}, []Code{PostingDiffers}},
	"one posted as resolved that nobody resolved": {func(r *books, _ *card.Statement) {
		resolve(r, unmatched, Donation)
		r.Resolved = nil
	}, []Code{PostingUnexpected, TransferUnmatched}},
	"another transfer than the one resolved": {func(r *books, _ *card.Statement) {
		resolve(r, unmatched, Known)
		other := unmatched
		other.LogIndex++
		r.Arrivals = append(r.Arrivals, other)
	}, []Code{TransferUnmatched}},
	"an unmatched transfer posted twice": {func(r *books, _ *card.Statement) {
		r.Postings = append(r.Postings,
			ledger.Unmatched(unmatched.Transaction.String(), unmatched.LogIndex, unmatched.Value))
	}, []Code{PostingUnexpected}},
}

// paymentDifferences are between payments and the transfers that paid them.
var paymentDifferences = map[string]difference{
	"a transfer not recorded yet": {func(r *books, _ *card.Statement) {
		r.Payments[3].Status = payment.Claimed
		r.Arrivals = append(r.Arrivals,
			Transfer{Transaction: x402.Hash{0xa4}, Block: 40, From: alice, Value: 25_000_000, Nonce: x402.Hash{4}})
	}, []Code{TransferUnrecorded}},
	"a dead payment that arrived": {func(r *books, _ *card.Statement) {
		r.Arrivals = append(r.Arrivals,
			Transfer{Transaction: x402.Hash{0xa4}, Block: 40, From: alice, Value: 25_000_000, Nonce: x402.Hash{4}})
	}, []Code{TransferOfDeadPayment}},
	"a nonce used for another amount than the dead payment's": {func(r *books, _ *card.Statement) {
		r.Arrivals = append(r.Arrivals,
			Transfer{Transaction: x402.Hash{0xa4}, Block: 40, From: alice, Value: 1, Nonce: x402.Hash{4}})
	}, []Code{TransferUnmatched}},
	"an unowned transfer that an order was paid with": {func(r *books, _ *card.Statement) {
		r.Postings = append(r.Postings, ledger.Unmatched(x402.Hash{0xa1}.String(), 3, 25_000_000))
	}, nil},
	"a payment of a block that nobody could read": {func(r *books, _ *card.Statement) {
		r.Arrivals, r.Unread = r.Arrivals[1:], []uint64{20}
	}, nil},
	"a payment to another payee": {func(r *books, _ *card.Statement) {
		r.Arrivals, r.Payments[0].Elsewhere = r.Arrivals[1:], true
	}, nil},
	"a line that the issuer shows no more": {func(r *books, _ *card.Statement) {
		r.Epochs = map[string]int64{"": 1}
	}, []Code{ProviderRecordMissing}},
	"a payment that never arrived": {func(r *books, _ *card.Statement) {
		r.Arrivals = r.Arrivals[1:]
	}, []Code{PaymentWithoutTransfer}},
	"a payment of a block that is not read": {func(r *books, _ *card.Statement) {
		r.Arrivals, r.Scan = r.Arrivals[1:], Scan{First: 21, Next: 100}
	}, nil},
	"a transfer of another amount": {func(r *books, _ *card.Statement) {
		r.Arrivals[0].Value--
	}, []Code{PaymentDiffers}},
	"a transfer of another sender": {func(r *books, _ *card.Statement) {
		r.Arrivals[0].From = bob
	}, []Code{PaymentDiffers}},
	"a payment recorded at somebody's plain transfer": {func(r *books, _ *card.Statement) {
		r.Arrivals[0].Nonce = x402.Hash{}
	}, nil},
}

// postingDifferences are between orders and what the ledger posts for them.
var postingDifferences = map[string]difference{
	"a price changed": {func(r *books, _ *card.Statement) { r.Orders[0].Price = 2400 }, []Code{OrderAmount}},
	"a card's load changed": {func(r *books, _ *card.Statement) {
		r.Cards[0].Load = 2400
	}, []Code{PostingDiffers, ProviderDiffers}},
	"a top-up split otherwise": {func(r *books, _ *card.Statement) {
		r.Topups["ord_topup"] = topup.Split{Gross: 5000, Credit: 5000, Card: cardID}
	}, []Code{OrderAmount, PostingDiffers, PostingUnexpected, ProviderDiffers}},
	"a paid order without a payment": {func(r *books, _ *card.Statement) {
		r.Payments[2].Status = payment.Dead
	}, []Code{OrderWithoutPayment, PostingUnexpected}},
	"no posting of a payment": {func(r *books, _ *card.Statement) {
		r.Postings = r.Postings[1:]
	}, []Code{PostingMissing}},
	"no posting of a load": {func(r *books, _ *card.Statement) {
		r.Postings = slices.Delete(r.Postings, 1, 2)
	}, []Code{PostingMissing}},
	"no posting of a fee": {func(r *books, _ *card.Statement) {
		r.Postings = slices.Delete(r.Postings, 2, 3)
	}, []Code{PostingMissing}},
	"no posting of a load fee": {func(r *books, _ *card.Statement) {
		r.Postings = slices.Delete(r.Postings, 6, 7)
	}, []Code{PostingMissing}},
	"no posting of an eSIM": {func(r *books, _ *card.Statement) {
		r.Postings = r.Postings[:9]
	}, []Code{PostingMissing}},
	"no posting of an eSIM's cost": {func(r *books, _ *card.Statement) {
		r.Postings = slices.Delete(r.Postings, 8, 9)
	}, []Code{PostingMissing}},
	"an eSIM of another cost": {func(r *books, _ *card.Statement) { r.Esims[0].Cost++ }, []Code{PostingDiffers}},
	"an eSIM of another price": {func(r *books, _ *card.Statement) {
		r.Postings[9] = ledger.Sold("ord_esim", 501, ledger.EsimRevenue)
	}, []Code{PostingDiffers}},
	"an eSIM whose cost nobody knows": {func(r *books, _ *card.Statement) {
		r.Esims[0].Cost = 0
		r.Postings = slices.Delete(r.Postings, 8, 9)
	}, nil},
	"an eSIM posted and not delivered": {func(r *books, _ *card.Statement) {
		r.Orders[3].Status = order.OperatorReview
	}, []Code{PostingUnexpected}},
	"a refunded order whose eSIM was made": {func(r *books, _ *card.Statement) {
		r.Orders[3].Status = order.Refunded
		r.Postings[9] = ledger.Refunded("ord_esim", 5_000_000)
	}, nil},
	"a posting nobody can explain": {func(r *books, _ *card.Statement) {
		r.Postings = append(r.Postings, ledger.Refunded("ord_topup", 50_000_000))
	}, []Code{PostingUnexpected}},
	"a posting of another amount": {func(r *books, _ *card.Statement) {
		r.Postings[0] = ledger.Settled("ord_issue", 24_000_000)
	}, []Code{PostingDiffers}},
	"a posting of another order": {func(r *books, _ *card.Statement) {
		r.Postings[0].Order = "ord_x"
	}, []Code{PostingDiffers}},
	"a posting that does not balance": {func(r *books, _ *card.Statement) {
		r.Postings[0].Entries[0].Amount++
	}, []Code{LedgerUnbalanced, PostingDiffers}},
	"a posting without entries": {func(r *books, _ *card.Statement) {
		r.Postings[0].Entries = nil
	}, []Code{LedgerUnbalanced, PostingDiffers}},
	"a refunded order": {func(r *books, _ *card.Statement) {
		r.Orders[2].Status = order.Refunded
	}, []Code{PostingMissing}},
	"a refunded order with its posting": {func(r *books, _ *card.Statement) {
		r.Orders[2].Status = order.Refunded
		r.Postings = append(r.Postings, ledger.Refunded("ord_open", 25_000_000))
	}, nil},
}

// issuerDifferences are between cards and movements and what the issuer states of them.
var issuerDifferences = map[string]difference{
	"an unowned card": {func(_ *books, s *card.Statement) {
		s.Accounts = append(s.Accounts,
			card.StatedAccount{Account: card.Account{ID: "crd_2", Ref: fulfilment.Ref{1}, State: card.AccountActive,
				Loaded: 2500}, Balance: 2500})
	}, []Code{ProviderUnknown}},
	"an unowned movement": {func(_ *books, s *card.Statement) {
		s.Movements = append(s.Movements, card.MovementRecord{
			Ref: fulfilment.Ref{2}, Account: "crd_1", Direction: card.Load, Amount: 1, State: card.MovePending,
		})
	}, []Code{ProviderUnknown}},
	"a load executed twice": {func(_ *books, s *card.Statement) {
		s.Movements = append(s.Movements, s.Movements[2])
	}, []Code{ProviderDuplicate}},
	"a card opened twice": {func(_ *books, s *card.Statement) {
		s.Accounts = append(s.Accounts, s.Accounts[0])
	}, []Code{ProviderDuplicate}},
	"a fee withdrawn by two versions": {func(_ *books, s *card.Statement) {
		s.Movements[0].State = card.MoveSucceeded
	}, []Code{ProviderDuplicate, ProviderUnrecorded}},
	"a card opened by another issuer, too": {func(_ *books, s *card.Statement) {
		again := s.Accounts[0]
		again.Provider = "other"
		s.Accounts = append(s.Accounts, again)
	}, []Code{ProviderDiffers}},
	"a load made by another issuer": {func(_ *books, s *card.Statement) {
		s.Movements[2].Provider = "other"
	}, []Code{ProviderDiffers, ProviderRecordMissing}},
	"a load of another amount": {func(_ *books, s *card.Statement) {
		s.Movements[2].Amount = 5000
	}, []Code{ProviderDiffers}},
	"a load on another card": {func(_ *books, s *card.Statement) {
		s.Movements[2].Account = "crd_9"
	}, []Code{ProviderDiffers}},
	"a withdrawal instead of a load": {func(_ *books, s *card.Statement) {
		s.Movements[2].Direction = card.Withdrawal
	}, []Code{ProviderDiffers}},
	"a card opened with another amount": {func(_ *books, s *card.Statement) {
		s.Accounts[0].Loaded = 5000
	}, []Code{ProviderDiffers}},
	"a fulfilled top-up that was not loaded": {func(_ *books, s *card.Statement) {
		s.Movements = s.Movements[:2]
	}, []Code{ProviderRecordMissing}},
	"a fulfilled top-up that is pending": {func(_ *books, s *card.Statement) {
		s.Movements[2].State = card.MovePending
	}, []Code{ProviderRecordMissing}},
	"a card the issuer does not know": {func(_ *books, s *card.Statement) {
		s.Accounts = nil
	}, []Code{ProviderRecordMissing}},
	"a fee that was never withdrawn": {func(_ *books, s *card.Statement) {
		s.Movements = slices.Delete(s.Movements, 1, 2)
	}, []Code{ProviderRecordMissing}},
	"a load taken back": {func(_ *books, s *card.Statement) {
		s.Movements[2].State = card.MoveFailed
	}, []Code{ProviderReversed}},
	"a card closed by the issuer": {func(_ *books, s *card.Statement) {
		s.Accounts[0].State, s.Accounts[0].Balance = card.AccountClosed, 0
	}, []Code{ProviderReversed}},
	"a card closed by both": {func(r *books, s *card.Statement) {
		s.Accounts[0].State = card.AccountClosed
		r.Cards[0].Status = card.Closed
	}, []Code{ProviderReversed}},
}

// feeDifferences are between the fees of cards and how they were withdrawn, owed or kept.
var feeDifferences = map[string]difference{
	"a fee that was never on its card": {keepFee, nil},
	"one that is posted as withdrawn": {func(r *books, s *card.Statement) {
		keepFee(r, s)
		r.Postings[2] = ledger.FeeWithdrawn("ord_issue", cardID.String(), 1000)
	}, []Code{PostingMissing, PostingUnexpected}},
	"a fee that was spent": {oweFee, nil},
	"one whose debt is not posted": {func(r *books, s *card.Statement) {
		oweFee(r, s)
		r.Postings = slices.Delete(r.Postings, 2, 3)
	}, []Code{PostingMissing}},
	"one that was written off": {writeOffFee, nil},
	"one that nobody has given up": {func(r *books, s *card.Statement) {
		writeOffFee(r, s)
		r.Fees[0].Args.WrittenOff = false
	}, []Code{PostingUnexpected}},
	"one that was collected after all": {func(r *books, s *card.Statement) {
		collectFee(r, s, ledger.Receivable(cardID.String()))
	}, nil},
	"one collected from the wrong account": {func(r *books, s *card.Statement) {
		collectFee(r, s, ledger.IssueFeeCost)
	}, []Code{PostingDiffers}},
	"a fee given back": {func(_ *books, s *card.Statement) {
		s.Movements[1].State = card.MoveFailed
		s.Accounts[0].Balance += 1400
	}, []Code{ProviderReversed}},
}

// progressDifferences are what was in progress when the books were read.
var progressDifferences = map[string]difference{
	"a load that nobody recorded": {func(r *books, s *card.Statement) {
		r.Orders[2].Status = order.OperatorReview
		loadOpen(s)
	}, []Code{ProviderUnrecorded}},
	"a load under way": {func(_ *books, s *card.Statement) {
		loadOpen(s)
		s.Accounts[0].Balance = 6400 + 2450
	}, nil},
	"more on a card than it can have": {func(_ *books, s *card.Statement) {
		s.Accounts[0].Balance = 6401 + 2450
	}, []Code{CardBalanceHigh}},
	"all spent": {func(_ *books, s *card.Statement) { s.Accounts[0].Balance = 0 }, nil},
	"a card refused, and then opened": {func(r *books, s *card.Statement) {
		refuseCard(r)
		s.Accounts[0].Balance, s.Movements = 0, nil
	}, []Code{PostingUnexpected, ProviderUnrecorded}},
	"a card that the issuer opens meanwhile": {openCard, nil},
	"a fee that the issuer withdrew meanwhile": {func(r *books, _ *card.Statement) {
		r.Fees[0].Status = job.Processing
		r.Postings = slices.Delete(r.Postings, 2, 3)
	}, nil},
	"a fee withdrawn after all": {func(r *books, _ *card.Statement) {
		r.Fees[0].Status = job.OperatorReview
		r.Postings = slices.Delete(r.Postings, 2, 3)
	}, []Code{ProviderUnrecorded}},
}

// keepFee opens the card without the fee, as an issuer with limits does.
func keepFee(r *books, s *card.Statement) {
	r.Cards[0].Load, r.Fees[0].Args.Kept = 1500, true
	r.Postings[1], r.Postings[2] = ledger.Loaded("ord_issue", cardID.String(), 1500), ledger.FeeKept("ord_issue", 1000)
	s.Accounts[0].Loaded, s.Movements = 1500, s.Movements[2:]
}

// oweFee lets the holder spend the money before the withdrawal.
func oweFee(r *books, s *card.Statement) {
	r.Fees[0].Status, r.Fees[0].Args.Owed = job.Failed, true
	r.Postings[2] = ledger.FeeOwed("ord_issue", cardID.String(), 1000)
	s.Movements[1].State = card.MoveFailed
}

func writeOffFee(r *books, s *card.Statement) {
	oweFee(r, s)
	r.Fees[0].Args.WrittenOff = true
	r.Postings = append(r.Postings, ledger.FeeWrittenOff("ord_issue", cardID.String(), 1000))
}

func collectFee(r *books, s *card.Statement, from ledger.Account) {
	oweFee(r, s)
	r.Fees[0].Status, s.Movements[1].State = job.Succeeded, card.MoveSucceeded
	r.Postings = append(r.Postings, ledger.FeeCollected("ord_issue", cardID.String(), 1000, from))
}

func loadOpen(s *card.Statement) {
	s.Movements = append(s.Movements,
		card.MovementRecord{Ref: openRef, Account: "crd_1", Direction: card.Load, Amount: 2450, State: card.MoveSucceeded})
}

// refuseCard leaves the purchase of the card alone, refused by the issuer and with an operator.
func refuseCard(r *books) {
	r.Cards[0].Status, r.Orders[0].Status, r.Fees = card.Failed, order.OperatorReview, nil
	r.Postings = r.Postings[:2]
	r.Esims = nil
	r.Orders, r.Payments, r.Arrivals = r.Orders[:1], r.Payments[:1], r.Arrivals[:1]
}

// openCard is the moment between the issuer's opening of a card and our record of it.
func openCard(r *books, s *card.Statement) {
	refuseCard(r)
	r.Cards[0].Status, r.Orders[0].Status = card.Pending, order.Provisioning
	r.Postings = r.Postings[:1]
	s.Accounts[0].Balance, s.Movements = 2500, nil
}
