// Package admin runs operators' actions on orders and on the sale of products.
//
//	Queue ─► Inspect ─► Decide: operator_review ─► refund_pending, provisioning or fulfilled
//	                    Prove:  settling ─► settled, by a transaction that the chain shows
//	Closed ─► Close: a product's kill switch
package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Admin runs operators' actions.
type Admin struct {
	Records  Records
	Switches Switches
	Refunds  Refunds
	// Products list the provider references of orders, and the postings of orders that were delivered by hand.
	Products []Product
	Evidence Evidence
	// Confirm makes the job that watches a proven payment until it is final.
	Confirm func(p payment.Payment) job.New
}

// Product is the part of a product that operators' actions need.
type Product interface {
	Kind() order.Kind
	// Postings are the ledger postings of an order that was fulfilled by hand.
	Postings(o order.Order) ([]ledger.Posting, error)
}

// Refunds says whether refunds can be made.
type Refunds interface {
	// Unavailable is the reason why nothing can be refunded, or empty.
	Unavailable() string
}

// Records reads and changes orders for operators. Each call writes its audit record in the same transaction.
type Records interface {
	// Queue lists orders in a status, newest first.
	Queue(ctx context.Context, q QueueQuery, act order.Act) ([]ReviewItem, error)
	// ReviewItem reads one order as the queue lists it. order.ErrNotFound when there is none.
	ReviewItem(ctx context.Context, id order.ID) (ReviewItem, error)
	// History reads everything recorded of an order. order.ErrNotFound when there is none.
	History(ctx context.Context, id order.ID, act order.Act) (History, error)
	// Decide moves an order out of operator_review, posts the move's postings, and queues its job again unless the move
	// ends it; once per key. order.ErrNotFound when there is no such order, ErrNotInReview when it is not in review,
	// ErrKeyReused when the operator used the key for another decision.
	Decide(ctx context.Context, m order.Move, act order.Act) error
	// Unproven finds the payment of an order in settling. done says that the operator has already proven it with this
	// key. order.ErrNotFound when there is no such order, ErrNotSettling when it is not settling, ErrKeyReused as
	// above.
	Unproven(
		ctx context.Context, id order.ID, transaction x402.Hash, act order.Act,
	) (p payment.Payment, done bool, err error)
	// Prove records a payment that its receipt proves, moves its order to settled, posts the move's postings, and
	// queues the order's job and the job that watches the payment; once per key, with the errors of Unproven.
	Prove(ctx context.Context, p payment.Payment, m order.Move, watch job.New, act order.Act) error
}

// The errors of Records.
var (
	ErrNotSettling = errors.New("the order waits for no payment")
	ErrNotInReview = errors.New("the order does not wait for an operator")
	ErrKeyReused   = errors.New("the key was used for another action")
)

// QueueQuery selects a page of orders.
type QueueQuery struct {
	Status order.Status
	// Before is the last order of the previous page.
	Before order.ID
	Limit  int
}

// ReviewItem is an order in an operator's queue.
type ReviewItem struct {
	Order order.Order
	// Reason is why the order moved to its status.
	Reason string
}

// History is everything recorded of an order.
type History struct {
	Order      order.Order
	Payments   []payment.Payment
	Refund     *payment.Refund
	Jobs       []job.Row
	References []order.Reference
	Timeline   []order.Event
}

// referrer is a Product whose provider identifies orders by references that we derive.
type referrer interface {
	References(o order.Order) []order.Reference
}

// Decision is an operator's decision on an order in operator_review.
type Decision string

// The decisions.
const (
	// DecideRefund refunds the payment.
	DecideRefund Decision = "refund"
	// DecideRetry delivers again: under a new reference after a refusal that the provider confirmed, otherwise by first
	// asking the provider for the outcome of the old one.
	DecideRetry Decision = "retry"
	// DecideFulfilled says that the goods were delivered by hand.
	DecideFulfilled Decision = "fulfilled"
)

// leadsTo is the status to which a decision moves an order.
func (d Decision) leadsTo() (order.Status, error) {
	switch d {
	case DecideRefund:
		return order.RefundPending, nil
	case DecideRetry:
		return order.Provisioning, nil
	case DecideFulfilled:
		return order.Fulfilled, nil
	}
	return "", fmt.Errorf("unknown decision %q", d)
}

