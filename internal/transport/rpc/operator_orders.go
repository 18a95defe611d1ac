package rpc

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// OrderQueue is the orders that wait for an operator, or did.
type OrderQueue interface {
	// Queue is a page of them, and the last order of the page if there are more.
	Queue(ctx context.Context, q admin.QueueQuery, act order.OperatorContext) (page []admin.ReviewItem, next order.ID,
		err error)
	// Counts counts those that are not final.
	Counts(ctx context.Context) ([]admin.OrderCount, error)
	// Version is the version of one, which rises with every change.
	Version(ctx context.Context, id order.ID) (int, error)
	Inspect(ctx context.Context, id order.ID, act order.OperatorContext) (admin.History, error)
	// Review is what an operator needs to decide about one.
	Review(ctx context.Context, id order.ID, act order.OperatorContext) (admin.Review, error)
	// Decide moves an order on, once for each key of the act.
	Decide(ctx context.Context, id order.ID, d admin.Decision, act order.OperatorContext) (admin.ReviewItem, error)
	// Prove settles an order by a transaction that paid it, once for each key of the act.
	Prove(ctx context.Context, id order.ID, transaction x402.Hash, act order.OperatorContext) (admin.ReviewItem, error)
}

// Switches close the sale of a product.
type Switches interface {
	Closed(ctx context.Context, act order.OperatorContext) ([]availability.Switch, error)
	// Close sets a product's switch, once for each key of the act.
	Close(ctx context.Context, product order.Kind, paused bool, act order.OperatorContext) (availability.Switch, error)
}

