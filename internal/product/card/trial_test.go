package card_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider"
)

func TestTrialFindsNothingWrongWithRealIssuers(t *testing.T) {
	for name, tc := range map[string]struct {
		made    func(*testing.T) vendor
		skipped []string
	}{
		"purse": {newPurse, nil},
		"limit": {newLimit, []string{"withdraws from a card"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := tc.made(t)
				var skipped []string
				found := card.Try(t.Context(), v.client, callTimeout)
				for _, o := range found {
					if o.Err != nil {
						t.Errorf("%s: %v", o.Step, o.Err)
					}
					if o.Skipped {
						skipped = append(skipped, o.Step)
					}
				}
				if diff := cmp.Diff(tc.skipped, skipped); diff != "" || len(found) < 8 {
					t.Errorf("%d steps; skipped: %s", len(found), diff)
				}
				if all := v.balances(); len(all) != 1 {
					t.Errorf("%d cards were opened", len(all))
				}
			})
		})
	}
}

// unexpected is an issuer that does something else than its adapter takes for granted.
type unexpected struct {
	provider.IssuerClient
	card.Controls
	open   func(ctx context.Context, o card.Opening, opened int) (card.Account, error)
	move   func(ctx context.Context, m card.Movement, moved int) (card.MovementRecord, error)
	absent error

	opened, moved int
}

func (u *unexpected) Open(ctx context.Context, o card.Opening) (card.Account, error) {
	u.opened++
	if u.open != nil {
		return u.open(ctx, o, u.opened)
	}
	return u.IssuerClient.Open(ctx, o)
}

func (u *unexpected) Move(ctx context.Context, m card.Movement) (card.MovementRecord, error) {
	u.moved++
	if u.move != nil {
		return u.move(ctx, m, u.moved)
	}
	return u.IssuerClient.Move(ctx, m)
}

func (u *unexpected) Account(ctx context.Context, ref fulfilment.Ref) (card.Account, error) {
	a, err := u.IssuerClient.Account(ctx, ref)
	if u.absent != nil && errors.Is(err, fulfilment.ErrNoRef) {
		err = u.absent
	}
	return a, err
}

func TestTrialFindsWhatIssuersDoOtherwise(t *testing.T) {
	refusal := &fulfilment.Refusal{Code: fulfilment.RefusedRequest, Message: "the key was used"}
	other := func() fulfilment.Ref { return fulfilment.Ref(uuid.New()) }
	for name, tc := range map[string]struct {
		does func(*unexpected)
		want []string
	}{
		"as its adapter says": {func(*unexpected) {}, nil},
		"a second card for the same reference": {func(u *unexpected) {
			u.open = func(ctx context.Context, o card.Opening, opened int) (card.Account, error) {
				if opened == 2 {
					o.Ref = other()
				}
				return u.IssuerClient.Open(ctx, o)
			}
		}, []string{"opens it once when asked twice"}},
		"a refusal of a card that is there": {func(u *unexpected) {
			u.open = func(ctx context.Context, o card.Opening, opened int) (card.Account, error) {
				if opened == 3 {
					return card.Account{}, refusal
				}
				return u.IssuerClient.Open(ctx, o)
			}
		}, []string{"refuses no lost opening"}},
		"a second load for the same reference": {func(u *unexpected) {
			u.move = func(ctx context.Context, m card.Movement, moved int) (card.MovementRecord, error) {
				if moved == 2 {
					again := m
					again.Ref = other()
					if _, err := u.IssuerClient.Move(ctx, again); err != nil {
						return card.MovementRecord{}, err
					}
				}
				return u.IssuerClient.Move(ctx, m)
			}
			// The balance is never again what the later steps go by.
		}, []string{"loads once when asked twice", "refuses no lost load", "withdraws from a card"}},
		"a refusal of a load that is there": {func(u *unexpected) {
			u.move = func(ctx context.Context, m card.Movement, moved int) (card.MovementRecord, error) {
				if moved == 3 {
					return card.MovementRecord{}, refusal
				}
				return u.IssuerClient.Move(ctx, m)
			}
		}, []string{"refuses no lost load"}},
		"another word for no such reference": {func(u *unexpected) { u.absent = errors.New("gone") },
			[]string{"knows no reference that was not sent"}},
		"refused": {func(u *unexpected) {
			u.open = func(context.Context, card.Opening, int) (card.Account, error) { return card.Account{}, refusal }
		}, []string{"opens a card"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newPurse(t)
				u := &unexpected{IssuerClient: v.client, Controls: v.client.(card.Controls)}
				tc.does(u)
				wrong := map[string]bool{}
				for _, o := range card.Try(t.Context(), u, callTimeout) {
					if o.Err != nil {
						wrong[o.Step] = true
					}
				}
				if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(wrong))); diff != "" {
					t.Errorf("the steps that found something (-want +got):\n%s", diff)
				}
			})
		})
	}
}
