package stripe

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	stripego "github.com/stripe/stripe-go/v85"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
)

// Transactions implements card.Controls: each authorization with what was captured of it, and each transaction that is
// not such a capture. So nothing is listed twice, and a purchase keeps its ID from its authorization on.
func (i *Issuer) Transactions(
	ctx context.Context, account, after string, most int,
) ([]card.Transaction, string, error) {
	page, next, err := i.transactions(ctx, account, after, most)
	if err != nil {
		return nil, "", fmt.Errorf("list transactions: %w", err)
	}
	return page, next, nil
}

func (i *Issuer) transactions(
	ctx context.Context, account, after string, most int,
) (page []card.Transaction, next string, err error) {
	if !isID(account) {
		return nil, "", unclear("the card's ID is none of the vendor's")
	}
	at, err := parsePlace(after)
	if err != nil {
		return nil, "", err
	}
	all := merged{
		authorized: newStream(i.listAuthorizations, at.until, at.authorized, account),
		moved:      newStream(i.listTransactions, at.until, at.moved, account),
	}
	for {
		take, err := all.next(ctx)
		switch {
		case err != nil:
			return nil, "", err
		case take == nil:
			return page, "", nil
		case len(page) == most:
			at.authorized, at.moved = all.authorized.place(), all.moved.place()
			return page, at.String(), nil
		}
		t, err := take(account)
		if err != nil {
			return nil, "", err
		}
		page = append(page, t)
		at.until = t.At.Unix()
	}
}

// merged are both lists, the newest first.
type merged struct {
	authorized *stream[*authorizationAnswer]
	moved      *stream[*transactionAnswer]
}

// next is how to take what comes next; nil after the last. Captures of authorizations are left out.
func (m merged) next(ctx context.Context) (take func(account string) (card.Transaction, error), err error) {
	for {
		if err := m.authorized.fill(ctx); err != nil {
			return nil, err
		}
		if err := m.moved.fill(ctx); err != nil {
			return nil, err
		}
		a, t := m.authorized.left, m.moved.left
		switch {
		case len(a) == 0 && len(t) == 0:
			return nil, nil
		case len(t) == 0, len(a) > 0 && a[0].Created > t[0].Created:
			return func(account string) (card.Transaction, error) { return m.authorized.take().read(account) }, nil
		case !t[0].authorized():
			return func(account string) (card.Transaction, error) { return m.moved.take().read(account) }, nil
		}
		m.moved.take()
	}
}

// place is where a page ends: the last that was taken of each list. Nothing that is newer than its last transaction
// follows.
type place struct {
	until             int64
	authorized, moved string
}

// ended is the place in a list that has been read to its end.
const ended = "-"

func (p place) String() string { return fmt.Sprintf("%d/%s/%s", p.until, p.authorized, p.moved) }

var placeForm = regexp.MustCompile(`^(\d{1,12})/(|-|[A-Za-z0-9_]{1,255})/(|-|[A-Za-z0-9_]{1,255})$`)

func parsePlace(s string) (p place, err error) {
	if s == "" {
		return p, nil
	}
	parts := placeForm.FindStringSubmatch(s)
	if parts == nil {
		return p, &fulfilment.Refusal{Code: fulfilment.RefusedRequest, Message: "there is no such cursor"}
	}
	until, _ := strconv.ParseInt(parts[1], 10, 64) // digits, not too many
	return place{until, parts[2], parts[3]}, nil
}

// stream is a list from a place on, the newest first, each object once.
type stream[T listed] struct {
	list lister[T]
	span span
	// until is when the newest object was created that belongs here; zero for any.
	until int64
	left  []T
	more  bool
	// taken is the last object that was taken.
	taken string
	seen  map[string]bool
}

func newStream[T listed](list lister[T], until int64, after, card string) *stream[T] {
	return &stream[T]{
		list: list, until: until, taken: after, more: after != ended, seen: map[string]bool{},
		span: span{of: card, after: after, asked: after != ""},
	}
}

// fill makes sure that the first object is there, if there is one.
func (s *stream[T]) fill(ctx context.Context) error {
	for {
		for len(s.left) > 0 && (s.seen[s.left[0].id()] || (s.until > 0 && s.left[0].created() > s.until)) {
			s.take()
		}
		if len(s.left) > 0 || !s.more {
			return nil
		}
		p, err := s.list(ctx, s.span)
		if err != nil {
			return err
		}
		s.left, s.more = p.items, p.more
		if p.more {
			s.span.after, s.span.asked = p.items[len(p.items)-1].id(), false
		}
	}
}

func (s *stream[T]) take() T {
	one := s.left[0]
	s.left, s.taken = s.left[1:], one.id()
	s.seen[s.taken] = true
	return one
}

func (s *stream[T]) place() string {
	if len(s.left) == 0 && !s.more {
		return ended
	}
	return s.taken
}

