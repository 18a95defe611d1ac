// Package approval is decisions of operators that take effect only when a second operator approves them.
//
//	asked for ─► pending ─► approved, with the decision's effect in the same transaction
//	                   ├──► rejected, also by the operator who asked
//	                   └──► expired
package approval

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
)

// Action is what a decision does.
type Action string

// The actions that a second operator approves.
const (
	// RefundOrder refunds an order in review.
	RefundOrder Action = "order.refund"
	// FulfillOrder says that an order in review was delivered by hand, so that its money stays.
	FulfillOrder Action = "order.fulfill"
	// ResolveTransfer says what has become of a transfer that belongs to no order.
	ResolveTransfer Action = "transfer.resolve"
	// CloseCard closes a card, and refunds what is left on it.
	CloseCard Action = "card.close"
)

// Ending is the action of a move that ends what a buyer paid for: the money goes back, or it stays without a provider's
// word that there are goods. ok is false for the other moves.
func Ending(to order.Status) (action Action, ok bool) {
	switch to {
	case order.RefundPending:
		return RefundOrder, true
	case order.Fulfilled:
		return FulfillOrder, true
	default:
		return "", false
	}
}

// Status is what has become of a decision.
type Status string

// The statuses. A pending decision whose time is over is stored as pending until somebody asks again.
const (
	Pending  Status = "pending"
	Approved Status = "approved"
	Rejected Status = "rejected"
	Expired  Status = "expired"
)

// Asked is what a decision is about.
type Asked struct {
	Action Action
	// Subject is the order, the place of the transfer, or the card.
	Subject string
	// Amount is what it moves, at most.
	Amount money.Cents
	// Resolution is what a transfer is resolved as; empty for other actions.
	Resolution string
	// Version is the version of the order at which it was asked for; zero for other actions.
	Version int
}

// Approval is a decision that waits for a second operator, or did.
type Approval struct {
	ID uuid.UUID
	Asked
	// By is the operator who asked for it, with the key and the reason.
	By                     order.OperatorContext
	RequestedAt, ExpiresAt time.Time
	Status                 Status
	// DecidedBy approved or rejected it. All three are empty until then.
	DecidedBy, DecisionReason string
	DecidedAt                 *time.Time
	// Outdated says that a pending one is about an order that has changed since: it can only be rejected.
	Outdated bool
}

// About is the approval as it stands while the order that it is about is at a version.
func (a Approval) About(version int) Approval {
	a.Outdated = a.Status == Pending && a.Version != version
	return a
}

// Outdated is the fault of approving what is about something that has changed since it was asked for.
func Outdated() error {
	return fault.New(fault.VersionChanged, "What it is about has changed since it was asked for, so it cannot take "+
		"effect any more. Reject it, and ask for it again if it is still right.")
}

// At is the approval as it stands at a time: a pending one whose time is over has expired.
func (a Approval) At(now time.Time) Approval {
	if a.Status == Pending && !now.Before(a.ExpiresAt) {
		a.Status = Expired
	}
	return a
}

// Check refuses what cannot be approved at a time, or not by this operator.
func (a Approval) Check(by order.OperatorContext, now time.Time) error {
	if a = a.At(now); a.Status != Pending {
		return a.closed()
	}
	if !independent(a.By, by) {
		return fault.Newf(fault.SecondOperatorRequired,
			"%s asked for it: another operator approves it, and nobody may have minted the tokens of both.", a.By.Operator)
	}
	return nil
}

// CheckOpen refuses what nobody can reject any more.
func (a Approval) CheckOpen(now time.Time) error {
	if a = a.At(now); a.Status != Pending {
		return a.closed()
	}
	return nil
}

func (a Approval) closed() error {
	if a.Status == Expired {
		return fault.Newf(fault.ApprovalClosed, "It expired at %s. Ask for it again.", a.ExpiresAt.Format(time.RFC3339))
	}
	return fault.Newf(fault.ApprovalClosed, "It was %s by %s.", a.Status, a.DecidedBy)
}

// independent reports whether two operators are two: they are two persons, and nobody, neither of them nor a third one,
// could have kept the tokens of both when they were minted.
func independent(one, other order.OperatorContext) bool {
	could := append([]string{other.Operator}, other.Minters...)
	return !slices.ContainsFunc(append([]string{one.Operator}, one.Minters...), func(name string) bool {
		return slices.ContainsFunc(could, func(other string) bool { return samePerson(name, other) })
	})
}

// samePerson reports whether two names may be one person's. Those whom an issuer knows have a mark after a ~, which
// tells them, whatever they are called; everybody else is who they are called. The database has the same rule.
func samePerson(one, other string) bool {
	name, mark, marked := strings.Cut(one, "~")
	otherName, otherMark, bothMarked := strings.Cut(other, "~")
	if marked && bothMarked {
		return mark == otherMark
	}
	return name == otherName
}

// Possible reports whether, of some operators, one may approve what another one asks for.
func Possible(all []order.OperatorContext) bool {
	for i, one := range all {
		if slices.ContainsFunc(all[i+1:], func(other order.OperatorContext) bool { return independent(one, other) }) {
			return true
		}
	}
	return false
}

// Effect is the operator's act with which an approved decision takes effect: that of who asked for it, at the version
// that it was asked for at.
func (a Approval) Effect() order.OperatorContext {
	act := a.By
	act.Version = a.Version
	return act
}

// ErrNotFound says that there is no such decision.
var ErrNotFound = errors.New("there is no such decision")

// PendingError says that a decision waits for a second operator instead of having taken effect.
type PendingError struct{ Approval Approval }

// Error implements error.
func (*PendingError) Error() string { return "the decision waits for a second operator" }

// DefaultWithin is how long a decision waits when the configuration does not say.
const DefaultWithin = 24 * time.Hour

// Rule says which decisions wait for a second operator. The zero Rule lets none wait.
type Rule struct {
	// Above is the amount above which they do; zero is never.
	Above money.Cents
	// Within is how long they wait; zero takes the default.
	Within time.Duration
}

// Needs reports whether a decision about an amount waits.
func (r Rule) Needs(amount money.Cents) bool { return r.Above > 0 && amount > r.Above }

// Ask is the approval of a decision that an operator asks for.
func (r Rule) Ask(asked Asked, by order.OperatorContext, now time.Time) Approval {
	within := r.Within
	if within == 0 {
		within = DefaultWithin
	}
	return Approval{
		ID: uuid.Must(uuid.NewV7()), Asked: asked, By: by, RequestedAt: now, ExpiresAt: now.Add(within), Status: Pending,
	}
}

// AlreadyAsked is the fault of a decision about something that another one waits for.
func AlreadyAsked(waiting Approval) error {
	if waiting.Outdated {
		return fault.Newf(fault.ApprovalPending, "%s asked for this before it changed: approval %s. Reject that first.",
			waiting.By.Operator, waiting.ID)
	}
	return fault.Newf(fault.ApprovalPending,
		"%s has asked for this until %s: approval %s. Approve or reject that one.", waiting.By.Operator,
		waiting.ExpiresAt.Format(time.RFC3339), waiting.ID)
}
