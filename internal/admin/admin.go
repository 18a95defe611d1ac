// Package admin runs operators' actions on orders and on the sale of products.
//
//	Queue ─► Inspect ─► Decide: operator_review ─► refund_pending, provisioning or fulfilled
//	                    Prove:  settling ─► settled, by a transaction that the chain shows
//	Closed ─► Close: a product's kill switch
//	Jobs ─► Retry, Drop: a job that was parked or has failed
//	Approvals ─► Approve, Reject: a decision that waits for a second operator
//	Tokens ─► Mint, Revoke: what operators prove with who they are
//	Audit: what operators did
package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/paging"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Admin runs operators' actions.
type Admin struct {
	Records  Records
	Switches Switches
	// Providers are the names of those that are configured, each of which has a switch.
	Providers []string
	Refunds   Refunds
	// Products list the provider references of orders, and the postings of orders that were delivered by hand.
	Products []Product
	Evidence Evidence
	// Confirm makes the job that watches a proven payment until it is final.
	Confirm func(p payment.Payment) job.New
	// Configured are the products whose sale the configuration closes.
	Configured map[order.Kind]bool
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
	Orders
	Trail
	// Decide moves an order out of operator_review, posts the move's postings, and queues its job again unless the move
	// ends it; once per key. order.ErrNotFound when there is no such order, ErrNotInReview when it is not in review,
	// order.KeyReused when the operator used the key for another decision, ErrChanged when it is not at the act's
	// version. A decision that needs a second operator is stored for one instead: the order's ReviewItem then has it.
	Decide(ctx context.Context, m order.Move, act order.OperatorContext) error
	// Unproven finds the payment of an order in settling. done says that the operator has already proven it with this
	// key. order.ErrNotFound when there is no such order, ErrNotSettling when it is not settling, order.KeyReused
	// as above.
	Unproven(
		ctx context.Context, id order.ID, transaction x402.Hash, act order.OperatorContext,
	) (p payment.Payment, done bool, err error)
	// Prove records a payment that its receipt proves, moves its order to settled, posts the move's postings, and
	// queues the order's job and the job that watches the payment; once per key, with the errors of Unproven.
	Prove(ctx context.Context, p payment.Payment, m order.Move, watch job.New, act order.OperatorContext) error
}

// Orders shows orders to operators.
type Orders interface {
	// Queue lists the orders that a query selects.
	Queue(ctx context.Context, q QueueQuery, act order.OperatorContext) ([]ReviewItem, error)
	// Counts counts the orders that are not final by kind and status. It leaves no audit record: it shows sums only, and
	// is polled.
	Counts(ctx context.Context) ([]OrderCount, error)
	// Version is the version of an order. It leaves no audit record: it tells nothing of the order, and is polled.
	// order.ErrNotFound when there is none.
	Version(ctx context.Context, id order.ID) (int, error)
	// ReviewItem reads one order as the queue lists it. order.ErrNotFound when there is none.
	ReviewItem(ctx context.Context, id order.ID) (ReviewItem, error)
	// History reads everything recorded of an order. order.ErrNotFound when there is none.
	History(ctx context.Context, id order.ID, act order.OperatorContext) (History, error)
	// Review reads the postings of an order and the newest of its audit records. order.ErrNotFound when there is none.
	Review(ctx context.Context, id order.ID, act order.OperatorContext) (Review, error)
}

// Trail is what operators did.
type Trail interface {
	// Audit lists the records that a query selects, newest first.
	Audit(ctx context.Context, q AuditQuery, act order.OperatorContext) ([]AuditRecord, error)
	// Presented records nothing but that an operator was there.
	Presented(ctx context.Context, act order.OperatorContext) error
}

// The errors of Records.
var (
	ErrNotSettling = errors.New("the order waits for no payment")
	ErrNotInReview = errors.New("the order does not wait for an operator")
	ErrChanged     = errors.New("it is at another version")
)

// QueueQuery selects a page of orders. What is empty selects all.
type QueueQuery struct {
	Status order.Status
	Kind   order.Kind
	// Owner is the wallet that pays; nil selects all.
	Owner *x402.Address
	// Transaction is one that paid for the order or refunded it; nil selects all.
	Transaction *x402.Hash
	// Request is one that created the order, paid it or decided it, as its answer names it; empty selects all.
	Request string
	// Oldest lists the oldest orders first instead of the newest.
	Oldest bool
	// Last is the last order of the previous page.
	Last  order.ID
	Limit int
}

