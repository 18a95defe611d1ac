package cardtest

import (
	"context"
	"slices"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
)

// Limits implements card.Controls.
func (i *Issuer) Limits(ctx context.Context, id string) (card.Limits, error) {
	i.Lock()
	defer i.Unlock()
	if err := i.Answer(ctx, ReadLimits); err != nil {
		return card.Limits{}, err
	}
	a, ok := i.byID[id]
	if !ok {
		return card.Limits{}, noCard(fulfilment.RefusedRequest)
	}
	return a.limits, nil
}

// SetLimits implements card.Controls. The issuer knows every category but 9999.
func (i *Issuer) SetLimits(ctx context.Context, id string, l card.Limits) (card.Limits, error) {
	i.Lock()
	defer i.Unlock()
	if err := i.Answer(ctx, SetLimits); err != nil {
		return card.Limits{}, err
	}
	a, ok := i.byID[id]
	switch {
	case !ok:
		return card.Limits{}, noCard(fulfilment.RefusedRequest)
	case a.State == card.AccountClosed:
		return card.Limits{}, &fulfilment.Refusal{Code: card.RefusedState, Message: "the card is closed"}
	case slices.Contains(slices.Concat(l.Allowed, l.Blocked), "9999"):
		return card.Limits{}, &fulfilment.Refusal{Code: card.RefusedCategory, Message: "there is no such category"}
	}
	a.limits = l
	return a.limits, nil
}

// beyond is why a purchase is beyond the card's limits; empty when it is not. A month is that of the calendar.
func (i *Issuer) beyond(a *account, amount money.Cents, at card.Merchant) card.DeclineReason {
	spent, now := money.Cents(0), i.now().UTC()
	for _, t := range a.made {
		if t.Status == card.TransactionCompleted && t.Kind == card.Purchase &&
			t.At.Year() == now.Year() && t.At.Month() == now.Month() {
			spent += t.Amount
		}
	}
	l := a.limits
	switch {
	case slices.Contains(l.Blocked, at.Category), len(l.Allowed) > 0 && !slices.Contains(l.Allowed, at.Category):
		return card.DeclinedMerchant
	case l.Transaction > 0 && amount > l.Transaction, l.Month > 0 && spent+amount > l.Month:
		return card.DeclinedLimit
	}
	return ""
}

// setLimits sets limits, reads them back, and sees that the balance and the state of the card stay.
func (h Harness) setLimits(t *testing.T, account card.Account, want card.Limits) {
	t.Helper()
	before, err := h.Vault.Balance(fulfilmenttest.Context(t), account.ID)
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Controls.SetLimits(fulfilmenttest.Context(t), account.ID, want)
	if err != nil || !got.Equal(want) {
		t.Fatalf("set %+v: %+v, %v", want, got, err)
	}
	got, err = h.Controls.Limits(fulfilmenttest.Context(t), account.ID)
	if err != nil || !got.Equal(want) {
		t.Fatalf("set %+v: %+v is read back, %v", want, got, err)
	}
	h.wantBalance(t, account.ID, before.Available)
	read, err := h.Issuer.Account(fulfilmenttest.Context(t), account.Ref)
	if err != nil || read.State != account.State {
		t.Fatalf("set %+v: the card reads back as %+v, %v", want, read, err)
	}
}

// limitsOffered are what an owner may set at the issuer, one kind after the other, with the purchases that are declined
// then.
func (h Harness) limitsOffered() []limitCase {
	var all []limitCase
	k := h.Capabilities.Limits
	if k.Transaction {
		all = append(all, limitCase{
			limits: card.Limits{Transaction: 300}, fits: 300, beyond: 301, declined: card.DeclinedLimit,
		})
	}
	if k.Month {
		all = append(all, limitCase{
			limits: card.Limits{Month: 1500}, fits: 200, beyond: 1501, declined: card.DeclinedLimit,
		})
	}
	if k.Merchants {
		all = append(all,
			limitCase{limits: card.Limits{Blocked: []string{"7995", "5411"}}, beyond: 100, declined: card.DeclinedMerchant},
			limitCase{limits: card.Limits{Allowed: []string{"4511", "5812"}}, beyond: 100, declined: card.DeclinedMerchant},
			limitCase{limits: card.Limits{Allowed: []string{"5411"}}, fits: 100},
		)
	}
	if k.Transaction && k.Month && k.Merchants && !k.OneAmount {
		all = append(all, limitCase{
			limits: card.Limits{Transaction: 100, Month: 1400, Blocked: []string{"7995"}}, fits: 100, beyond: 101,
			declined: card.DeclinedLimit,
		})
	}
	return append(all, limitCase{fits: 700})
}

