package cardtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
)

// modes are what Issuer can be told to do.
func modes() []Mode {
	return []Mode{
		ErrorBefore, ErrorAfter, TimeoutBefore, TimeoutAfter, Refused, RateLimited, Unauthorized, UnknownState,
		Rejected, StaysPending,
	}
}

// Fault spoils the next call of one kind, and says whether it can. Faults of one kind queue up.
func (i *Issuer) Fault(op Op, mode Mode) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !slices.Contains(modes(), mode) {
		return false
	}
	i.faults[op] = append(i.faults[op], mode)
	return true
}

// Heal takes back every fault that has not happened yet.
func (i *Issuer) Heal() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.faults)
}

// Settle completes everything pending, except what stays so.
func (i *Issuer) Settle() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, complete := range i.order {
		complete()
	}
	i.order = nil
}

// Executed is how often a mutation took effect.
func (i *Issuer) Executed(ref fulfilment.Ref) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.executed[ref]
}

// Opened is the references of the cards that were opened and not rejected.
func (i *Issuer) Opened() []fulfilment.Ref {
	i.mu.Lock()
	defer i.mu.Unlock()
	var all []fulfilment.Ref
	for ref, a := range i.accounts {
		if a.State != card.AccountRejected {
			all = append(all, ref)
		}
	}
	return all
}

// Calls is how often a call was made, whatever came of it.
func (i *Issuer) Calls(op Op) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.calls[op]
}

// SetFloat sets the money cards are loaded from.
func (i *Issuer) SetFloat(float money.Cents) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.float = float
}

// SetBINs sets the ranges.
func (i *Issuer) SetBINs(bins ...card.BIN) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.bins = slices.Clone(bins)
}

// SetState puts a card into a state, as the issuer's staff would. Its money follows: a card that
// comes to life gets its load, one that ends gives back what it holds.
func (i *Issuer) SetState(ref fulfilment.Ref, state card.AccountState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	a, ok := i.accounts[ref]
	if !ok {
		panic(fmt.Sprintf("cardtest: no card was opened by %s", ref))
	}
	if a.State == card.AccountPending {
		a.balance = a.Loaded
	}
	if state == card.AccountClosed || state == card.AccountRejected {
		i.float += a.balance
		a.balance = 0
	}
	a.State, a.Refusal = state, nil
	if state == card.AccountRejected {
		a.Refusal = &fulfilment.Refusal{Code: fulfilment.RefusedUnstated, Message: "declined by staff"}
	}
}

// Spend takes money off a card, as its owner would.
func (i *Issuer) Spend(ref fulfilment.Ref, amount money.Cents) {
	i.mu.Lock()
	defer i.mu.Unlock()
	a, ok := i.accounts[ref]
	if !ok || a.balance < amount {
		panic(fmt.Sprintf("cardtest: %s cannot be spent by %s", amount, ref))
	}
	a.balance -= amount
}

// before counts a call and fails it if it is to fail without effect.
func (i *Issuer) before(ctx context.Context, op Op) (Mode, error) {
	i.calls[op]++
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrDown, err)
	}
	queue := i.faults[op]
	if len(queue) == 0 {
		return "", nil
	}
	mode := queue[0]
	i.faults[op] = queue[1:]
	switch mode {
	case ErrorBefore, RateLimited, Unauthorized:
		return mode, fmt.Errorf("%s: %w", mode, ErrDown)
	case TimeoutBefore:
		return mode, fmt.Errorf("%w: %w", ErrDown, context.DeadlineExceeded)
	case Refused:
		return mode, &fulfilment.Refusal{Code: fulfilment.RefusedUnstated, Message: "the request is declined"}
	default:
		return mode, nil
	}
}

// after fails a call that has had its effect.
func after(mode Mode) error {
	switch mode {
	case ErrorAfter:
		return ErrDown
	case TimeoutAfter:
		return fmt.Errorf("%w: %w", ErrDown, context.DeadlineExceeded)
	default:
		return nil
	}
}

// refuse says no, now and whenever the reference is sent again.
func (i *Issuer) refuse(ref fulfilment.Ref, code, message string) error {
	no := &fulfilment.Refusal{Code: code, Message: message}
	i.refused[ref] = no
	return no
}

// later is done by Settle, or at once.
func (i *Issuer) later(complete func()) {
	if i.instant {
		complete()
		return
	}
	i.order = append(i.order, complete)
}

func (i *Issuer) anyOpen() bool {
	return slices.ContainsFunc(i.bins, func(b card.BIN) bool { return b.Open })
}

// number is the nth card's, with its check digit.
func (i *Issuer) number(n int) string {
	for check := range 10 {
		if number := fmt.Sprintf("400000%09d%d", n+1, check); luhn(number) {
			return number
		}
	}
	panic("cardtest: a number has no check digit")
}

// seen is a card as an adapter shows it: an unfamiliar state is a pending one.
func (a *account) seen(mode Mode) card.Account {
	shown := a.Account
	if mode == UnknownState {
		shown.State, shown.Refusal = card.AccountPending, nil
	}
	return shown
}

func (m *moved) seen(mode Mode) card.Moved {
	shown := m.Moved
	if mode == UnknownState {
		shown.State, shown.Refusal = card.MovePending, nil
	}
	return shown
}