// OrderCount is how many orders of a kind are in a status.
type OrderCount struct {
	Kind   order.Kind
	Status order.Status
	Count  int
	// Since is when the one came to the status that has been in it for longest, and Latest when the last one came.
	Since, Latest time.Time
}

// ReviewItem is an order in an operator's queue.
type ReviewItem struct {
	Order order.Order
	// Reason is why the order moved to its status.
	Reason string
	// Pending is the decision that waits for a second operator; nil when none does.
	Pending *approval.Approval
}

// History is everything recorded of an order.
type History struct {
	Order order.Order
	// Request is the request that created it unpaid; empty for one that was paid at once.
	Request    string
	Payments   []payment.Payment
	Refund     *payment.Refund
	Jobs       []job.Row
	References []order.Reference
	Timeline   []order.Event
}

// Review is what an operator needs to decide about an order, next to its history.
type Review struct {
	ReviewItem
	// Postings are those of the ledger, oldest first.
	Postings []ledger.Posting
	// Audit is what operators did with the order, newest first.
	Audit []AuditRecord
	// Relayed are the relayer's transactions for its payments and its refund, oldest first.
	Relayed []Relayed
	// Actions are what an operator can do with it now, and what not.
	Actions []Action
}

// Relayed is a transaction of the relayer, and what became of one of its members by it.
type Relayed struct {
	payment.Transaction
	// Member is the payment or refund, and Became how far it has come by this transaction.
	Member uuid.UUID
	Became payment.TransactionStatus
	// LostWei is what the relayer lost on a reverted member.
	LostWei int64
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

// kinds are the kinds of what is sold.
func (a Admin) kinds() (all []order.Kind) {
	for _, p := range a.Products {
		all = append(all, p.Kind())
	}
	return all
}

// Queue lists a page of orders. next is the cursor of the next page, or empty. A kind that nothing has is refused.
func (a Admin) Queue(
	ctx context.Context, q QueueQuery, act order.OperatorContext,
) (page []ReviewItem, next order.ID, err error) {
	limit := q.Limit
	q.Limit++
	page, err = a.Records.Queue(ctx, q, act)
	if err != nil {
		return nil, "", fmt.Errorf("list the orders: %w", err)
	}
	// What was sold before may be of a kind that is not any more.
	if kinds := a.kinds(); len(page) == 0 && q.Kind != "" && !slices.Contains(kinds, q.Kind) {
		return nil, "", fault.NotOneOf("kind", kinds)
	}
	page, next = paging.Cut(page, limit, func(item ReviewItem) order.ID { return item.Order.ID })
	return page, next, nil
}

// Inspect shows the history of an order.
func (a Admin) Inspect(ctx context.Context, id order.ID, act order.OperatorContext) (History, error) {
	h, err := a.Records.History(ctx, id, act)
	if err != nil {
		return History{}, toFault(err, "read the order")
	}
	for _, p := range a.Products {
		if r, ok := p.(referrer); ok && p.Kind() == h.Order.Kind && h.Order.Status.Paid() {
			h.References = r.References(h.Order)
		}
	}
	return h, nil
}

// Review shows what an operator needs to decide about an order.
func (a Admin) Review(ctx context.Context, id order.ID, act order.OperatorContext) (Review, error) {
	r, err := a.Records.Review(ctx, id, act)
	if err != nil {
		return Review{}, toFault(err, "read the order")
	}
	r.Actions = a.actions(r.ReviewItem)
	return r, nil
}

// Counts counts the orders that are not final by kind and status.
func (a Admin) Counts(ctx context.Context) ([]OrderCount, error) {
	all, err := a.Records.Counts(ctx)
	if err != nil {
		return nil, fmt.Errorf("count the orders: %w", err)
	}
	return all, nil
}

// Decide applies an operator's decision, unless it needs a second operator: then the order is returned as it is, with
// the decision that waits. A repeat with the same key changes nothing and returns the order as it is now.
func (a Admin) Decide(
	ctx context.Context, id order.ID, decision Decision, act order.OperatorContext,
) (ReviewItem, error) {
	to, err := decision.leadsTo()
	if err != nil {
		return ReviewItem{}, err
	}
	var of ReviewItem
	if decision == DecideRetry {
		if of, err = a.Records.ReviewItem(ctx, id); err != nil {
			return ReviewItem{}, toFault(err, "read the order")
		}
	}
	if f := a.refusal(decision, of.Order); f != nil {
		return ReviewItem{}, f.About(string(id))
	}
	m := byOperator(id, order.OperatorReview, to, act)
	if to == order.Fulfilled {
		if m.Postings, err = a.Postings(ctx, id); err != nil {
			return ReviewItem{}, err
		}
	}
	if err := a.Records.Decide(ctx, m, act); err != nil {
		return ReviewItem{}, toFault(err, "decide the order")
	}
	q, err := a.Records.ReviewItem(ctx, id)
	if err != nil {
		return ReviewItem{}, toFault(err, "read the order")
	}
	return q, nil
}

// Postings are the ledger postings of an order that was fulfilled by hand. They depend on immutable fields only.
func (a Admin) Postings(ctx context.Context, id order.ID) ([]ledger.Posting, error) {
	q, err := a.Records.ReviewItem(ctx, id)
	if err != nil {
		return nil, toFault(err, "read the order")
	}
	for _, p := range a.Products {
		if p.Kind() == q.Order.Kind {
			return p.Postings(q.Order)
		}
	}
	return nil, fmt.Errorf("order %s: nothing posts a %s", id, q.Order.Kind)
}

func byOperator(id order.ID, from, to order.Status, act order.OperatorContext) order.Move {
	return order.Move{Order: id, From: from, To: to, Actor: "operator:" + act.Operator, Reason: act.Reason}
}

// Closed lists the kill switch of every product.
func (a Admin) Closed(ctx context.Context, act order.OperatorContext) ([]availability.Switch, error) {
	all, err := a.Switches.LookAtSwitches(ctx, act)
	if err != nil {
		return nil, fmt.Errorf("read the kill switches: %w", err)
	}
	for i, s := range all {
		all[i].Configured = a.Configured[s.Product]
	}
	for _, name := range a.Providers {
		of := availability.OfProvider(name)
		if !slices.ContainsFunc(all, func(s availability.Switch) bool { return s.Product == of }) {
			all = append(all, availability.Switch{Product: of})
		}
	}
	return all, nil
}

// Close sets the kill switch of a product, or of a configured provider. A repeat with the same key changes nothing.
func (a Admin) Close(
	ctx context.Context, product order.Kind, paused bool, act order.OperatorContext,
) (availability.Switch, error) {
	if name, ok := availability.ProviderOf(product); ok && !slices.Contains(a.Providers, name) {
		return availability.Switch{}, fault.Newf(fault.SchemaInvalid, "No provider %q is configured.", name)
	}
	set, err := a.Switches.SetSwitch(ctx, product, paused, act)
	if err != nil {
		return availability.Switch{}, toFault(err, "set the kill switch")
	}
	set.Configured = a.Configured[set.Product]
	return set, nil
}

// Switches keeps the kill switches.
type Switches interface {
	// LookAtSwitches reads the switches of all products, and those of providers that were ever set, for an operator,
	// audited.
	LookAtSwitches(ctx context.Context, act order.OperatorContext) ([]availability.Switch, error)
	// SetSwitch pauses or resumes the sale of a product or over a provider, once per key, and returns the current switch.
	// order.KeyReused when the operator used the key for another change.
	SetSwitch(ctx context.Context, product order.Kind, paused bool, act order.OperatorContext) (availability.Switch, error)
}

// toFault maps the errors of Records, JobRecords, Switches, ApprovalRecords and TokenRecords to faults.
func toFault(err error, act string) error {
	if f, ok := fault.As(err); ok {
		return f
	}
	switch {
	case errors.Is(err, order.ErrNotFound):
		return fault.New(fault.OrderNotFound, "There is no order with this id.")
	case errors.Is(err, ErrNotInReview):
		return notInReview()
	case errors.Is(err, ErrNotSettling):
		return notSettling()
	case errors.Is(err, ErrChanged):
		return fault.New(fault.VersionChanged, "It has changed since it was read. Read it again, then decide.")
	case errors.Is(err, approval.ErrNotFound):
		return fault.New(fault.ApprovalNotFound, "There is no decision with this id.")
	case errors.Is(err, ErrTokenNotFound):
		return fault.New(fault.TokenNotFound, "There is no token with this id.")
	case errors.Is(err, ErrJobNotFound):
		return fault.New(fault.JobNotFound, "There is no job with this id.")
	}
	return fmt.Errorf("%s: %w", act, err)
}
