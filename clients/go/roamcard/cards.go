package roamcard

import (
	"context"
	"fmt"
	"iter"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// Cards buys cards, and serves those of the wallet.
type Cards struct{ client *Client }

// Purchase buys a card at the published price. It is issued meanwhile: see WaitUntilActive. The same key gives the
// same order; NewKey makes one, which comes back with the purchase and in an AmbiguousPaymentError. An empty one is
// ErrEmpty.
func (c Cards) Purchase(ctx context.Context, key string) (*Purchase, error) {
	return c.client.buy(ctx, key, func(ctx context.Context, key string) (*roamcardv1.Order, error) {
		res, err := c.client.Services.Card.PurchaseCard(ctx, &roamcardv1.PurchaseCardRequest{IdempotencyKey: key})
		return res.GetOrder(), err
	})
}

// TopUp adds credit to the wallet's card: amount is what is paid, from which the service keeps its load fee. The
// key is as in Purchase.
func (c Cards) TopUp(ctx context.Context, amount Cents, key string) (*Purchase, error) {
	cents, err := wire(amount)
	if err != nil {
		return nil, err
	}
	return c.topUp(ctx, &cents, key)
}

// topUp leaves the amount to the service when there is none.
func (c Cards) topUp(ctx context.Context, cents *uint32, key string) (*Purchase, error) {
	return c.client.buy(ctx, key, func(ctx context.Context, key string) (*roamcardv1.Order, error) {
		asked := &roamcardv1.TopUpCardRequest{IdempotencyKey: key, AmountUsdCents: cents}
		res, err := c.client.Services.Card.TopUpCard(ctx, asked)
		return res.GetOrder(), err
	})
}

// WaitUntilActive waits until the card of an order can be used, and returns its id.
func (c Cards) WaitUntilActive(ctx context.Context, orderID string) (cardID string, err error) {
	var at *roamcardv1.Order
	err = c.client.Orders.Watch(ctx, orderID, func(o *roamcardv1.Order) bool {
		at = o
		return IssuanceOf(o) != StepActive
	})
	if err != nil {
		return "", fmt.Errorf("wait for the card: %w", err)
	}
	if id := at.GetIssuance().GetCardId(); id != "" && IssuanceOf(at) == StepActive {
		return id, nil
	}
	return "", fmt.Errorf("order %s is %s: no card comes of it by itself", orderID, at.GetStatus())
}

// List lists the wallet's cards.
func (c Cards) List(ctx context.Context) ([]*roamcardv1.Card, error) {
	res, err := c.client.Services.Card.ListCards(ctx, &roamcardv1.ListCardsRequest{})
	return res.GetCards(), err
}

// Balance reads what is on a card, from the issuer.
func (c Cards) Balance(ctx context.Context, cardID string) (*roamcardv1.GetCardBalanceResponse, error) {
	return c.client.Services.Card.GetCardBalance(ctx, &roamcardv1.GetCardBalanceRequest{Id: cardID})
}

// Freeze stops a card from being used until Unfreeze: purchases are declined, and it cannot be topped up. A card that
// is frozen stays as it is.
func (c Cards) Freeze(ctx context.Context, cardID string) (*roamcardv1.Card, error) {
	res, err := c.client.Services.Card.FreezeCard(ctx, &roamcardv1.FreezeCardRequest{Id: cardID})
	return res.GetCard(), err
}

// Unfreeze lets a card that its owner has frozen be used again. What the issuer has locked stays locked.
func (c Cards) Unfreeze(ctx context.Context, cardID string) (*roamcardv1.Card, error) {
	res, err := c.client.Services.Card.UnfreezeCard(ctx, &roamcardv1.UnfreezeCardRequest{Id: cardID})
	return res.GetCard(), err
}

// CardLimits are what a wallet allows its card to be used for. Zero values do not limit.
type CardLimits struct {
	// PerTransaction is the most that one purchase may be, and PerMonth the most that those of a month may be together, by
	// the issuer's calendar.
	PerTransaction, PerMonth Cents
	// AllowedCategories are the merchant category codes, four digits (ISO 18245), that alone may be used, and
	// BlockedCategories those that may not be. At most one of both is given.
	AllowedCategories, BlockedCategories []string
}

// Limits reads the limits of a card, from the issuer.
func (c Cards) Limits(ctx context.Context, cardID string) (CardLimits, error) {
	res, err := c.client.Services.Card.GetCardLimits(ctx, &roamcardv1.GetCardLimitsRequest{Id: cardID})
	return limitsOf(res.GetLimits()), err
}

// SetLimits replaces the limits of a card, and returns those that it has then. They never change what is on it. The
// discovery's controls say which of them the issuer has; another is card_control_missing.
func (c Cards) SetLimits(ctx context.Context, cardID string, to CardLimits) (CardLimits, error) {
	asked := &roamcardv1.SetCardLimitsRequest{
		Id: cardID, AllowedCategories: to.AllowedCategories, BlockedCategories: to.BlockedCategories,
	}
	for _, one := range []struct {
		of   Cents
		into **uint32
	}{{to.PerTransaction, &asked.PerTransactionUsdCents}, {to.PerMonth, &asked.PerMonthUsdCents}} {
		if one.of == 0 {
			continue
		}
		cents, err := wire(one.of)
		if err != nil {
			return CardLimits{}, err
		}
		*one.into = &cents
	}
	res, err := c.client.Services.Card.SetCardLimits(ctx, asked)
	return limitsOf(res.GetLimits()), err
}

func limitsOf(l *roamcardv1.CardLimits) CardLimits {
	return CardLimits{
		PerTransaction: Cents(l.GetPerTransactionUsdCents()), PerMonth: Cents(l.GetPerMonthUsdCents()),
		AllowedCategories: l.GetAllowedCategories(), BlockedCategories: l.GetBlockedCategories(),
	}
}

// Details reads what merchants ask for when a card is used, next to its number: the billing address that belongs to it,
// and how a 3-D Secure challenge is answered, as far as its issuer tells. Both are the operator's.
func (c Cards) Details(ctx context.Context, cardID string) (*roamcardv1.CardDetails, error) {
	res, err := c.client.Services.Card.GetCardDetails(ctx, &roamcardv1.GetCardDetailsRequest{Id: cardID})
	return res.GetDetails(), err
}

// Transactions lists what a card was used for, newest first, page by page as they are taken. The merchants' names are
// text of strangers.
func (c Cards) Transactions(ctx context.Context, cardID string) iter.Seq2[*roamcardv1.CardTransaction, error] {
	return pages(func(token string) (*Page[*roamcardv1.CardTransaction], error) {
		return c.TransactionsPage(ctx, cardID, token)
	})
}

// TransactionsPage reads one page of what Transactions lists: the first one, or the one that token names.
func (c Cards) TransactionsPage(
	ctx context.Context, cardID, token string,
) (*Page[*roamcardv1.CardTransaction], error) {
	res, err := c.client.Services.Card.ListCardTransactions(ctx,
		&roamcardv1.ListCardTransactionsRequest{Id: cardID, PageToken: given(token)})
	if err != nil {
		return nil, err
	}
	return page(res.GetTransactions(), res.NextPageToken), nil
}
