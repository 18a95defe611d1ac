package cardtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/sandbox/scenario"
	"github.com/roamcard/roamcard/internal/secret"
)

// The modes that only Issuer knows.
const (
	// Rejected accepts and later says no.
	Rejected Mode = "rejected"
	// StaysPending accepts and never completes.
	StaysPending Mode = "stays_pending"
)

// ErrDown is what Issuer answers when it is told to fail.
var ErrDown = errors.New("the issuer does not answer")

// Config is how an Issuer begins. Zero values mean what the comments say.
type Config struct {
	// Now is time.Now if nil.
	Now func() time.Time
	// Float is 100,000 dollars if zero.
	Float money.Cents
	// Instant completes mutations at once; otherwise they wait for Settle.
	Instant bool
	// Habits are the traits; an issuer that deduplicates, with no horizon, if zero.
	Habits card.Traits
}

// Issuer is a card issuer in memory: a card.Issuer, card.Vault and card.Stock that fails as it is
// told to. It deduplicates by reference. It is safe for concurrent use.
type Issuer struct {
	now     func() time.Time
	instant bool
	traits  card.Traits

	mu       sync.Mutex
	float    money.Cents
	bins     []card.BIN
	accounts map[card.Ref]*account
	byID     map[string]*account
	roll     []*account // the oldest first
	moved    map[card.Ref]*moved
	order    []func() // what Settle completes, the oldest first
	faults   map[Op][]Mode
	executed map[card.Ref]int
	refused  map[card.Ref]*card.Refusal // a no stays a no
	calls    map[Op]int
}

type account struct {
	card.Account
	balance  money.Cents
	limited  bool
	scenario string
	number   string
}

type moved struct {
	card.Moved
}

var (
	_ card.Issuer = (*Issuer)(nil)
	_ card.Vault  = (*Issuer)(nil)
	_ card.Stock  = (*Issuer)(nil)
	_ card.Roll   = (*Issuer)(nil)
)

// NewIssuer makes an issuer without cards and with one open range.
func NewIssuer(cfg Config) *Issuer {
	i := &Issuer{
		now: cfg.Now, instant: cfg.Instant, traits: cfg.Habits, float: cfg.Float,
		bins:     []card.BIN{{Prefix: "400000", Open: true}},
		accounts: map[card.Ref]*account{}, byID: map[string]*account{}, moved: map[card.Ref]*moved{},
		faults: map[Op][]Mode{}, executed: map[card.Ref]int{}, refused: map[card.Ref]*card.Refusal{}, calls: map[Op]int{},
	}
	if i.now == nil {
		i.now = time.Now
	}
	if i.float == 0 {
		i.float = 10_000_000
	}
	if i.traits == (card.Traits{}) {
		i.traits.Deduplicates = true
	}
	return i
}

// Traits are the habits it was made with.
func (i *Issuer) Traits() card.Traits { return i.traits }

// Open implements card.Issuer.
func (i *Issuer) Open(ctx context.Context, o card.Opening) (card.Account, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	mode, err := i.before(ctx, Open)
	if err != nil {
		return card.Account{}, err
	}
	known, repeated := i.accounts[o.Ref]
	switch {
	case repeated && (known.Loaded != o.Load || known.limited != o.Limit || known.scenario != scenario.In(ctx)):
		return card.Account{}, fmt.Errorf("reference %s was used for another card", o.Ref)
	case repeated:
	case i.refused[o.Ref] != nil:
		return card.Account{}, i.refused[o.Ref]
	case !i.anyOpen():
		return card.Account{}, i.refuse(o.Ref, card.RefusedBIN, "no range is open")
	case i.float < o.Load:
		return card.Account{}, i.refuse(o.Ref, card.RefusedFloat, "the float is too low")
	default:
		known = i.open(o, mode, scenario.In(ctx))
	}
	if err := after(mode); err != nil {
		return card.Account{}, err
	}
	return known.seen(mode), nil
}

func (i *Issuer) open(o card.Opening, mode Mode, asked string) *account {
	a := &account{scenario: asked, limited: o.Limit, number: i.number(len(i.accounts))}
	a.Account = card.Account{
		ID: "acct-" + uuid.NewString(), Ref: o.Ref, State: card.AccountPending, Last4: a.number[12:], Loaded: o.Load,
	}
	i.float -= o.Load
	i.accounts[o.Ref], i.byID[a.ID] = a, a
	i.roll = append(i.roll, a)
	i.executed[o.Ref]++
	if mode == StaysPending || asked == "001" {
		return a
	}
	i.later(func() {
		if a.State != card.AccountPending {
			return
		}
		if mode == Rejected || asked == "002" {
			a.State, a.Refusal = card.AccountRejected, &card.Refusal{Code: card.RefusedHolder, Message: "the holder is rejected"}
			i.float += o.Load
			return
		}
		a.State, a.balance = card.AccountActive, o.Load
	})
	return a
}

// Account implements card.Issuer.
func (i *Issuer) Account(ctx context.Context, ref card.Ref) (card.Account, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	mode, err := i.before(ctx, Account)
	if err != nil {
		return card.Account{}, err
	}
	known, ok := i.accounts[ref]
	if !ok {
		return card.Account{}, card.ErrNoRef
	}
	if err := after(mode); err != nil {
		return card.Account{}, err
	}
	return known.seen(mode), nil
}

