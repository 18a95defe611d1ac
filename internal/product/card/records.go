package card

import (
	"slices"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
)

// FeeRecord is a fee job.
type FeeRecord struct {
	Status job.Status
	Args   FeeArgs
}

// CloseRecord is the job that closes a card.
type CloseRecord struct {
	Status job.Status
	Args   CloseArgs
}

// Records are the cards of some orders, their fee jobs and closings. They implement reconcile.Goods.
type Records struct {
	Cards    []Card
	Fees     []FeeRecord
	Closings []CloseRecord
}

// Differs finds nothing: the price of a card is fixed.
func (r Records) Differs(order.Sale) string { return "" }

// Postings are the expected ledger postings of the cards, their fees and their closings.
func (r Records) Postings([]order.Sale) (all []ledger.Posting) {
	for _, c := range r.Cards {
		if c.delivered() {
			all = append(all, c.Postings()...)
		}
	}
	for _, f := range r.Fees {
		all = append(all, f.Args.Postings(f.Status)...)
	}
	for _, one := range r.Closings {
		all = append(all, one.Args.Postings()...)
	}
	return all
}

// Calls are the openings of the cards, and the withdrawals of their fees and remainders.
func (r Records) Calls(sales []order.Sale) (all []order.Call) {
	ended := map[uuid.UUID]bool{}
	for _, one := range r.Closings {
		ended[one.Args.Card] = one.Args.Stage == StageEnding || one.Args.Stage == StageClosed
		all = append(all, one.withdrawals()...)
	}
	uncertain := map[order.ID]bool{}
	for _, s := range sales {
		uncertain[s.ID] = s.Uncertain()
	}
	for _, c := range r.Cards {
		call := order.Call{
			Order: c.Order, Reference: uuid.UUID(c.Ref), Description: "card", Amount: c.Load, Card: c.ID, Account: c.Account,
			Provider: c.Provider, Ended: ended[c.ID],
		}
		switch {
		case c.delivered():
			call.Standing = order.Made
		case c.Status == Pending && uncertain[c.Order]:
			call.Standing = order.InFlight
		}
		all = append(all, call)
	}
	for _, f := range r.Fees {
		all = append(all, f.withdrawals()...)
	}
	return all
}

// delivered reports whether the owner has got the card.
func (c Card) delivered() bool { return c.Status == Active || c.Status == Frozen || c.Status == Closed }

// withdrawals are the versions of a fee's withdrawal.
func (f FeeRecord) withdrawals() (all []order.Call) {
	if f.Args.Kept {
		return nil // there is no withdrawal
	}
	for a := f.Args; a.Version > 0; a.Version-- {
		call := order.Call{
			Order: order.ID(a.Order), Reference: uuid.UUID(a.Ref()), Description: "fee withdrawal", Amount: a.Amount,
			Card: a.Card, Account: a.Account, Provider: a.Provider, Direction: string(Withdrawal),
		}
		switch {
		case a.Version < f.Args.Version: // confirmed as failed, or there would be no later one
		case f.Status == job.Succeeded:
			call.Standing = order.Made
		case f.Status == job.Queued || f.Status == job.Processing:
			call.Standing = order.InFlight
		}
		all = append(all, call)
	}
	return all
}

// withdrawals are the versions of a remainder's withdrawal.
func (r CloseRecord) withdrawals() (all []order.Call) {
	amounts := slices.Clone(r.Args.Earlier)
	if r.Args.Stage == StageWithdrawing || r.Args.Withdrawn() {
		amounts = append(amounts, r.Args.Remainder)
	}
	for i, amount := range amounts {
		call := order.Call{
			Order: order.ID(r.Args.Order), Reference: uuid.UUID(r.Args.ref(i + 1)), Description: "remainder's withdrawal",
			Amount: amount, Card: r.Args.Card, Account: r.Args.Account, Provider: r.Args.Provider,
			Direction: string(Withdrawal),
		}
		switch {
		case i < len(r.Args.Earlier): // confirmed as failed, or there would be no later one
		case r.Args.Withdrawn():
			call.Standing = order.Made
		default:
			call.Standing = order.InFlight
		}
		all = append(all, call)
	}
	return all
}