// Queue lists a page of orders in a status, newest first. next is the cursor of the next page, or empty.
func (a Admin) Queue(ctx context.Context, q QueueQuery, act order.Act) (page []ReviewItem, next order.ID, err error) {
	limit := q.Limit
	q.Limit++
	page, err = a.Records.Queue(ctx, q, act)
	if err != nil {
		return nil, "", fmt.Errorf("list the orders: %w", err)
	}
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].Order.ID
	}
	return page, next, nil
}

// Inspect shows the history of an order.
func (a Admin) Inspect(ctx context.Context, id order.ID, act order.Act) (History, error) {
	h, err := a.Records.History(ctx, id, act)
	if err != nil {
		return History{}, known(err, "read the order")
	}
	for _, p := range a.Products {
		if r, ok := p.(referrer); ok && p.Kind() == h.Order.Kind && h.Order.Status.Paid() {
			h.References = r.References(h.Order)
		}
	}
	return h, nil
}

// Decide applies an operator's decision. A repeat with the same key changes nothing and returns the order as it is now.
func (a Admin) Decide(ctx context.Context, id order.ID, decision Decision, act order.Act) (ReviewItem, error) {
	to, err := decision.leadsTo()
	if err != nil {
		return ReviewItem{}, err
	}
	if why := a.Refunds.Unavailable(); decision == DecideRefund && why != "" {
		return ReviewItem{}, fault.Newf(fault.RefundUnavailable, "The refund cannot be made: %s.", why).About(string(id))
	}
	m := byOperator(id, order.OperatorReview, to, act)
	if to == order.Fulfilled {
		if m.Postings, err = a.postings(ctx, id); err != nil {
			return ReviewItem{}, err
		}
	}
	if err := a.Records.Decide(ctx, m, act); err != nil {
		return ReviewItem{}, known(err, "decide the order")
	}
	q, err := a.Records.ReviewItem(ctx, id)
	if err != nil {
		return ReviewItem{}, known(err, "read the order")
	}
	return q, nil
}

// postings are the ledger postings of an order that was fulfilled by hand. They depend on immutable fields only.
func (a Admin) postings(ctx context.Context, id order.ID) ([]ledger.Posting, error) {
	q, err := a.Records.ReviewItem(ctx, id)
	if err != nil {
		return nil, known(err, "read the order")
	}
	for _, p := range a.Products {
		if p.Kind() == q.Order.Kind {
			return p.Postings(q.Order)
		}
	}
	return nil, fmt.Errorf("order %s: nothing posts a %s", id, q.Order.Kind)
}

func byOperator(id order.ID, from, to order.Status, act order.Act) order.Move {
	return order.Move{Order: id, From: from, To: to, Actor: "operator:" + act.Operator, Reason: act.Reason}
}

// Closed lists the kill switch of every product.
func (a Admin) Closed(ctx context.Context, act order.Act) ([]availability.Switch, error) {
	all, err := a.Switches.LookAtSwitches(ctx, act)
	if err != nil {
		return nil, fmt.Errorf("read the kill switches: %w", err)
	}
	return all, nil
}

// Close sets the kill switch of a product. A repeat with the same key changes nothing.
func (a Admin) Close(ctx context.Context, product order.Kind, paused bool, act order.Act) (availability.Switch, error) {
	set, err := a.Switches.SetSwitch(ctx, product, paused, act)
	if err != nil {
		return availability.Switch{}, known(err, "set the kill switch")
	}
	return set, nil
}

// Switches keeps the kill switches.
type Switches interface {
	// LookAtSwitches reads the switches of all products for an operator, audited.
	LookAtSwitches(ctx context.Context, act order.Act) ([]availability.Switch, error)
	// SetSwitch pauses or resumes the sale of a product, once per key, and returns the current switch. ErrKeyReused
	// when the operator used the key for another change.
	SetSwitch(ctx context.Context, product order.Kind, paused bool, act order.Act) (availability.Switch, error)
}

// known maps the errors of Records and Switches to faults.
func known(err error, act string) error {
	switch {
	case errors.Is(err, order.ErrNotFound):
		return fault.New(fault.OrderNotFound, "There is no order with this id.")
	case errors.Is(err, ErrNotInReview):
		return fault.New(fault.OrderNotInReview, "Only an order in operator_review can be decided.")
	case errors.Is(err, ErrNotSettling):
		return fault.New(fault.OrderNotPayable, "Only an order in settling waits for its payment.")
	case errors.Is(err, ErrKeyReused):
		return fault.New(fault.IdempotencyKeyReused,
			"This Idempotency-Key was used for something else, or with another reason.")
	}
	return fmt.Errorf("%s: %w", act, err)
}
