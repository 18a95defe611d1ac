package cardtest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
)

// SetFrozen implements card.Controls. What SetState has frozen stays frozen.
func (i *Issuer) SetFrozen(ctx context.Context, id string, frozen bool) (card.AccountState, error) {
	i.Lock()
	defer i.Unlock()
	if err := i.Answer(ctx, Lock); err != nil {
		return "", err
	}
	a, ok := i.byID[id]
	switch {
	case !ok:
		return "", noCard(fulfilment.RefusedRequest)
	case frozen && a.State == card.AccountActive:
		a.State, a.byOwner = card.AccountFrozen, true
	case !frozen && a.State == card.AccountFrozen && a.byOwner:
		a.State, a.byOwner = card.AccountActive, false
	case frozen && a.State == card.AccountFrozen, !frozen && a.State == card.AccountActive:
	default:
		return "", &fulfilment.Refusal{Code: card.RefusedState, Message: "the card is " + string(a.State)}
	}
	return a.State, nil
}

// Transactions implements card.Controls.
func (i *Issuer) Transactions(
	ctx context.Context, id, after string, most int,
) (page []card.Transaction, next string, err error) {
	i.Lock()
	defer i.Unlock()
	if err := i.Answer(ctx, Purchases); err != nil {
		return nil, "", err
	}
	a, ok := i.byID[id]
	if !ok {
		return nil, "", noCard(fulfilment.RefusedRequest)
	}
	from := len(a.made)
	if after != "" {
		from = slices.IndexFunc(a.made, func(t card.Transaction) bool { return t.ID == after })
		if from < 0 {
			return nil, "", &fulfilment.Refusal{Code: fulfilment.RefusedRequest, Message: "there is no such cursor"}
		}
	}
	for _, t := range slices.Backward(a.made[:from]) {
		if len(page) == most {
			return page, page[most-1].ID, nil
		}
		page = append(page, t)
	}
	return page, "", nil
}

// Charge is a merchant's purchase with a card.
func (i *Issuer) Charge(id string, amount money.Cents, at card.Merchant) {
	i.Lock()
	defer i.Unlock()
	a := i.byID[id]
	t := card.Transaction{
		ID: fmt.Sprintf("txn-%d", len(a.made)+1), At: i.now().UTC(), Kind: card.Purchase,
		Status: card.TransactionCompleted, Amount: amount, Merchant: at,
	}
	switch {
	case a.State != card.AccountActive:
		t.Status, t.Declined = card.TransactionDeclined, card.DeclinedFrozen
	case i.beyond(a, amount, at) != "":
		t.Status, t.Declined = card.TransactionDeclined, i.beyond(a, amount, at)
	case a.balance < amount:
		t.Status, t.Declined = card.TransactionDeclined, card.DeclinedFunds
	default:
		a.balance -= amount
	}
	a.made = append(a.made, t)
}

func (h Harness) setFrozen(t *testing.T, account card.Account, frozen bool, want card.AccountState) {
	t.Helper()
	got, err := h.Controls.SetFrozen(fulfilmenttest.Context(t), account.ID, frozen)
	if err != nil || got != want {
		t.Fatalf("frozen %t: the card is %q, %v; want %s", frozen, got, err, want)
	}
	read, err := h.Issuer.Account(fulfilmenttest.Context(t), account.Ref)
	if err != nil || read.State != want {
		t.Fatalf("frozen %t: the card reads back as %+v, %v; want %s", frozen, read, err, want)
	}
}

func (h Harness) frozenCardIsNotUsed(t *testing.T) {
	account := h.active(t)
	for range 2 { // the second time changes nothing
		h.setFrozen(t, account, true, card.AccountFrozen)
	}
	if h.Charge != nil {
		h.Charge(t, account.ID, 100)
	}
	h.wantBalance(t, account.ID, cardLoad)
	for range 2 {
		h.setFrozen(t, account, false, card.AccountActive)
	}
	if h.Charge != nil {
		h.Charge(t, account.ID, 100)
		h.wantBalance(t, account.ID, cardLoad-100)
	}
}

// lies are the answers to a read or a control that must not be taken for the truth.
var lies = []fulfilmenttest.Mode{
	fulfilmenttest.ErrorBefore, fulfilmenttest.ErrorAfter, fulfilmenttest.TimeoutAfter, fulfilmenttest.Malformed,
	fulfilmenttest.Truncated, fulfilmenttest.Huge, fulfilmenttest.RateLimited, fulfilmenttest.Unauthorized,
}

func (h Harness) freezingFails(t *testing.T) {
	account := h.active(t)
	for _, mode := range lies {
		h.Inject(t, Lock, mode)
		state, err := h.Controls.SetFrozen(fulfilmenttest.Context(t), account.ID, true)
		if _, refused := asRefusal(err); err == nil || refused || state != "" {
			t.Errorf("%s: the card is %q, %v; want that it is not known", mode, state, err)
		}
		h.setFrozen(t, account, true, card.AccountFrozen) // the same again is what a caller does
		h.setFrozen(t, account, false, card.AccountActive)
	}
}

func (h Harness) transactionsAreListed(t *testing.T) {
	account := h.active(t)
	if got, next := h.transactions(t, account.ID, "", 10); len(got) != 0 || next != "" {
		t.Errorf("an unused card has the transactions %+v, next %q", got, next)
	}
	if h.Charge == nil {
		return
	}
	amounts := []money.Cents{100, 9_999_999, 300}
	for _, amount := range amounts {
		h.Charge(t, account.ID, amount)
	}
	var all []card.Transaction
	for after, pages := "", 0; ; pages++ {
		page, next := h.transactions(t, account.ID, after, 2)
		all = append(all, page...)
		if next == "" || pages > 3 {
			break
		}
		after = next
	}
	if len(all) != len(amounts) {
		t.Fatalf("%d transactions are listed, want %d: %+v", len(all), len(amounts), all)
	}
	for n, got := range all {
		amount := amounts[len(amounts)-1-n]
		declined := amount > cardLoad
		if got.ID == "" || got.At.IsZero() || got.Kind != card.Purchase || got.Amount != amount ||
			got.Merchant.Name == "" || (got.Status == card.TransactionDeclined) != declined ||
			(got.Declined == card.DeclinedFunds) != declined {
			t.Errorf("transaction %d is %+v; want a purchase of %v, declined %t", n, got, amount, declined)
		}
	}
}

func (h Harness) transactions(t *testing.T, account, after string, most int) ([]card.Transaction, string) {
	t.Helper()
	page, next, err := h.Controls.Transactions(fulfilmenttest.Context(t), account, after, most)
	if err != nil || len(page) > most {
		t.Fatalf("list transactions: %d of at most %d, %v", len(page), most, err)
	}
	return page, next
}

func (h Harness) listingTransactionsFails(t *testing.T) {
	account := h.active(t)
	for _, mode := range lies {
		h.Inject(t, Purchases, mode)
		page, next, err := h.Controls.Transactions(fulfilmenttest.Context(t), account.ID, "", 10)
		if err == nil || len(page) != 0 || next != "" {
			t.Errorf("%s: %d transactions, next %q, without an error", mode, len(page), next)
		}
	}
}
