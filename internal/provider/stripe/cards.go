package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	stripego "github.com/stripe/stripe-go/v85"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/card"
)

// references are the IDs of our cards, by the references of their openings.
type references struct {
	*follower[*cardAnswer]
	ids map[fulfilment.Ref][]string
	// oldest is one of the oldest cards of the account, whoever opened it.
	oldest string
}

func newReferences(list lister[*cardAnswer]) *references {
	r := &references{ids: map[fulfilment.Ref][]string{}}
	at := int64(0)
	r.follower = newFollower(list, func(a *cardAnswer) {
		if r.oldest == "" || a.created() < at {
			r.oldest, at = a.ID, a.created()
		}
		if ref, ours := a.ref(); ours {
			r.add(ref, a.ID)
		}
	})
	return r
}

func (r *references) add(ref fulfilment.Ref, id string) {
	for _, known := range r.ids[ref] {
		if known == id {
			return
		}
	}
	r.ids[ref] = append(r.ids[ref], id)
}

// put adds a card that was opened.
func (r *references) put(ctx context.Context, ref fulfilment.Ref, id string) {
	if r.turn.take(ctx) == nil {
		r.add(ref, id)
		r.leave()
	}
}

// find is the ID of the card with a reference. The vendor is asked if it is not known. fulfilment.ErrNoRef when there
// is none.
func (r *references) find(ctx context.Context, ref fulfilment.Ref) (string, error) {
	if err := r.turn.take(ctx); err != nil {
		return "", err
	}
	ids := r.ids[ref]
	r.leave()
	if len(ids) == 0 {
		if err := r.follow(ctx); err != nil {
			return "", err
		}
		ids = r.ids[ref]
		r.leave()
	}
	switch len(ids) {
	case 0:
		return "", fulfilment.ErrNoRef
	case 1:
		return ids[0], nil
	default:
		return "", unclear("two cards have the reference")
	}
}

// Open implements card.Issuer. A card that the reference has opened is found first: Stripe remembers the reference for
// a day only.
func (i *Issuer) Open(ctx context.Context, o card.Opening) (card.Account, error) {
	account, err := i.open(ctx, o)
	if err == nil && account.Loaded != o.Load {
		err = unclear("the reference has opened a card with another limit")
	}
	if err != nil {
		return card.Account{}, fmt.Errorf("open a card: %w", err)
	}
	return account, nil
}

func (i *Issuer) open(ctx context.Context, o card.Opening) (card.Account, error) {
	if o.Load <= 0 || !o.Limit {
		return card.Account{}, errors.New("the card is to be opened without a limit")
	}
	account, err := i.account(ctx, o.Ref)
	if !errors.Is(err, fulfilment.ErrNoRef) {
		return account, err
	}
	p := &stripego.IssuingCardCreateParams{
		Cardholder: stripego.String(i.cardholder), Currency: stripego.String(currencyUSD),
		Type:   stripego.String(string(stripego.IssuingCardTypeVirtual)),
		Status: stripego.String(string(stripego.IssuingCardStatusActive)),
		Metadata: map[string]string{
			keyRef: o.Ref.String(), keyLoad: strconv.FormatInt(int64(o.Load), 10),
		},
		SpendingControls: &stripego.IssuingCardCreateSpendingControlsParams{
			SpendingLimits: []*stripego.IssuingCardCreateSpendingControlsSpendingLimitParams{{
				Amount: stripego.Int64(int64(o.Load)), Interval: stripego.String(allTime),
			}},
		},
	}
	if o.Buyer != "" {
		p.Metadata[keyBuyer] = o.Buyer
	}
	p.SetIdempotencyKey(o.Ref.String())
	var got cardAnswer
	err = i.send(ctx, request{
		op: "open", method: http.MethodPost, path: "/v1/issuing/cards", route: "/v1/issuing/cards", params: p,
		bind: func(ctx context.Context) { p.Context = ctx }, refusable: true,
	}, &got)
	if err != nil {
		return card.Account{}, err
	}
	if account, err = got.account(o.Ref); err != nil {
		return card.Account{}, err
	}
	if limit, err := got.limit(); err != nil || limit != o.Load {
		return card.Account{}, unclear("the answer is about another limit")
	}
	i.references.put(ctx, o.Ref, got.ID)
	return account, nil
}

// Account implements card.Issuer.
func (i *Issuer) Account(ctx context.Context, ref fulfilment.Ref) (card.Account, error) {
	account, err := i.account(ctx, ref)
	if err != nil {
		return card.Account{}, fmt.Errorf("read a card: %w", err)
	}
	return account, nil
}

func (i *Issuer) account(ctx context.Context, ref fulfilment.Ref) (card.Account, error) {
	id, err := i.references.find(ctx, ref)
	if err != nil {
		return card.Account{}, err
	}
	got, err := i.card(ctx, "account", id)
	if err != nil {
		return card.Account{}, err
	}
	return got.account(ref)
}

// card reads one card.
func (i *Issuer) card(ctx context.Context, op, id string) (*cardAnswer, error) {
	if !isID(id) {
		return nil, unclear("the card's ID is none of the vendor's")
	}
	p := &stripego.IssuingCardRetrieveParams{}
	var got cardAnswer
	err := i.send(ctx, request{
		op: op, method: http.MethodGet, path: "/v1/issuing/cards/" + id, route: "/v1/issuing/cards/{card}", params: p,
		bind: func(ctx context.Context) { p.Context = ctx },
	}, &got)
	if err == nil && got.ID != id {
		err = unclear("the answer is about another card")
	}
	if err != nil {
		return nil, err
	}
	return &got, nil
}