// ListOrderQueue implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ListOrderQueue(
	ctx context.Context, req *roamcardv1.ListOrderQueueRequest,
) (*roamcardv1.ListOrderQueueResponse, error) {
	q, err := queueQuery(req)
	if err != nil {
		return nil, err
	}
	page, next, err := s.Queue.Queue(ctx, q, act(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListOrderQueueResponse{
		Orders: messages(page, reviewItemMessage), NextPageToken: optionalText(string(next)),
	}, nil
}

func queueQuery(req *roamcardv1.ListOrderQueueRequest) (admin.QueueQuery, error) {
	q := admin.QueueQuery{
		Status: order.Status(req.GetStatus()), Kind: order.Kind(req.GetKind()), Oldest: req.GetSort() == "oldest",
		Last: order.ID(req.GetPageToken()), Request: req.GetRequestId(), Limit: limitOf(req.GetPageSize()),
	}
	if req.Owner != nil {
		owner, err := x402.ParseAddress(req.GetOwner())
		if err != nil {
			return q, rpcx.Invalid("owner", "string.address", "must be an address")
		}
		q.Owner = &owner
	}
	if req.Transaction != nil {
		transaction, err := x402.ParseHash(req.GetTransaction())
		if err != nil {
			return q, rpcx.Invalid("transaction", "string.hash", "must be a transaction's hash")
		}
		q.Transaction = &transaction
	}
	if req.Status == nil && q.Owner == nil && q.Transaction == nil && q.Request == "" {
		q.Status = order.OperatorReview
	}
	return q, nil
}

// InspectOrder implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) InspectOrder(
	ctx context.Context, req *roamcardv1.InspectOrderRequest,
) (*roamcardv1.InspectOrderResponse, error) {
	history, err := s.Queue.Inspect(ctx, order.ID(req.GetOrderId()), act(ctx))
	if err != nil {
		return nil, err
	}
	orders, err := s.orders(ctx, shownOrder(history))
	if err != nil {
		return nil, err
	}
	res := &roamcardv1.InspectOrderResponse{
		Order: orders[0], Owner: history.Order.Owner.String(), RequestId: optionalText(history.Request),
		Payments: messages(history.Payments, paymentRecord), Jobs: messages(history.Jobs, jobRecord),
		Timeline: messages(history.Timeline, moveMessage),
	}
	if history.Refund != nil {
		res.Refund = refundRecord(*history.Refund)
	}
	for _, r := range history.References {
		res.References = append(res.References, &roamcardv1.ProviderReference{Step: r.Step, Version: uint32(r.Version),
			Reference: r.Reference})
	}
	return res, nil
}

// ReviewOrder implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ReviewOrder(
	ctx context.Context, req *roamcardv1.ReviewOrderRequest,
) (*roamcardv1.ReviewOrderResponse, error) {
	review, err := s.Queue.Review(ctx, order.ID(req.GetOrderId()), act(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ReviewOrderResponse{
		Order: reviewItemMessage(review.ReviewItem), AllowedActions: actionMessages(review.Actions),
		Postings: messages(review.Postings, postingMessage), Audit: messages(review.Audit, auditRecord),
		Transactions: messages(review.Relayed, relayedMessage),
	}, nil
}

func relayedMessage(r admin.Relayed) *roamcardv1.RelayedTransaction {
	m := &roamcardv1.RelayedTransaction{
		PaymentId: r.Member.String(), Status: string(r.Became), Relayer: r.Relayer.String(),
		Nonce: strconv.FormatUint(r.Nonce, 10), Members: uint32(len(r.Payments)), CreatedAt: timestamp(r.CreatedAt),
	}
	for _, v := range r.Variants {
		m.Hashes, m.SignedAt = append(m.Hashes, v.Hash.String()), timestamp(v.SignedAt)
	}
	if r.Became == payment.TransactionReverted {
		m.LostWei = proto.String(strconv.FormatInt(r.LostWei, 10))
	}
	return m
}

// shownOrder is the order with the payment that decides it, as its owner sees it.
func shownOrder(h admin.History) checkout.PaidOrder {
	sold := checkout.PaidOrder{Order: h.Order, Refund: h.Refund}
	if n := len(h.Payments); n > 0 {
		sold.Payment = h.Payments[n-1]
	}
	return sold
}

// DecideOrder implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) DecideOrder(
	ctx context.Context, req *roamcardv1.DecideOrderRequest,
) (*roamcardv1.DecideOrderResponse, error) {
	q, err := s.Queue.Decide(ctx, order.ID(req.GetOrderId()), admin.Decision(req.GetAction()),
		actAt(ctx, req.GetReason(), req.Version))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.DecideOrderResponse{Order: reviewItemMessage(q)}, nil
}

// ProvePayment implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ProvePayment(
	ctx context.Context, req *roamcardv1.ProvePaymentRequest,
) (*roamcardv1.ProvePaymentResponse, error) {
	transaction, err := x402.ParseHash(req.GetTransaction())
	if err != nil {
		return nil, fault.New(fault.SchemaInvalid, "transaction is no hash.")
	}
	q, err := s.Queue.Prove(ctx, order.ID(req.GetOrderId()), transaction,
		actAt(ctx, req.GetReason(), req.Version))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ProvePaymentResponse{Order: reviewItemMessage(q)}, nil
}

