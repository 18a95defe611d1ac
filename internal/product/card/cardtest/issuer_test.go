package cardtest

import (
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
)

func TestIssuerInMemoryKeepsToTheSuite(t *testing.T) {
	Run(t, NewIssuer(Config{}).Harness())
}

func TestIssuerInMemoryKeepsLimits(t *testing.T) {
	Run(t, NewIssuer(Config{Limits: true}).Harness())
}

func TestIssuerRejectsLaterAndGivesTheFloatBack(t *testing.T) {
	i := NewIssuer(Config{Float: 5000})
	i.Fault(Open, fulfilmenttest.Rejected)
	ref := fulfilmenttest.NewRef()
	opened, err := i.Open(t.Context(), card.Opening{Ref: ref, Load: 2500})
	if err != nil || opened.State != card.AccountPending {
		t.Fatalf("open = %+v, %v", opened, err)
	}
	i.Settle()
	read, err := i.Account(t.Context(), ref)
	if err != nil || read.State != card.AccountRejected || read.Refusal.Code != card.RefusedHolder {
		t.Errorf("read back = %+v, %v", read, err)
	}
	if stock, err := i.Stock(t.Context()); err != nil || stock.Float != 5000 {
		t.Errorf("stock = %+v, %v", stock, err)
	}
}

func TestIssuerStaysPendingUntilItIsMoved(t *testing.T) {
	i := NewIssuer(Config{Instant: true})
	i.Fault(Open, fulfilmenttest.StaysPending)
	ref := fulfilmenttest.NewRef()
	if _, err := i.Open(t.Context(), card.Opening{Ref: ref, Load: 2500}); err != nil {
		t.Fatal(err)
	}
	i.Settle()
	if read, err := i.Account(t.Context(), ref); err != nil || read.State != card.AccountPending {
		t.Errorf("read back = %+v, %v", read, err)
	}
	i.SetState(ref, card.AccountActive)
	if read, err := i.Account(t.Context(), ref); err != nil || read.State != card.AccountActive {
		t.Errorf("read back = %+v, %v", read, err)
	}
	i.Spend(ref, 500)
	if balance, err := i.Balance(t.Context(), read(t, i, ref).ID); err != nil || balance.Available != 2000 {
		t.Errorf("balance = %+v, %v", balance, err)
	}
	if i.Calls(Account) != 3 {
		t.Errorf("%d look-ups were counted", i.Calls(Account))
	}
}

func read(t *testing.T, i *Issuer, ref fulfilment.Ref) card.Account {
	t.Helper()
	account, err := i.Account(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return account
}
