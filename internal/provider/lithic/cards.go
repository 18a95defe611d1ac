package lithic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// Open implements card.Issuer. It looks for the card before it makes one: how long the vendor keeps an idempotency key
// is not documented.
func (i *Issuer) Open(ctx context.Context, o card.Opening) (card.Account, error) {
	account, err := i.open(ctx, o)
	if err != nil {
		return card.Account{}, fmt.Errorf("open a card: %w", err)
	}
	return account, nil
}

func (i *Issuer) open(ctx context.Context, o card.Opening) (card.Account, error) {
	if o.Limit || o.Load <= 0 {
		return card.Account{}, &fulfilment.Refusal{
			Code: fulfilment.RefusedRequest, Message: "a card is opened with a load, not with a limit",
		}
	}
	found, err := i.find(ctx, o.Ref)
	if errors.Is(err, fulfilment.ErrNoRef) {
		found, err = i.create(ctx, o)
	}
	if err != nil {
		return card.Account{}, err
	}
	if found.memo != memoOf(o) {
		return card.Account{}, wire.Unclear("the reference was used for another card")
	}
	faultpoint.Reach("issuer.unloaded")
	loaded, err := i.transfer(ctx, transfer{
		token: loadToken(o.Ref), from: i.float, to: found.token, amount: o.Load, purpose: opening,
	})
	var account card.Account
	if err == nil {
		account, err = found.account(loaded)
	}
	if _, refused := errors.AsType[*fulfilment.Refusal](err); refused || account.State == card.AccountRejected {
		// Nobody was told of the card, and nothing is on it: one that stays open costs no more than a row.
		_ = i.close(ctx, found.token)
	}
	return account, err
}

// create makes a card. It is a refusal only when the vendor does not take the request and has no card by its reference.
func (i *Issuer) create(ctx context.Context, o card.Opening) (foundCard, error) {
	body := map[string]any{
		"type": "VIRTUAL", "state": stateOpen, "card_program_token": i.program, "memo": memoOf(o).String(),
	}
	if i.account != uuid.Nil {
		body["account_token"] = i.account
	}
	var got cardAnswer
	err := i.send(ctx, request{
		op: "open", method: http.MethodPost, path: []string{"cards"}, route: "cards", body: body, key: o.Ref.String(),
		card: true,
	}, &got)
	if no, ok := errors.AsType[*rejected](err); ok {
		switch _, known := i.find(ctx, o.Ref); {
		case errors.Is(known, fulfilment.ErrNoRef):
			return foundCard{}, &fulfilment.Refusal{Code: fulfilment.RefusedRequest, Message: no.Error()}
		default:
			return foundCard{}, wire.Unclear("the card is rejected, and may have been made before")
		}
	}
	if err != nil {
		return foundCard{}, err
	}
	found, err := got.read()
	if err == nil && (found.program != i.program || found.memo.ref != o.Ref) {
		err = wire.Unclear("the answer is about another card")
	}
	return found, err
}

func (i *Issuer) close(ctx context.Context, token uuid.UUID) error {
	var got cardAnswer
	return i.send(ctx, request{
		op: "close", method: http.MethodPatch, path: []string{"cards", token.String()}, route: "cards/{token}",
		body: map[string]string{"state": stateClosed}, card: true,
	}, &got)
}

// find looks for the card of an opening. fulfilment.ErrNoRef when there is none.
func (i *Issuer) find(ctx context.Context, ref fulfilment.Ref) (found foundCard, err error) {
	var got list[cardAnswer]
	err = i.send(ctx, request{
		op: "account", method: http.MethodGet, path: []string{"cards"}, route: "cards",
		query: url.Values{"memo": {ref.String()}}, card: true,
	}, &got)
	switch {
	case err != nil:
		return foundCard{}, err
	case !got.complete() || bool(*got.HasMore):
		return foundCard{}, wire.Unclear("the list in the answer does not match the documentation")
	}
	for n, one := range *got.Data {
		// The vendor finds parts of memos, too: anything but one card of ours settles nothing.
		next, err := one.read()
		switch {
		case err != nil:
			return foundCard{}, err
		case next.memo.ref != ref || (n > 0 && next.token != found.token):
			return foundCard{}, wire.Unclear("the answer is about another card")
		}
		found = next
	}
	if found.token == uuid.Nil {
		return foundCard{}, fulfilment.ErrNoRef
	}
	return found, nil
}

// Account implements card.Issuer. A card whose load was never made does not count: its opening may be sent again.
func (i *Issuer) Account(ctx context.Context, ref fulfilment.Ref) (card.Account, error) {
	found, err := i.find(ctx, ref)
	if err != nil {
		return card.Account{}, fmt.Errorf("read a card: %w", err)
	}
	account, err := i.opened(ctx, found)
	if err != nil {
		return card.Account{}, fmt.Errorf("read a card: %w", err)
	}
	return account, nil
}