// ListSwitches implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ListSwitches(
	ctx context.Context, _ *roamcardv1.ListSwitchesRequest,
) (*roamcardv1.ListSwitchesResponse, error) {
	all, err := s.Switches.Closed(ctx, act(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListSwitchesResponse{Switches: messages(all, switchMessage)}, nil
}

// SetSwitch implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) SetSwitch(
	ctx context.Context, req *roamcardv1.SetSwitchRequest,
) (*roamcardv1.SetSwitchResponse, error) {
	set, err := s.Switches.Close(ctx, order.Kind(req.GetProduct()), req.GetPaused(), actOnce(ctx, req.GetReason()))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.SetSwitchResponse{Switch: switchMessage(set)}, nil
}

func reviewItemMessage(q admin.ReviewItem) *roamcardv1.ReviewItem {
	o := q.Order
	return &roamcardv1.ReviewItem{
		OrderId: string(o.ID), Kind: string(o.Kind), Status: string(o.Status), Owner: o.Owner.String(),
		AmountUsdCents: uint32(o.Price),
		Reason:         q.Reason, Since: timestamp(o.UpdatedAt), CreatedAt: timestamp(o.CreatedAt),
		Version: uint32(o.Version), PendingApproval: approvalMessage(q.Pending),
	}
}

func actionMessages(all []admin.Action) (messages []*roamcardv1.AllowedAction) {
	for _, a := range all {
		messages = append(messages,
			&roamcardv1.AllowedAction{Action: a.Name, Allowed: a.Allowed, Reason: optionalText(a.Reason)})
	}
	return messages
}

func postingMessage(p ledger.Posting) *roamcardv1.LedgerPosting {
	m := &roamcardv1.LedgerPosting{Id: string(p.ID), Kind: string(p.Kind), At: timestamp(p.At)}
	for _, e := range p.Entries {
		m.Entries = append(m.Entries,
			&roamcardv1.LedgerBalance{Account: string(e.Account), Units: strconv.FormatInt(int64(e.Amount), 10)})
	}
	return m
}

func paymentRecord(p payment.Payment) *roamcardv1.PaymentRecord {
	m := &roamcardv1.PaymentRecord{
		Id: p.ID.String(), Status: string(p.Status), Payer: p.Authorization.From.String(),
		Amount: p.Authorization.Value.String(),
		Nonce:  p.Authorization.Nonce.String(), DeadReason: optionalText(p.DeadReason),
		CreatedAt: timestamp(p.CreatedAt),
	}
	if r := p.Receipt; r != nil {
		m.Transaction, m.SettledAt = proto.String(r.Transaction.String()), timestamp(r.SettledAt)
	}
	return m
}

func refundRecord(r payment.Refund) *roamcardv1.RefundRecord {
	a := r.Authorization
	m := &roamcardv1.RefundRecord{
		Id: r.ID.String(), Status: string(r.Status), Treasury: a.From.String(), To: a.To.String(),
		Amount: a.Value.String(),
		Nonce:  a.Nonce.String(), ValidBefore: timestamp(time.Unix(int64(a.ValidBefore), 0)),
		CreatedAt: timestamp(r.CreatedAt), SignedAt: timestamp(r.SignedAt),
	}
	if r.Receipt != nil {
		m.Transaction, m.SettledAt = proto.String(r.Receipt.Transaction.String()), timestamp(r.Receipt.SettledAt)
	}
	return m
}

func jobRecord(row job.Row) *roamcardv1.JobRecord {
	return &roamcardv1.JobRecord{
		Id: row.ID.String(), Kind: string(row.Kind), Status: string(row.Status), Attempt: uint32(row.Attempt),
		Step: optionalText(row.Step), LastError: optionalText(row.LastError),
		RunAt: timestamp(row.RunAt), CreatedAt: timestamp(row.CreatedAt), FinishedAt: optionalTimestamp(row.FinishedAt),
	}
}

func moveMessage(e order.Event) *roamcardv1.OrderMove {
	m := &roamcardv1.OrderMove{
		Version: uint32(e.Version), At: timestamp(e.At), From: string(e.From), To: string(e.To), Actor: e.Actor,
		Reason: e.Reason, RequestId: optionalText(e.Request),
	}
	for _, name := range slices.Sorted(maps.Keys(e.Evidence)) {
		m.Evidence = append(m.Evidence, &roamcardv1.Evidence{Name: name, Value: e.Evidence[name]})
	}
	return m
}

func switchMessage(s availability.Switch) *roamcardv1.Switch {
	m := &roamcardv1.Switch{Product: string(s.Product), Paused: s.Paused, PausedByConfig: s.Configured}
	if s.Operator != "" {
		m.Reason, m.Operator, m.ChangedAt = proto.String(s.Reason), proto.String(s.Operator), timestamp(s.ChangedAt)
	}
	return m
}

func optionalText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