// Move implements card.Issuer. The limit is set to the target, whatever it is. A load that the card has a record of is
// not made again, however old it is.
func (i *Issuer) Move(ctx context.Context, m card.Movement) (card.MovementRecord, error) {
	moved, err := i.move(ctx, m)
	if err == nil && (moved.Amount != m.Amount || moved.Target != m.Target) {
		err = unclear("the reference has made another load")
	}
	if err != nil {
		return card.MovementRecord{}, fmt.Errorf("ask for a %s: %w", m.Direction, err)
	}
	return moved, nil
}

func (i *Issuer) move(ctx context.Context, m card.Movement) (card.MovementRecord, error) {
	switch {
	case m.Amount <= 0 || m.Target < 0 || (m.Direction == card.Load && m.Target < m.Amount):
		return card.MovementRecord{}, errors.New("the movement has no target")
	}
	on, err := i.card(ctx, "move", m.Account)
	if err != nil {
		return card.MovementRecord{}, err
	}
	if _, ours := on.ref(); !ours {
		return card.MovementRecord{}, unclear("the card is not ours")
	}
	if made, err := on.moved(m.Ref); !errors.Is(err, fulfilment.ErrNoRef) {
		return made, err
	}
	switch {
	case on.state() == card.AccountClosed:
		return card.MovementRecord{}, on.refused()
	case m.Direction == card.Withdrawal:
		// Refused before it is sent: what is withdrawn has to be a part of the limit that is there.
		if limit, err := on.limit(); err != nil || limit != m.Target+m.Amount {
			return card.MovementRecord{}, errors.Join(err, &fulfilment.Refusal{
				Code: fulfilment.RefusedRequest, Message: "the card has another limit",
			})
		}
	case on.records() >= maxKeys:
		return card.MovementRecord{}, &fulfilment.Refusal{
			Code: fulfilment.RefusedRequest, Message: "the card has no room for the record of another load",
		}
	}
	p := &stripego.IssuingCardUpdateParams{
		Metadata: map[string]string{m.Ref.String(): recordOf(m)},
		SpendingControls: &stripego.IssuingCardUpdateSpendingControlsParams{
			SpendingLimits: on.limitsWith(m),
		},
	}
	// What is not sent might be taken away.
	if all := on.Controls.Allowed; len(all) > 0 {
		p.SpendingControls.AllowedCategories = stripego.StringSlice(all)
	}
	if all := on.Controls.Blocked; len(all) > 0 {
		p.SpendingControls.BlockedCategories = stripego.StringSlice(all)
	}
	if m.Direction == card.Withdrawal {
		// Its record takes the place of this mark, so that there is room for it.
		p.Metadata[keyFrozen] = ""
	}
	p.SetIdempotencyKey(m.Ref.String())
	var got cardAnswer
	err = i.send(ctx, request{
		op: "move", method: http.MethodPost, path: "/v1/issuing/cards/" + on.ID, route: "/v1/issuing/cards/{card}",
		params: p, bind: func(ctx context.Context) { p.Context = ctx }, refusable: true,
	}, &got)
	if err == nil && got.ID != m.Account {
		err = unclear("the answer is about another card")
	}
	if err != nil {
		return card.MovementRecord{}, err
	}
	if limit, err := got.limit(); err != nil || limit != m.Target {
		return card.MovementRecord{}, unclear("the answer is about another limit")
	}
	made, err := got.moved(m.Ref)
	if errors.Is(err, fulfilment.ErrNoRef) {
		err = unclear("the answer does not have the load")
	}
	return made, err
}

// leastLimit is what a limit is set to at least: it is not documented whether there is one of zero. A card has it only
// when all of its limit was withdrawn, and is not active then.
const leastLimit = 1

// limitsWith are the card's limits after a movement: an update replaces them all.
func (a *cardAnswer) limitsWith(
	m card.Movement,
) (all []*stripego.IssuingCardUpdateSpendingControlsSpendingLimitParams) {
	all = append(all, &stripego.IssuingCardUpdateSpendingControlsSpendingLimitParams{
		Amount: stripego.Int64(max(leastLimit, int64(m.Target))), Interval: stripego.String(allTime),
	})
	for _, l := range a.Controls.Limits {
		if !l.general() {
			all = append(all, l.kept())
		}
	}
	return all
}

// Moved implements card.Issuer.
func (i *Issuer) Moved(ctx context.Context, account string, ref fulfilment.Ref) (card.MovementRecord, error) {
	moved, err := i.moved(ctx, account, ref)
	if err != nil {
		return card.MovementRecord{}, fmt.Errorf("read a movement: %w", err)
	}
	return moved, nil
}

func (i *Issuer) moved(ctx context.Context, account string, ref fulfilment.Ref) (card.MovementRecord, error) {
	if account == "" {
		return card.MovementRecord{}, fulfilment.ErrNoRef // Move refuses to send it
	}
	on, err := i.card(ctx, "moved", account)
	if err != nil {
		return card.MovementRecord{}, err
	}
	if _, ours := on.ref(); !ours {
		return card.MovementRecord{}, unclear("the card is not ours")
	}
	return on.moved(ref)
}
