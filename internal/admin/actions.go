package admin

import (
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
)

// Action is something that an operator can do, and whether now.
type Action struct {
	Name    string
	Allowed bool
	// Reason says why not; empty when it is allowed.
	Reason string
}

// The actions that are no decisions.
const (
	// ActionProve names the transaction of an order's payment.
	ActionProve = "prove_payment"
	// ActionRetry puts a job back into the queue, and ActionDrop deletes it.
	ActionRetry = "retry"
	ActionDrop  = "drop"
)

// action is an action that is allowed unless a fault says why not.
func action(name string, not *fault.Fault) Action {
	if not != nil {
		return Action{Name: name, Reason: not.Detail}
	}
	return Action{Name: name, Allowed: true}
}

// actions are what can be done with an order as it stands.
func (a Admin) actions(item ReviewItem) []Action {
	o := item.Order
	var all []Action
	for _, d := range []Decision{DecideRefund, DecideRetry, DecideFulfilled} {
		not := a.refusal(d, o)
		if o.Status != order.OperatorReview {
			not = notInReview()
		} else if d != DecideRetry && item.Pending != nil {
			not = waits(*item.Pending)
		}
		all = append(all, action(string(d), not))
	}
	var not *fault.Fault
	if o.Status != order.Settling {
		not = notSettling()
	}
	return append(all, action(ActionProve, not))
}

// waits says what to do about a decision that waits, before another one.
func waits(a approval.Approval) *fault.Fault {
	if a.Outdated {
		return fault.Newf(fault.ApprovalPending, "%s asked for it before the order changed: reject approval %s first.",
			a.By.Operator, a.ID)
	}
	return fault.Newf(fault.ApprovalPending, "%s has asked for it: a second operator approves or rejects that.",
		a.By.Operator)
}

// refusal says why a decision cannot be made about an order, whatever its status is, or is nil. Only for a retry it
// looks at the order.
func (a Admin) refusal(d Decision, o order.Order) *fault.Fault {
	switch why := a.Refunds.Unavailable(); {
	case d == DecideRefund && why != "":
		return fault.Newf(fault.RefundUnavailable, "The refund cannot be made: %s.", why)
	case d == DecideRetry && o.RefundReason != "":
		return fault.New(fault.OrderOnlyRefunded, "The order was made only to bring its payment back.")
	}
	return nil
}

func notInReview() *fault.Fault {
	return fault.New(fault.OrderNotInReview, "Only an order in operator_review can be decided.")
}

func notSettling() *fault.Fault {
	return fault.New(fault.OrderNotPayable, "Only an order in settling waits for its payment.")
}
