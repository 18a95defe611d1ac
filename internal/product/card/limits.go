package card

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

// Limits are what an owner allows a card to be used for. They say nothing about what is on the card.
type Limits struct {
	// Transaction is the most that one purchase may be, and Month the most that those of a month may be together, by the
	// issuer's calendar; zero without a limit.
	Transaction, Month money.Cents
	// Allowed are the merchant category codes, four digits (ISO 18245), that alone may be used; all where it is empty.
	// Blocked are those that may not be used. At most one of both has any.
	Allowed, Blocked []string
}

// LimitKinds are the limits that an issuer lets owners set.
type LimitKinds struct {
	Transaction, Month, Merchants bool
	// OneAmount: the issuer takes an amount per transaction or one per month, not both at once.
	OneAmount bool
}

// Any reports whether there is any limit that an owner can set.
func (k LimitKinds) Any() bool { return k.Transaction || k.Month || k.Merchants }

// And are the limits that both have.
func (k LimitKinds) And(other LimitKinds) LimitKinds {
	return LimitKinds{
		Transaction: k.Transaction && other.Transaction, Month: k.Month && other.Month,
		Merchants: k.Merchants && other.Merchants, OneAmount: k.OneAmount || other.OneAmount,
	}
}

// The bounds of limits.
const (
	// MaxLimit is the largest amount of a limit.
	MaxLimit money.Cents = 1_000_000
	// MaxCategories is how many merchant categories a limit names at most.
	MaxCategories = 50
)

// RefusedCategory is the neutral code of an issuer that does not know a merchant category.
const RefusedCategory = "merchant_category_unknown"

var category = regexp.MustCompile(`^[0-9]{4}$`)

// Check is a schema_invalid for limits that no issuer can set.
func (l Limits) Check() error {
	for name, amount := range map[string]money.Cents{
		"perTransactionUsdCents": l.Transaction, "perMonthUsdCents": l.Month,
	} {
		if amount < 0 || amount > MaxLimit {
			return fault.Newf(fault.SchemaInvalid, "%s is 1 to %d US dollar cents, or absent.", name, int64(MaxLimit))
		}
	}
	if len(l.Allowed) > 0 && len(l.Blocked) > 0 {
		return fault.New(fault.SchemaInvalid, "allowedCategories and blockedCategories cannot be given both.")
	}
	all := slices.Concat(l.Allowed, l.Blocked)
	if len(all) > MaxCategories {
		return fault.Newf(fault.SchemaInvalid, "At most %d merchant categories can be given.", MaxCategories)
	}
	for n, one := range all {
		if !category.MatchString(one) || slices.Contains(all[:n], one) {
			return fault.New(fault.SchemaInvalid, "A merchant category is a code of four digits (ISO 18245), given once.")
		}
	}
	return nil
}

// Equal compares limits, whatever the order of their categories is.
func (l Limits) Equal(other Limits) bool { return fmt.Sprint(l.sorted()) == fmt.Sprint(other.sorted()) }

func (l Limits) sorted() Limits {
	l.Allowed, l.Blocked = slices.Sorted(slices.Values(l.Allowed)), slices.Sorted(slices.Values(l.Blocked))
	return l
}

// within is a card_control_missing for limits that an issuer does not have.
func (l Limits) within(k LimitKinds) error {
	what := ""
	switch {
	case l.Transaction > 0 && !k.Transaction:
		what = "a limit per transaction"
	case l.Month > 0 && !k.Month:
		what = "a limit per month"
	case len(l.Allowed)+len(l.Blocked) > 0 && !k.Merchants:
		what = "limits to merchant categories"
	case l.Transaction > 0 && l.Month > 0 && k.OneAmount:
		what = "a limit per transaction and one per month at once"
	default:
		return nil
	}
	return fault.New(fault.CardControlMissing, "The card's issuer does not offer "+what+".")
}

func limits(of Capabilities) bool { return of.Limits.Any() }

// Limits reads the limits of an owner's card at its issuer, whatever the card's status is.
func (c *Cards) Limits(ctx context.Context, id uuid.UUID, owner x402.Address) (Limits, error) {
	at, card, err := c.controlled(ctx, id, owner, limits)
	if err != nil {
		return Limits{}, err
	}
	if card.Account == "" {
		return Limits{}, notActive(card)
	}
	ctx, cancel := fault.Within(ctx, c.CallTimeout)
	defer cancel()
	got, err := at.Controls.Limits(ctx, card.Account)
	if err != nil {
		return Limits{}, fmt.Errorf("read the limits: %w", errors.Join(err, issuerDown()))
	}
	return got.sorted(), nil
}

// SetLimits replaces the limits of an owner's card that is ACTIVE or FROZEN, and returns those that its issuer has
// then. Asked twice it changes nothing more.
func (c *Cards) SetLimits(ctx context.Context, id uuid.UUID, owner x402.Address, want Limits) (Limits, error) {
	if err := want.Check(); err != nil {
		return Limits{}, err
	}
	at, card, err := c.changeable(ctx, id, owner, limits)
	if err != nil {
		return Limits{}, err
	}
	if err := want.within(at.Capabilities.Limits); err != nil {
		return Limits{}, err
	}
	leave, err := c.enter(ctx, at, card)
	if err != nil {
		return Limits{}, err
	}
	asking, cancel := fault.Within(ctx, c.CallTimeout)
	defer cancel()
	got, err := at.Controls.SetLimits(asking, card.Account, want)
	refusal, refused := errors.AsType[*fulfilment.Refusal](err)
	if err == nil || refused {
		leave(ctx)
	}
	switch {
	case refused && refusal.Code == RefusedCategory:
		return Limits{}, fault.New(fault.SchemaInvalid, "The card's issuer does not know a merchant category that is given.")
	case refused:
		return Limits{}, fault.New(fault.CardNotActive, "The issuer does not let the card's limits be changed now.")
	case err != nil:
		return Limits{}, fmt.Errorf("set the limits: %w", errors.Join(err, issuerDown()))
	case !got.Equal(want):
		return Limits{}, fault.New(fault.DependencyDown, "The card issuer has not confirmed the limits yet.")
	}
	return got.sorted(), nil
}

// enter takes a card for a change of its owner's, and leave gives it back. Where the limit of all time funds the card,
// the issuer replaces all limits at once: a load meanwhile would be undone by limits that were read before it, and the
// other way round. A change whose outcome is not known keeps the card for as long as it may still take effect.
func (c *Cards) enter(ctx context.Context, at *provider, card Card) (leave func(context.Context), err error) {
	if at.Capabilities.Funding != Limit {
		return func(context.Context) {}, nil
	}
	change := uuid.New()
	err = c.Store.BeginChange(ctx, card.ID, change, 2*c.CallTimeout+at.Traits.VisibilityDelay)
	if errors.Is(err, ErrBusy) {
		return nil, fault.New(fault.DependencyDown,
			"Another change of the card is under way at its issuer. Its limits can be changed when that is done.")
	}
	if err != nil {
		return nil, fmt.Errorf("take the card: %w", err)
	}
	return func(ctx context.Context) {
		// What is not given back is free after a while.
		if err := c.Store.EndChange(context.WithoutCancel(ctx), card.ID, change); err != nil {
			c.Log.WarnContext(ctx, "a card is not given back", "card", card.ID, "error", err)
		}
	}, nil
}