// opened is a card with what became of its load.
func (i *Issuer) opened(ctx context.Context, found foundCard) (card.Account, error) {
	loaded, err := i.transferred(ctx, "account", loadToken(found.memo.ref))
	if err != nil {
		return card.Account{}, err
	}
	return found.account(loaded)
}

const pageSize = "100"

// Accounts implements card.CardLister. Cards that were not opened here are left out.
func (i *Issuer) Accounts(ctx context.Context, after string) ([]card.Account, string, error) {
	found, next, err := i.cards(ctx, after, pageSize)
	if err != nil {
		return nil, "", fmt.Errorf("list cards: %w", err)
	}
	var page []card.Account
	for _, one := range found {
		page = append(page, one.unloaded())
	}
	return page, next, nil
}

// cards is a page of our cards, and the cursor of the next.
func (i *Issuer) cards(ctx context.Context, after, size string) (ours []foundCard, next string, err error) {
	query := url.Values{"page_size": {size}}
	if after != "" {
		query.Set("starting_after", after)
	}
	var got list[cardAnswer]
	if err := i.send(ctx, request{
		op: "accounts", method: http.MethodGet, path: []string{"cards"}, route: "cards", query: query, card: true,
	}, &got); err != nil {
		return nil, "", err
	}
	if !got.complete() {
		return nil, "", wire.Unclear("the list in the answer does not match the documentation")
	}
	for _, one := range *got.Data {
		if next = one.Token.String(); one.Token == uuid.Nil || next == after {
			return nil, "", wire.Unclear("a card in the answer does not match the documentation")
		}
		if _, mine := parseMemo(one.Memo); !mine {
			continue
		}
		found, err := one.read()
		if err != nil {
			return nil, "", err
		}
		ours = append(ours, found)
	}
	if !*got.HasMore {
		next = ""
	}
	return ours, next, nil
}

// cardAnswer is a card, without its number.
type cardAnswer struct {
	Token   uuid.UUID  `json:"token"`
	Program uuid.UUID  `json:"card_program_token"`
	State   wire.Upper `json:"state"`
	// Reason is why it is in its state; empty when nobody says.
	Reason   wire.Upper `json:"substatus"`
	LastFour wire.Text  `json:"last_four"`
	Memo     string     `json:"memo"`
	// Limit is what purchases may be by its Duration; zero without a limit.
	Limit    *wire.Int  `json:"spend_limit"`
	Duration wire.Upper `json:"spend_limit_duration"`
}

// foundCard is a card of ours.
type foundCard struct {
	token, program uuid.UUID
	memo           memo
	state, reason  string
	last4          string
	limit          *int64
	duration       string
}

func (a cardAnswer) read() (foundCard, error) {
	m, ours := parseMemo(a.Memo)
	if a.Token == uuid.Nil || a.State == "" || !isDigits(string(a.LastFour), 4, 4) || !ours {
		return foundCard{}, wire.Unclear("the card in the answer does not match the documentation")
	}
	return foundCard{
		token: a.Token, program: a.Program, memo: m, state: string(a.State), reason: string(a.Reason),
		last4: string(a.LastFour), limit: (*int64)(a.Limit), duration: string(a.Duration),
	}, nil
}

// unloaded is the card as it is listed, whatever became of its load.
func (f foundCard) unloaded() card.Account {
	a := card.Account{
		ID: f.token.String(), Ref: f.memo.ref, State: card.AccountPending, Last4: f.last4, Loaded: f.memo.load,
		Buyer: f.memo.buyer,
	}
	switch f.state {
	case stateOpen:
		a.State = card.AccountActive
	case statePaused:
		a.State = card.AccountFrozen
	case stateClosed:
		a.State = card.AccountClosed
	}
	return a
}

// account is the card, by its load: it is refused when that is declined, and pending until it is made.
func (f foundCard) account(loaded made) (card.Account, error) {
	if loaded.to != f.token || loaded.amount != f.memo.load {
		return card.Account{}, wire.Unclear("the load of the card is another")
	}
	a := f.unloaded()
	switch loaded.state {
	case card.MoveSucceeded:
	case card.MoveFailed:
		a.State, a.Refusal = card.AccountRejected, loaded.refusal(fulfilment.RefusedFloat)
	default:
		a.State = card.AccountPending
	}
	return a, nil
}

// list is a page of the vendor's.
type list[T any] struct {
	Data    *[]T       `json:"data"`
	HasMore *wire.Flag `json:"has_more"`
}

// complete says that a page has its members, and something before what follows.
func (l list[T]) complete() bool {
	return l.Data != nil && l.HasMore != nil && (!bool(*l.HasMore) || len(*l.Data) > 0)
}

func isDigits(s string, least, most int) bool {
	return len(s) >= least && len(s) <= most && strings.Trim(s, "0123456789") == ""
}