// Accounts implements card.Roll, two at a time.
func (i *Issuer) Accounts(ctx context.Context, after string) (page []card.Account, next string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, err := i.before(ctx, Accounts); err != nil {
		return nil, "", err
	}
	from := 1 + slices.IndexFunc(i.roll, func(a *account) bool { return a.ID == after })
	for _, a := range i.roll[from:min(from+2, len(i.roll))] {
		page, next = append(page, a.Account), a.ID
	}
	if from+2 >= len(i.roll) {
		next = ""
	}
	return page, next, nil
}

// Move implements card.Issuer.
func (i *Issuer) Move(ctx context.Context, m card.Movement) (card.Moved, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	mode, err := i.before(ctx, Move)
	if err != nil {
		return card.Moved{}, err
	}
	a, ok := i.byID[m.Account]
	if !ok {
		return card.Moved{}, &card.Refusal{Code: card.RefusedRequest, Message: "there is no such card"}
	}
	known, repeated := i.moved[m.Ref]
	switch {
	case repeated && (known.Account != m.Account || known.Direction != m.Direction || known.Amount != m.Amount):
		return card.Moved{}, fmt.Errorf("reference %s was used for another movement", m.Ref)
	case repeated:
	case i.refused[m.Ref] != nil:
		return card.Moved{}, i.refused[m.Ref]
	case a.limited && m.Direction == card.Withdrawal:
		return card.Moved{}, i.refuse(m.Ref, card.RefusedRequest, "there is no money on a card with a limit")
	case a.State != card.AccountActive:
		return card.Moved{}, i.refuse(m.Ref, card.RefusedState, "the card is "+string(a.State))
	case m.Direction == card.Load && i.float < m.Amount:
		return card.Moved{}, i.refuse(m.Ref, card.RefusedFloat, "the float is too low")
	default:
		known = i.move(a, m, mode, scenario.In(ctx))
	}
	if err := after(mode); err != nil {
		return card.Moved{}, err
	}
	return known.seen(mode), nil
}

func (i *Issuer) move(a *account, m card.Movement, mode Mode, asked string) *moved {
	one := &moved{}
	one.Moved = card.Moved{Ref: m.Ref, Account: m.Account, Direction: m.Direction, Amount: m.Amount, State: card.MovePending}
	i.moved[m.Ref] = one
	i.executed[m.Ref]++
	if m.Direction == card.Load {
		i.float -= m.Amount
	}
	if mode == StaysPending || asked == "001" {
		return one
	}
	i.later(func() {
		withdrawal := m.Direction == card.Withdrawal
		switch {
		case mode == Rejected || asked == "002" || (withdrawal && (asked == "003" || a.scenario == "003")):
			i.fail(one, card.RefusedUnstated)
		case a.State != card.AccountActive:
			i.fail(one, card.RefusedState)
		case withdrawal && a.balance < m.Amount:
			i.fail(one, card.RefusedFunds)
		case withdrawal:
			one.State = card.MoveSucceeded
			a.balance -= m.Amount
			i.float += m.Amount
		default:
			one.State = card.MoveSucceeded
			a.balance += m.Amount
		}
	})
	return one
}

func (i *Issuer) fail(one *moved, code string) {
	one.State, one.Refusal = card.MoveFailed, &card.Refusal{Code: code, Message: "the movement is declined"}
	if one.Direction == card.Load {
		i.float += one.Amount
	}
}

// Moved implements card.Issuer.
func (i *Issuer) Moved(ctx context.Context, ref card.Ref) (card.Moved, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	mode, err := i.before(ctx, Moved)
	if err != nil {
		return card.Moved{}, err
	}
	known, ok := i.moved[ref]
	if !ok {
		return card.Moved{}, card.ErrNoRef
	}
	if err := after(mode); err != nil {
		return card.Moved{}, err
	}
	return known.seen(mode), nil
}

// Balance implements card.Vault.
func (i *Issuer) Balance(ctx context.Context, id string) (card.Balance, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	mode, err := i.before(ctx, Balance)
	if err == nil {
		err = after(mode)
	}
	if err != nil {
		return card.Balance{}, err
	}
	a, ok := i.byID[id]
	if !ok {
		return card.Balance{}, &card.Refusal{Code: card.RefusedRequest, Message: "there is no such card"}
	}
	return card.Balance{Available: a.balance, AsOf: i.now().UTC()}, nil
}

// Credentials implements card.Vault.
func (i *Issuer) Credentials(ctx context.Context, id string) (card.Credentials, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	mode, err := i.before(ctx, Sensitive)
	if err == nil {
		err = after(mode)
	}
	if err != nil {
		return card.Credentials{}, err
	}
	a, ok := i.byID[id]
	if !ok || (a.State != card.AccountActive && a.State != card.AccountFrozen) {
		return card.Credentials{}, &card.Refusal{Code: card.RefusedState, Message: "there is no such card"}
	}
	return card.Credentials{
		Number: secret.New(a.number), SecurityCode: secret.New("7" + a.number[12:14]),
		ExpiryMonth: 12, ExpiryYear: i.now().Year() + 3,
	}, nil
}

// Stock implements card.Stock.
func (i *Issuer) Stock(ctx context.Context) (card.Inventory, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	mode, err := i.before(ctx, Stock)
	if err == nil {
		err = after(mode)
	}
	if err != nil {
		return card.Inventory{}, err
	}
	return card.Inventory{Float: i.float, BINs: append([]card.BIN(nil), i.bins...), AsOf: i.now().UTC()}, nil
}