// limitCase are limits, with an amount that fits them and one that is beyond them; zero for none. The merchant is one
// of category 5411.
type limitCase struct {
	limits       card.Limits
	fits, beyond money.Cents
	declined     card.DeclineReason
}

func (h Harness) limitsAreKept(t *testing.T) {
	account := h.active(t)
	h.setLimits(t, account, card.Limits{})
	left := cardLoad
	for _, c := range h.limitsOffered() {
		for range 2 { // the second time changes nothing
			h.setLimits(t, account, c.limits)
		}
		if h.Charge == nil {
			continue
		}
		if c.beyond > 0 {
			h.Charge(t, account.ID, c.beyond)
			h.wantBalance(t, account.ID, left)
			h.wantDeclined(t, account.ID, c.declined)
		}
		if c.fits > 0 {
			h.Charge(t, account.ID, c.fits)
			left -= c.fits
			h.wantBalance(t, account.ID, left)
		}
	}
}

func (h Harness) wantDeclined(t *testing.T, account string, want card.DeclineReason) {
	t.Helper()
	if !h.Capabilities.Transactions {
		return
	}
	page, _ := h.transactions(t, account, "", 1)
	if len(page) != 1 || page[0].Status != card.TransactionDeclined || page[0].Declined != want {
		t.Fatalf("the last purchase is %+v; want it declined for %s", page, want)
	}
}

// fundsAndLimitsAreApart: a load leaves the limits alone, and limits leave what was loaded alone.
func (h Harness) fundsAndLimitsAreApart(t *testing.T) {
	account := h.active(t)
	all := h.limitsOffered()
	want := all[0].limits
	h.setLimits(t, account, want)
	load := card.Movement{
		Ref: fulfilmenttest.NewRef(), Account: account.ID, Direction: card.Load, Amount: 1200,
	}
	load.Target = h.target(load, cardLoad)
	if _, err := h.Issuer.Move(fulfilmenttest.Context(t), load); err != nil {
		t.Fatalf("load: %v", err)
	}
	h.Settle()
	h.wantBalance(t, account.ID, cardLoad+1200)
	if got, err := h.Controls.Limits(fulfilmenttest.Context(t), account.ID); err != nil || !got.Equal(want) {
		t.Fatalf("after a load the limits are %+v, %v; want %+v", got, err, want)
	}
	for _, c := range all {
		h.setLimits(t, account, c.limits)
	}
	h.wantBalance(t, account.ID, cardLoad+1200)
	if h.Charge != nil {
		h.Charge(t, account.ID, cardLoad+1201) // what is not on the card stays declined
		h.wantBalance(t, account.ID, cardLoad+1200)
	}
}

func (h Harness) settingLimitsFails(t *testing.T) {
	account := h.active(t)
	all := h.limitsOffered()
	first, second := all[0].limits, all[len(all)-1].limits
	for _, mode := range lies {
		h.setLimits(t, account, first)
		h.Inject(t, SetLimits, mode)
		got, err := h.Controls.SetLimits(fulfilmenttest.Context(t), account.ID, second)
		if _, refused := asRefusal(err); err == nil || refused || !got.Equal(card.Limits{}) {
			t.Errorf("%s: the limits are %+v, %v; want that they are not known", mode, got, err)
		}
		h.setLimits(t, account, second) // the same again is what a caller does
		h.Inject(t, ReadLimits, mode)
		if got, err := h.Controls.Limits(fulfilmenttest.Context(t), account.ID); err == nil {
			t.Errorf("%s: the limits are read as %+v", mode, got)
		}
	}
}
