package cardtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/sandbox/scenario"
	"github.com/roamcard/roamcard/internal/secret"
)

// Config is how an Issuer begins. Zero values mean what the comments say.
type Config struct {
	// Now is time.Now if nil.
	Now func() time.Time
	// Float is 100,000 dollars if zero.
	Float money.Cents
	// Instant completes mutations at once; otherwise they wait for Settle.
	Instant bool
	// Limits makes it an issuer with spending limits.
	Limits bool
	// Traits are the provider traits; an issuer that deduplicates, with no visibility delay, if zero.
	Traits fulfilment.Traits
}

// Issuer is a card issuer in memory that fails on demand: a card.Issuer, card.Vault, card.Stock and card.CardLister.
type Issuer struct {
	*fulfilmenttest.Fake
	now    func() time.Time
	limits bool

	float    money.Cents
	bins     []card.BIN
	accounts fulfilmenttest.Records[account]
	moved    fulfilmenttest.Records[moved]
	byID     map[string]*account
	roll     []*account // the oldest first
}

type account struct {
	card.Account
	balance  money.Cents
	limited  bool
	limit    money.Cents // all that may be spent, of which balance is left
	scenario string
	number   string
	// byOwner says that the card was frozen by SetFrozen; made are its transactions, oldest first. held is what merchants
	// hold of the balance.
	byOwner bool
	made    []card.Transaction
	held    money.Cents
	// limits are those of its owner.
	limits card.Limits
}

type moved struct {
	card.MovementRecord
	committed money.Cents
}

var (
	_ card.Issuer     = (*Issuer)(nil)
	_ card.Vault      = (*Issuer)(nil)
	_ card.Stock      = (*Issuer)(nil)
	_ card.CardLister = (*Issuer)(nil)

	_ card.Controls = (*Issuer)(nil)
	_ card.Closer   = (*Issuer)(nil)
)

// NewIssuer makes an issuer without cards and with one open range.
func NewIssuer(cfg Config) *Issuer {
	i := &Issuer{
		Fake: fulfilmenttest.NewFake(cfg.Instant, cfg.Traits), now: cfg.Now, float: cfg.Float, limits: cfg.Limits,
		bins:     []card.BIN{{Prefix: "400000", Open: true}},
		accounts: fulfilmenttest.Records[account]{}, moved: fulfilmenttest.Records[moved]{},
		byID: map[string]*account{},
	}
	if i.now == nil {
		i.now = time.Now
	}
	if i.float == 0 {
		i.float = 10_000_000
	}
	return i
}

// Harness puts the issuer under test.
func (i *Issuer) Harness() Harness {
	return Harness{
		Handles: i.Handles(), Issuer: i, Vault: i, Stock: i, Lister: i, Controls: i, Closer: i, Hold: i.Hold,
		Charge: func(_ *testing.T, account string, amount money.Cents) {
			i.Charge(account, amount, card.Merchant{Name: "Merchant", Category: "5411", Country: "US"})
		},
		Capabilities: i.Capabilities(),
	}
}

// Capabilities are those that it was made with.
func (i *Issuer) Capabilities() card.Capabilities {
	c := card.Capabilities{
		Funding: card.Purse, BINs: true, Reveal: card.RevealInline, Holder: card.HolderProgramme,
		Freeze: true, Transactions: true, Close: true,
		Limits:  card.LimitKinds{Transaction: true, Month: true, Merchants: true},
		Details: card.DetailKinds{Billing: true, Challenges: []card.ChallengeMethod{card.ChallengeSMS}},
	}
	if i.limits {
		c.Funding = card.Limit
	}
	return c
}

