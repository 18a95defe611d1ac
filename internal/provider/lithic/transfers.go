package lithic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

const currencyUSD = "USD"

// maxAmount is 10 million dollars: above any amount of ours, and small enough that sums never overflow.
const maxAmount = 1_000_000_000

// transfer asks for a book transfer.
type transfer struct {
	token, from, to uuid.UUID
	amount          money.Cents
	purpose         purpose
}

// Move implements card.Issuer: a book transfer whose token is our reference.
func (i *Issuer) Move(ctx context.Context, m card.Movement) (card.MovementRecord, error) {
	moved, err := i.move(ctx, m)
	if err != nil {
		return card.MovementRecord{}, fmt.Errorf("ask for a %s: %w", m.Direction, err)
	}
	return moved, nil
}

func (i *Issuer) move(ctx context.Context, m card.Movement) (card.MovementRecord, error) {
	on, err := uuid.Parse(m.Account)
	if err != nil {
		return card.MovementRecord{}, wire.Unclear("the card is none of the vendor's")
	}
	t := transfer{token: uuid.UUID(m.Ref), from: i.float, to: on, amount: m.Amount, purpose: load}
	if m.Direction == card.Withdrawal {
		t.from, t.to, t.purpose = on, i.float, withdrawal
	}
	done, err := i.transfer(ctx, t)
	if err != nil {
		return card.MovementRecord{}, err
	}
	return done.moved(on)
}

// transfer makes a book transfer, or returns the one that has its token. It is a refusal only when the vendor does not
// take the request and has no transfer by its token.
func (i *Issuer) transfer(ctx context.Context, t transfer) (made, error) {
	var got transferAnswer
	err := i.send(ctx, request{
		op: "move", method: http.MethodPost, path: []string{"book_transfers"}, route: "book_transfers",
		body: map[string]any{
			"token": t.token, "amount": int64(t.amount), "from_financial_account_token": t.from,
			"to_financial_account_token": t.to, "category": i.transfers.Category, "type": i.transfers.Type,
			"subtype": i.transfers.Subtype, "memo": string(t.purpose), "on_closed_account": "FAIL",
		},
	}, &got)
	if no, ok := errors.AsType[*rejected](err); ok {
		switch _, known := i.transferred(ctx, "moved", t.token); {
		case errors.Is(known, fulfilment.ErrNoRef):
			return made{}, &fulfilment.Refusal{Code: fulfilment.RefusedRequest, Message: no.Error()}
		default:
			return made{}, wire.Unclear("the transfer is rejected, and may have been made before")
		}
	}
	if err != nil {
		return made{}, err
	}
	done, err := got.read()
	if err == nil && (done.token != t.token || done.from != t.from || done.to != t.to || done.amount != t.amount) {
		err = wire.Unclear("the answer is about another transfer")
	}
	return done, err
}

// Moved implements card.Issuer.
func (i *Issuer) Moved(ctx context.Context, account string, ref fulfilment.Ref) (card.MovementRecord, error) {
	var moved card.MovementRecord
	done, err := i.transferred(ctx, "moved", uuid.UUID(ref))
	if err == nil {
		moved, err = done.movedOn(account)
	}
	if err != nil {
		return card.MovementRecord{}, fmt.Errorf("read a transfer: %w", err)
	}
	return moved, nil
}

// transferred reads a transfer back. fulfilment.ErrNoRef when there is none.
func (i *Issuer) transferred(ctx context.Context, op string, token uuid.UUID) (made, error) {
	got, err := i.readTransfer(ctx, op, token)
	if err != nil {
		return made{}, err
	}
	return got.read()
}

func (i *Issuer) readTransfer(ctx context.Context, op string, token uuid.UUID) (got transferAnswer, err error) {
	err = i.send(ctx, request{
		op: op, method: http.MethodGet, path: []string{"book_transfers", token.String()}, route: "book_transfers/{token}",
	}, &got)
	switch {
	case errors.Is(err, errAbsent):
		err = fulfilment.ErrNoRef
	case err == nil && got.Token != token:
		err = wire.Unclear("the answer is about another transfer")
	}
	return got, err
}

