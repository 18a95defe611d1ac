package stripe

import (
	"context"
	"fmt"
	"net/http"

	stripego "github.com/stripe/stripe-go/v85"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
)

// Balance implements card.Vault: the limit, less what was spent and what is held. What a merchant gave back is left
// out, because Stripe does not say that the limit has it again. Holds are read before what was spent, so that one which
// turns into the other meanwhile counts twice, never not at all.
func (i *Issuer) Balance(ctx context.Context, account string) (card.Balance, error) {
	b, err := i.balance(ctx, account)
	if err != nil {
		return card.Balance{}, fmt.Errorf("read a balance: %w", err)
	}
	return b, nil
}

func (i *Issuer) balance(ctx context.Context, account string) (card.Balance, error) {
	asOf := i.now().UTC()
	on, err := i.card(ctx, "balance", account)
	if err != nil {
		return card.Balance{}, err
	}
	left, err := on.limit()
	if err != nil {
		return card.Balance{}, err
	}
	err = lister[*authorizationAnswer](i.listAuthorizations).each(ctx, span{of: account},
		func(a *authorizationAnswer) error {
			left -= a.held()
			return about(a.Card.id, string(a.Currency), account)
		})
	if err != nil {
		return card.Balance{}, err
	}
	err = lister[*transactionAnswer](i.listTransactions).each(ctx, span{of: account},
		func(a *transactionAnswer) error {
			left += money.Cents(min(*a.Amount, 0))
			return about(*a.Card, string(a.Currency), account)
		})
	if err != nil {
		return card.Balance{}, err
	}
	return card.Balance{Available: max(left, 0), AsOf: asOf}, nil
}

func about(got nameOf, currency, account string) error {
	if string(got) != account || currency != currencyUSD {
		return unclear("the answer is about another card or currency")
	}
	return nil
}

// spending is what was spent with each card, and what of it merchants gave back.
type spending struct {
	*follower[*transactionAnswer]
	captured, returned map[string]money.Cents
}

func newSpending(list lister[*transactionAnswer]) *spending {
	s := &spending{captured: map[string]money.Cents{}, returned: map[string]money.Cents{}}
	s.follower = newFollower(list, func(a *transactionAnswer) {
		switch {
		case a.Currency != currencyUSD:
		case *a.Amount < 0:
			s.captured[string(*a.Card)] -= money.Cents(*a.Amount)
		default:
			s.returned[string(*a.Card)] += money.Cents(*a.Amount)
		}
	})
	return s
}

// use is what was spent with the cards of the account and is held of their limits.
type use struct{ held, captured, returned map[string]money.Cents }

// inUse reads what is held of all cards, and then what was spent with them.
func (i *Issuer) inUse(ctx context.Context) (use, error) {
	u := use{
		held: map[string]money.Cents{}, captured: map[string]money.Cents{}, returned: map[string]money.Cents{},
	}
	pending := span{status: string(stripego.IssuingAuthorizationStatusPending)}
	err := lister[*authorizationAnswer](i.listAuthorizations).each(ctx, pending, func(a *authorizationAnswer) error {
		if a.Currency == currencyUSD {
			u.held[string(a.Card.id)] += a.held()
		}
		return nil
	})
	if err != nil {
		return use{}, err
	}
	if err := i.spent.follow(ctx); err != nil {
		return use{}, err
	}
	defer i.spent.leave()
	for id, amount := range i.spent.captured {
		u.captured[id] = amount
	}
	for id, amount := range i.spent.returned {
		u.returned[id] = amount
	}
	return u, nil
}

// balanceOf is what can be spent with a card.
func (u use) balanceOf(a *cardAnswer) (money.Cents, error) {
	limit, err := a.limit()
	return max(0, limit-u.captured[a.ID]-u.held[a.ID]), err
}

// committed is the most that can be spent with a card, if Stripe counts what merchants gave back.
func (u use) committed(a *cardAnswer) (money.Cents, error) {
	if _, ours := a.ref(); a.state() == card.AccountClosed || (!ours && a.Currency != currencyUSD) {
		return 0, nil
	}
	limit, err := a.limit()
	return min(limit, max(0, limit-u.captured[a.ID]+u.returned[a.ID]-u.held[a.ID])), err
}

// holder fails while no cards can be opened in the name of the programme's cardholder.
func (i *Issuer) holder(ctx context.Context) error {
	got, err := i.readHolder(ctx, "holder")
	if err != nil {
		return err
	}
	return got.usable()
}

// readHolder reads the programme's cardholder.
func (i *Issuer) readHolder(ctx context.Context, op string) (got holderAnswer, err error) {
	p := &stripego.IssuingCardholderRetrieveParams{}
	err = i.send(ctx, request{
		op: op, method: http.MethodGet, path: "/v1/issuing/cardholders/" + i.cardholder,
		route: "/v1/issuing/cardholders/{cardholder}", params: p, bind: func(ctx context.Context) { p.Context = ctx },
	}, &got)
	if err == nil && got.ID != i.cardholder {
		err = unclear("the answer is about another cardholder")
	}
	return got, err
}