// authorized reports whether it is a part of what its authorization shows.
func (a *transactionAnswer) authorized() bool {
	return a.Authorization != nil && stripego.IssuingTransactionType(a.Type) == stripego.IssuingTransactionTypeCapture
}

func (a *transactionAnswer) read(account string) (card.Transaction, error) {
	t := card.Transaction{
		ID: a.ID, At: time.Unix(int64(a.Created), 0).UTC(), Kind: card.Refund, Status: card.TransactionPending,
		Merchant: a.Merchant.read(),
	}
	switch stripego.IssuingTransactionType(a.Type) {
	case stripego.IssuingTransactionTypeCapture, stripego.IssuingTransactionTypeRefund:
		t.Status = card.TransactionCompleted
	}
	if *a.Amount < 0 {
		t.Kind = card.Purchase
	}
	err := about(*a.Card, string(a.Currency), account)
	if err == nil {
		t.Amount, err = unsigned(int64(*a.Amount))
	}
	return t, err
}

func (a *authorizationAnswer) read(account string) (card.Transaction, error) {
	t := card.Transaction{
		ID: a.ID, At: time.Unix(int64(a.Created), 0).UTC(), Kind: card.Purchase, Status: a.outcome(),
		Merchant: a.Merchant.read(),
	}
	if err := about(a.Card.id, string(a.Currency), account); err != nil {
		return card.Transaction{}, err
	}
	amount, err := a.amount(t.Status)
	if err != nil {
		return card.Transaction{}, err
	}
	if *a.Amount < 0 {
		t.Kind = card.Refund // a merchant asks whether it may give something back
	}
	if t.Amount, err = unsigned(amount); err != nil {
		return card.Transaction{}, err
	}
	if t.Status == card.TransactionDeclined {
		t.Declined = a.declined()
	}
	return t, nil
}

func (a *authorizationAnswer) outcome() card.TransactionStatus {
	switch stripego.IssuingAuthorizationStatus(a.Status) {
	case stripego.IssuingAuthorizationStatusClosed:
		if *a.Approved {
			return card.TransactionCompleted
		}
		return card.TransactionDeclined
	case stripego.IssuingAuthorizationStatusReversed, stripego.IssuingAuthorizationStatusExpired:
		return card.TransactionReversed
	}
	return card.TransactionPending
}

// amount is what was captured of a purchase that is complete. Of any other it is what is authorized, or what was asked
// for when that is over.
func (a *authorizationAnswer) amount(status card.TransactionStatus) (int64, error) {
	captured := int64(0)
	for _, one := range a.Captures {
		if one.Amount == nil || one.Currency != currencyUSD || *one.Amount < -maxCents {
			return 0, unclear("what was captured does not match the documentation")
		}
		if stripego.IssuingTransactionType(one.Type) == stripego.IssuingTransactionTypeCapture {
			captured -= int64(*one.Amount)
		}
	}
	switch {
	case status == card.TransactionCompleted && captured != 0:
		return captured, nil
	case *a.Amount == 0 && len(a.History) > 0 && a.History[0].Amount != nil:
		return int64(*a.History[0].Amount), nil
	}
	return int64(*a.Amount), nil
}

// declined is why the last request was not approved.
func (a *authorizationAnswer) declined() card.DeclineReason {
	for n := len(a.History) - 1; n >= 0; n-- {
		if one := a.History[n]; one.Approved != nil && !*one.Approved {
			if one.Reason == spendingControls && one.Amount != nil {
				return a.controlDeclined(int64(*one.Amount))
			}
			if reason, known := declines[string(one.Reason)]; known {
				return reason
			}
			return card.DeclinedOther
		}
	}
	return card.DeclinedOther
}

const spendingControls = "spending_controls"

// declines are Stripe's reasons that an owner understands. What the operator's account or holder lacks is not theirs:
// insufficient_funds is about the balance for all cards, while that of a card is one of its spending controls, see
// controlDeclined.
var declines = map[string]card.DeclineReason{
	spendingControls: card.DeclinedFunds,
	"card_inactive":  card.DeclinedFrozen,
	"card_canceled":  card.DeclinedClosed,

	"insecure_authorization_method": card.DeclinedCheck,
	"pin_blocked":                   card.DeclinedCheck,
	"verification_failed":           card.DeclinedCheck,

	"suspected_fraud": card.DeclinedFraud,
}

// read is the merchant, with the country as Stripe has it, in two letters.
func (m *merchantAnswer) read() card.Merchant {
	if m == nil {
		return card.Merchant{}
	}
	return card.Merchant{Name: m.Name, Category: string(m.Code), Country: string(m.Country)}
}

// maxCents is 10 million dollars: above any amount of ours, and small enough that sums never overflow.
const maxCents = 1_000_000_000

func unsigned(amount int64) (money.Cents, error) {
	if amount > maxCents || amount < -maxCents {
		return 0, unclear("an amount is too large")
	}
	return money.Cents(max(amount, -amount)), nil
}