// transferAnswer is a book transfer. It holds pointers where a missing member must not pass for a zero.
type transferAnswer struct {
	Token    uuid.UUID  `json:"token"`
	Status   wire.Upper `json:"status"`
	Result   wire.Upper `json:"result"`
	Currency wire.Upper `json:"currency"`
	Settled  *wire.Int  `json:"settled_amount"`
	From     uuid.UUID  `json:"from_financial_account_token"`
	To       uuid.UUID  `json:"to_financial_account_token"`
	Events   []struct {
		Amount *wire.Int    `json:"amount"`
		Memo   string       `json:"memo"`
		Why    []wire.Upper `json:"detailed_results"`
	} `json:"events"`
}

// purpose is what the transfer is for; empty when it is none of ours.
func (a transferAnswer) purpose() purpose {
	if len(a.Events) > 0 {
		switch p := purpose(a.Events[0].Memo); p {
		case opening, load, withdrawal:
			return p
		}
	}
	return ""
}

// made is a book transfer that is at the vendor.
type made struct {
	token, from, to uuid.UUID
	amount          money.Cents
	purpose         purpose
	state           card.MovementState
	// why are the vendor's reasons of a declined transfer.
	why []wire.Upper
}

// read takes the amount from the transfer's first event: a declined transfer settles nothing. What has settled has to
// be all of it.
func (a transferAnswer) read() (made, error) {
	if a.Token == uuid.Nil || a.From == uuid.Nil || a.To == uuid.Nil || a.Status == "" || a.Currency != currencyUSD ||
		a.Settled == nil || len(a.Events) == 0 || a.Events[0].Amount == nil || *a.Events[0].Amount <= 0 ||
		*a.Events[0].Amount > maxAmount {
		return made{}, wire.Unclear("the transfer in the answer does not match the documentation")
	}
	m := made{
		token: a.Token, from: a.From, to: a.To, amount: money.Cents(*a.Events[0].Amount),
		purpose: a.purpose(), state: card.MovePending,
	}
	switch {
	case a.Status == "SETTLED" && a.Result == "APPROVED":
		if money.Cents(*a.Settled) != m.amount {
			return made{}, wire.Unclear("another amount has settled")
		}
		m.state = card.MoveSucceeded
	case a.Status == "DECLINED" && a.Result == "DECLINED":
		if *a.Settled != 0 {
			return made{}, wire.Unclear("a declined transfer has settled")
		}
		m.state = card.MoveFailed
		for _, e := range a.Events {
			m.why = append(m.why, e.Why...)
		}
	}
	// What was reversed, canceled or returned was not by us: it stays pending until a person looks at it.
	return m, nil
}

// refusal is that of a declined transfer, with our code for a sender that has too little.
func (m made) refusal(short string) *fulfilment.Refusal {
	no := &fulfilment.Refusal{Code: fulfilment.RefusedUnstated, Message: wire.Quote(fmt.Sprint(m.why), wire.HideCards)}
	if slices.Contains(m.why, "FUNDS_INSUFFICIENT") {
		no.Code = short
	}
	return no
}

// movedOn is the transfer as a movement of a card, by its name.
func (m made) movedOn(account string) (card.MovementRecord, error) {
	on, err := uuid.Parse(account)
	if err != nil {
		return card.MovementRecord{}, wire.Unclear("the card is none of the vendor's")
	}
	return m.moved(on)
}

// moved is the transfer as a movement of a card.
func (m made) moved(on uuid.UUID) (card.MovementRecord, error) {
	one := card.MovementRecord{Ref: fulfilment.Ref(m.token), Account: on.String(), Direction: card.Load, Amount: m.amount,
		State: m.state}
	short := fulfilment.RefusedFloat
	switch on {
	case m.to:
	case m.from:
		one.Direction, short = card.Withdrawal, card.RefusedFunds
	default:
		return card.MovementRecord{}, wire.Unclear("the answer is about another card")
	}
	if m.state == card.MoveFailed {
		one.Refusal = m.refusal(short)
	}
	return one, nil
}