// Open implements card.Issuer.
func (i *Issuer) Open(ctx context.Context, o card.Opening) (card.Account, error) {
	i.Lock()
	defer i.Unlock()
	a, mode, err := i.accounts.Take(ctx, i.Fake, fulfilmenttest.Entry[account]{
		Op: Open, Ref: o.Ref,
		Same: func(a account) bool {
			return a.Loaded == o.Load && a.limited == o.Limit && a.scenario == scenario.In(ctx)
		},
		Refuse: func() *fulfilment.Refusal {
			switch {
			case !slices.ContainsFunc(i.bins, func(b card.BIN) bool { return b.Open }):
				return &fulfilment.Refusal{Code: card.RefusedBIN, Message: "no range is open"}
			case i.float < o.Load:
				return &fulfilment.Refusal{Code: fulfilment.RefusedFloat, Message: "the float is too low"}
			}
			return nil
		},
		Make: func(mode fulfilmenttest.Mode) *account { return i.open(o, mode, scenario.In(ctx)) },
	})
	if err != nil {
		return card.Account{}, err
	}
	return a.seen(mode), nil
}

func (i *Issuer) open(o card.Opening, mode fulfilmenttest.Mode, played string) *account {
	a := &account{scenario: played, limited: o.Limit, number: number(len(i.accounts))}
	a.Account = card.Account{
		ID: "acct-" + uuid.NewString(), Ref: o.Ref, State: card.AccountPending, Last4: a.number[12:], Loaded: o.Load,
	}
	i.float -= o.Load
	i.byID[a.ID] = a
	i.roll = append(i.roll, a)
	i.Complete(mode, played, func(rejected bool) {
		switch {
		case a.State != card.AccountPending:
		case rejected:
			a.State = card.AccountRejected
			a.Refusal = &fulfilment.Refusal{Code: card.RefusedHolder, Message: "the holder is rejected"}
			i.float += o.Load
		default:
			a.State, a.balance, a.limit = card.AccountActive, o.Load, o.Load
		}
	})
	return a
}

// Account implements card.Issuer.
func (i *Issuer) Account(ctx context.Context, ref fulfilment.Ref) (card.Account, error) {
	i.Lock()
	defer i.Unlock()
	a, mode, err := i.accounts.Find(ctx, i.Fake, Account, ref)
	if err != nil {
		return card.Account{}, err
	}
	return a.seen(mode), nil
}

