package cardtest

import (
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
)

// Opened is the references of the cards that were opened and not rejected.
func (i *Issuer) Opened() []fulfilment.Ref {
	i.Lock()
	defer i.Unlock()
	var all []fulfilment.Ref
	for ref, a := range i.accounts {
		if a.State != card.AccountRejected {
			all = append(all, ref)
		}
	}
	return all
}

// SetFloat sets the money cards are loaded from.
func (i *Issuer) SetFloat(float money.Cents) {
	i.Lock()
	defer i.Unlock()
	i.float = float
}

// SetBINs sets the ranges.
func (i *Issuer) SetBINs(bins ...card.BIN) {
	i.Lock()
	defer i.Unlock()
	i.bins = slices.Clone(bins)
}

// SetState puts a card into a state, as the issuer's staff would. Its money follows: a card that
// comes to life gets its load, one that ends gives back what it holds.
func (i *Issuer) SetState(ref fulfilment.Ref, state card.AccountState) {
	i.Lock()
	defer i.Unlock()
	a, ok := i.accounts[ref]
	if !ok {
		panic(fmt.Sprintf("cardtest: no card was opened by %s", ref))
	}
	if a.State == card.AccountPending {
		a.balance, a.limit = a.Loaded, a.Loaded
	}
	if state == card.AccountClosed || state == card.AccountRejected {
		i.float += a.balance
		a.balance = 0
	}
	a.State, a.Refusal = state, nil
	if state == card.AccountRejected {
		a.Refusal = &fulfilment.Refusal{Code: fulfilment.RefusedUnstated, Message: "declined by staff"}
	}
}

// Spend takes money off a card, as its owner would.
func (i *Issuer) Spend(ref fulfilment.Ref, amount money.Cents) {
	i.Lock()
	defer i.Unlock()
	a, ok := i.accounts[ref]
	if !ok || a.balance < amount {
		panic(fmt.Sprintf("cardtest: %s cannot be spent by %s", amount, ref))
	}
	a.balance -= amount
}

// number is the nth card's, with its check digit.
func number(n int) string {
	for check := range 10 {
		if number := fmt.Sprintf("400000%09d%d", n+1, check); luhn(number) {
			return number
		}
	}
	panic("cardtest: a number has no check digit")
}

// seen is a card as an adapter shows it: an unfamiliar state is a pending one.
func (a *account) seen(mode fulfilmenttest.Mode) card.Account {
	shown := a.Account
	if mode == fulfilmenttest.UnknownState {
		shown.State, shown.Refusal = card.AccountPending, nil
	}
	return shown
}

func (m *moved) seen(mode fulfilmenttest.Mode) card.MovementRecord {
	shown := m.MovementRecord
	if mode == fulfilmenttest.UnknownState {
		shown.State, shown.Refusal = card.MovePending, nil
	}
	return shown
}