// Accounts implements card.CardLister, two at a time.
func (i *Issuer) Accounts(ctx context.Context, after string) (page []card.Account, next string, err error) {
	i.Lock()
	defer i.Unlock()
	if err := i.Answer(ctx, Accounts); err != nil {
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
func (i *Issuer) Move(ctx context.Context, m card.Movement) (card.MovementRecord, error) {
	i.Lock()
	defer i.Unlock()
	one, mode, err := i.moved.Take(ctx, i.Fake, fulfilmenttest.Entry[moved]{
		Op: Move, Ref: m.Ref,
		Same: func(known moved) bool {
			return known.Account == m.Account && known.Direction == m.Direction && known.Amount == m.Amount &&
				(known.Target == 0 || known.Target == m.Target)
		},
		Refuse: func() *fulfilment.Refusal { return i.declined(m) },
		Make:   func(mode fulfilmenttest.Mode) *moved { return i.move(i.byID[m.Account], m, mode, scenario.In(ctx)) },
	})
	if err != nil {
		return card.MovementRecord{}, err
	}
	return one.seen(mode), nil
}

// declined is why a movement is refused at once.
func (i *Issuer) declined(m card.Movement) *fulfilment.Refusal {
	a, ok := i.byID[m.Account]
	switch {
	case !ok:
		return noCard(fulfilment.RefusedRequest)
	case a.limited && m.Direction == card.Withdrawal && m.Target+m.Amount != a.limit:
		return &fulfilment.Refusal{Code: fulfilment.RefusedRequest, Message: "the limit is another"}
	case m.Direction == card.Withdrawal && a.State == card.AccountFrozen && a.byOwner:
	case a.State != card.AccountActive:
		return &fulfilment.Refusal{Code: card.RefusedState, Message: "the card is " + string(a.State)}
	case m.Direction == card.Load && a.limited && m.Target <= 0:
		return &fulfilment.Refusal{Code: fulfilment.RefusedRequest, Message: "a limit is missing"}
	case m.Direction == card.Load && i.float < a.taken(m):
		return &fulfilment.Refusal{Code: fulfilment.RefusedFloat, Message: "the float is too low"}
	}
	return nil
}

func (i *Issuer) move(a *account, m card.Movement, mode fulfilmenttest.Mode, played string) *moved {
	one := &moved{MovementRecord: card.MovementRecord{
		Ref: m.Ref, Account: m.Account, Direction: m.Direction, Amount: m.Amount, State: card.MovePending,
	}}
	if a.limited {
		one.Target = m.Target
	}
	if m.Direction == card.Load {
		one.committed = a.taken(m)
		i.float -= one.committed
	}
	i.Complete(mode, played, func(rejected bool) {
		withdrawal := m.Direction == card.Withdrawal
		switch {
		case rejected || (withdrawal && (played == "003" || a.scenario == "003")):
			i.fail(one, fulfilment.RefusedUnstated)
		case a.State != card.AccountActive && !(withdrawal && a.State == card.AccountFrozen && a.byOwner):
			i.fail(one, card.RefusedState)
		case withdrawal && a.balance < m.Amount:
			i.fail(one, card.RefusedFunds)
		case withdrawal:
			one.State = card.MoveSucceeded
			a.balance -= m.Amount
			i.float += m.Amount
			if a.limited {
				a.limit = m.Target
			}
		case a.limited:
			one.State = card.MoveSucceeded
			change := m.Target - a.limit
			a.balance, a.limit = a.balance+change, m.Target
			i.float += one.committed - change
		default:
			one.State = card.MoveSucceeded
			a.balance += m.Amount
		}
	})
	return one
}

// taken is what of the float a load needs now: its amount or, where the card has a limit, what the limit rises by.
func (a *account) taken(m card.Movement) money.Cents {
	if a.limited {
		return max(0, m.Target-a.limit)
	}
	return m.Amount
}

// Limit is the limit of a card: what an adapter would compute differences from.
func (i *Issuer) Limit(id string) money.Cents {
	i.Lock()
	defer i.Unlock()
	return i.byID[id].limit
}

func (i *Issuer) fail(one *moved, code string) {
	one.State, one.Refusal = card.MoveFailed, &fulfilment.Refusal{Code: code, Message: "the movement is declined"}
	if one.Direction == card.Load {
		i.float += one.committed
	}
}

// Moved implements card.Issuer.
func (i *Issuer) Moved(ctx context.Context, _ string, ref fulfilment.Ref) (card.MovementRecord, error) {
	i.Lock()
	defer i.Unlock()
	one, mode, err := i.moved.Find(ctx, i.Fake, Moved, ref)
	if err != nil {
		return card.MovementRecord{}, err
	}
	return one.seen(mode), nil
}

// Balance implements card.Vault.
func (i *Issuer) Balance(ctx context.Context, id string) (card.Balance, error) {
	i.Lock()
	defer i.Unlock()
	if err := i.Answer(ctx, Balance); err != nil {
		return card.Balance{}, err
	}
	a, ok := i.byID[id]
	if !ok {
		return card.Balance{}, noCard(fulfilment.RefusedRequest)
	}
	return card.Balance{Available: a.balance, AsOf: i.now().UTC()}, nil
}

// Credentials implements card.Vault.
func (i *Issuer) Credentials(ctx context.Context, id string) (card.Credentials, error) {
	i.Lock()
	defer i.Unlock()
	if err := i.Answer(ctx, Sensitive); err != nil {
		return card.Credentials{}, err
	}
	a, ok := i.byID[id]
	if !ok || (a.State != card.AccountActive && a.State != card.AccountFrozen) {
		return card.Credentials{}, noCard(card.RefusedState)
	}
	return card.Credentials{
		Number: secret.New(a.number), SecurityCode: secret.New("7" + a.number[12:14]),
		ExpiryMonth: 12, ExpiryYear: i.now().Year() + 3,
	}, nil
}

// Stock implements card.Stock.
func (i *Issuer) Stock(ctx context.Context) (card.Inventory, error) {
	i.Lock()
	defer i.Unlock()
	if err := i.Answer(ctx, Stock); err != nil {
		return card.Inventory{}, err
	}
	return card.Inventory{Float: i.float, BINs: append([]card.BIN(nil), i.bins...), AsOf: i.now().UTC()}, nil
}

func noCard(code string) *fulfilment.Refusal {
	return &fulfilment.Refusal{Code: code, Message: "there is no such card"}
}
