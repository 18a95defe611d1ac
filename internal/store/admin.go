package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"entgo.io/ent/dialect/sql"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/audit"
	entcard "github.com/roamcard/roamcard/ent/card"
	entorder "github.com/roamcard/roamcard/ent/order"
	entpayment "github.com/roamcard/roamcard/ent/payment"
	"github.com/roamcard/roamcard/ent/predicate"
	entrefund "github.com/roamcard/roamcard/ent/refund"
	enttimeline "github.com/roamcard/roamcard/ent/timeline"
	"github.com/roamcard/roamcard/ent/transaction"
	"github.com/roamcard/roamcard/ent/transactionmember"
	"github.com/roamcard/roamcard/internal/admin"
	"github.com/roamcard/roamcard/internal/approval"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/x402"
)

// Admin reads and changes orders for operators. It implements admin.Records, admin.Switches and
// availability.SwitchStore.
type Admin struct{ s *Store }

// Admin is the part of the store that operators use.
func (s *Store) Admin() Admin { return Admin{s} }

// The operators' actions on orders, as the audit trail names them.
const (
	actQueue   = "orders.list"
	actInspect = "order.inspect"
	actReview  = "order.review"
	actDecide  = "order.decide"
	actProve   = "order.prove_payment"
)

// Queue implements admin.Records.
func (d Admin) Queue(ctx context.Context, q admin.QueueQuery, act order.OperatorContext) ([]admin.ReviewItem, error) {
	var page []admin.ReviewItem
	err := d.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		query, err := selected(ctx, tx, q)
		if err != nil {
			return err
		}
		// Most orders are fulfilled: a plan that is not made for the status would walk over all of them.
		if _, err := raw(tx).Exec(ctx, customPlansSQL); err != nil {
			return err
		}
		rows, err := query.Limit(q.Limit).All(ctx)
		if err != nil {
			return err
		}
		if page, err = d.s.reviewItemOf(ctx, tx.Client(), rows...); err != nil {
			return err
		}
		return d.s.record(ctx, tx, act, actQueue, string(q.Status), nil, nil)
	})
	return page, err
}

// selected is the query of the orders that an operator asks for.
func selected(ctx context.Context, tx *ent.Tx, q admin.QueueQuery) (*ent.OrderQuery, error) {
	query := tx.Order.Query()
	if q.Status != "" {
		query = query.Where(entorder.StatusEQ(entorder.Status(q.Status)))
	}
	if q.Kind != "" {
		query = query.Where(entorder.Kind(string(q.Kind)))
	}
	if q.Owner != nil {
		query = query.Where(entorder.Owner(q.Owner.Lower()))
	}
	if q.Transaction != nil {
		ids, err := movedBy(ctx, tx, *q.Transaction)
		if err != nil {
			return nil, err
		}
		query = query.Where(entorder.IDIn(ids...))
	}
	if q.Request != "" {
		query = query.Where(askedBy(q.Request))
	}
	if q.Oldest {
		if q.Last != "" {
			query = query.Where(entorder.IDGT(string(q.Last)))
		}
		return query.Order(entorder.ByID()), nil
	}
	if q.Last != "" {
		query = query.Where(entorder.IDLT(string(q.Last)))
	}
	return query.Order(entorder.ByID(sql.OrderDesc())), nil
}

// askedBy selects the orders that a request created, paid or decided. A client may name all of its requests alike, so
// they are not read first.
func askedBy(request string) predicate.Order {
	return func(s *sql.Selector) {
		created := sql.Select(entorder.FieldID).From(sql.Table(entorder.Table)).
			Where(sql.EQ(entorder.FieldRequestID, request))
		moved := sql.Select(enttimeline.FieldOrderID).From(sql.Table(enttimeline.Table)).
			Where(sql.EQ(enttimeline.FieldRequestID, request))
		s.Where(sql.In(s.C(entorder.FieldID), created.UnionAll(moved)))
	}
}

// movedBy are the orders that a transaction paid for or refunded.
func movedBy(ctx context.Context, tx *ent.Tx, transaction x402.Hash) ([]string, error) {
	paid, err := tx.Payment.Query().Where(entpayment.Transaction(transaction.String())).
		Select(entpayment.FieldOrderID).Strings(ctx)
	if err != nil {
		return nil, err
	}
	refunded, err := tx.Refund.Query().Where(entrefund.Transaction(transaction.String())).
		Select(entrefund.FieldOrderID).Strings(ctx)
	return append(paid, refunded...), err
}

// Statuses are literals, so that the index of open orders is used.
const countOrdersSQL = `
	SELECT kind, status, count(*), min(updated_at), max(updated_at) FROM orders
	WHERE status IN ('payment_required', 'settling', 'settled', 'provisioning', 'refund_pending', 'operator_review')
	GROUP BY kind, status ORDER BY kind, status`

// Counts implements admin.Records.
func (d Admin) Counts(ctx context.Context) ([]admin.OrderCount, error) {
	rows, err := d.s.pool.Query(ctx, countOrdersSQL)
	if err != nil {
		return nil, mapError(err)
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (c admin.OrderCount, err error) {
		err = r.Scan(&c.Kind, &c.Status, &c.Count, &c.Since, &c.Latest)
		c.Since, c.Latest = c.Since.UTC(), c.Latest.UTC()
		return c, err
	})
	return all, mapError(err)
}

// Version implements admin.Records.
func (d Admin) Version(ctx context.Context, id order.ID) (version int, err error) {
	err = d.s.pool.QueryRow(ctx, "SELECT version FROM orders WHERE id = $1", string(id)).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, order.ErrNotFound
	}
	return version, mapError(err)
}

// ReviewItem implements admin.Records.
func (d Admin) ReviewItem(ctx context.Context, id order.ID) (admin.ReviewItem, error) {
	row, err := d.s.ent.Order.Get(ctx, string(id))
	if ent.IsNotFound(err) {
		return admin.ReviewItem{}, order.ErrNotFound
	}
	if err != nil {
		return admin.ReviewItem{}, mapError(err)
	}
	page, err := d.s.reviewItemOf(ctx, d.s.ent, row)
	if err != nil {
		return admin.ReviewItem{}, mapError(err)
	}
	return page[0], nil
}

// reviewItemOf adds the reasons of their last moves to orders, and the decisions that wait for a second operator.
func (s *Store) reviewItemOf(ctx context.Context, c *ent.Client, rows ...*ent.Order) ([]admin.ReviewItem, error) {
	page, ids := make([]admin.ReviewItem, len(rows)), make([]string, len(rows))
	for i, row := range rows {
		o, err := orderOf(row)
		if err != nil {
			return nil, err
		}
		page[i].Order, ids[i] = o, row.ID
	}
	moves, err := c.Timeline.Query().Where(enttimeline.OrderIDIn(ids...)).Order(enttimeline.ByVersion()).All(ctx)
	if err != nil {
		return nil, err
	}
	last := map[order.ID]string{}
	for _, m := range moves {
		last[order.ID(m.OrderID)] = m.Reason
	}
	waiting, err := waitingFor(ctx, c, s.stamp(), ids...)
	if err != nil {
		return nil, err
	}
	for i := range page {
		page[i].Reason = last[page[i].Order.ID]
		if a, ok := waiting[ids[i]]; ok {
			a = a.About(page[i].Order.Version)
			page[i].Pending = &a
		}
	}
	return page, nil
}

// History implements admin.Records. It reads everything in one snapshot.
func (d Admin) History(ctx context.Context, id order.ID, act order.OperatorContext) (admin.History, error) {
	var history admin.History
	err := d.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		history = admin.History{}
		row, err := tx.Order.Get(ctx, string(id))
		if ent.IsNotFound(err) {
			return order.ErrNotFound
		}
		if err != nil {
			return err
		}
		if history.Order, err = orderOf(row); err != nil {
			return err
		}
		if row.RequestID != nil {
			history.Request = *row.RequestID
		}
		keys, err := historyOfMoney(ctx, tx, &history)
		if err != nil {
			return err
		}
		if history.Jobs, err = d.s.jobsBehind(ctx, tx, id, keys); err != nil {
			return err
		}
		if history.Timeline, err = movesOf(ctx, tx, id); err != nil {
			return err
		}
		return d.s.record(ctx, tx, act, actInspect, string(id), nil, nil)
	})
	return history, err
}

// reviewAudit is how many audit records a review has.
const reviewAudit = 100

// Review implements admin.Records.
func (d Admin) Review(ctx context.Context, id order.ID, act order.OperatorContext) (admin.Review, error) {
	var r admin.Review
	err := d.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		row, err := tx.Order.Get(ctx, string(id))
		if ent.IsNotFound(err) {
			return order.ErrNotFound
		}
		if err != nil {
			return err
		}
		items, err := d.s.reviewItemOf(ctx, tx.Client(), row)
		if err != nil {
			return err
		}
		r = admin.Review{ReviewItem: items[0]}
		if r.Postings, err = postingsOf(ctx, tx, id); err != nil {
			return err
		}
		if r.Audit, err = auditOf(ctx, tx, admin.AuditQuery{Subject: string(id), Limit: reviewAudit}); err != nil {
			return err
		}
		if r.Relayed, err = relayedOf(ctx, tx, id); err != nil {
			return err
		}
		return d.s.record(ctx, tx, act, actReview, string(id), nil, nil)
	})
	return r, err
}

// relayedOf are the relayer's transactions for an order's payments and its refund, oldest first.
func relayedOf(ctx context.Context, tx *ent.Tx, id order.ID) (all []admin.Relayed, err error) {
	paid, err := tx.Payment.Query().Where(entpayment.OrderID(string(id))).IDs(ctx)
	if err != nil {
		return nil, err
	}
	refunded, err := tx.Refund.Query().Where(entrefund.OrderID(string(id))).IDs(ctx)
	if err != nil {
		return nil, err
	}
	members, err := tx.TransactionMember.Query().
		Where(transactionmember.PaymentIDIn(slices.Concat(paid, refunded)...)).
		Order(transactionmember.ByCreatedAt(), transactionmember.ByID()).All(ctx)
	if err != nil {
		return nil, err
	}
	of := make([]uuid.UUID, len(members))
	for i, m := range members {
		of[i] = m.TransactionID
	}
	rows, err := tx.Transaction.Query().Where(transaction.IDIn(of...)).All(ctx)
	if err != nil {
		return nil, err
	}
	sent, err := withMembers(ctx, tx.TransactionMember, rows)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		at := slices.IndexFunc(sent, func(t payment.Transaction) bool { return t.ID == m.TransactionID })
		if at >= 0 {
			all = append(all, admin.Relayed{
				Transaction: sent[at], Member: m.PaymentID, Became: payment.TransactionStatus(m.Status), LostWei: m.LostWei,
			})
		}
	}
	return all, nil
}

const postingsOfSQL = `
	SELECT p.id, p.kind, p.at, e.account, e.amount
	FROM ledger_postings p JOIN ledger_entries e ON e.posting_id = p.id AND e.owner = p.owner
	WHERE p.order_id = $1 ORDER BY p.at, p.id, e.account`

// postingsOf are the ledger's postings of an order, oldest first.
func postingsOf(ctx context.Context, tx *ent.Tx, id order.ID) (all []ledger.Posting, err error) {
	rows, err := raw(tx).Query(ctx, postingsOfSQL, id)
	if err != nil {
		return nil, err
	}
	var p ledger.Posting
	var e ledger.Entry
	_, err = pgx.ForEachRow(rows, []any{&p.ID, &p.Kind, &p.At, &e.Account, &e.Amount}, func() error {
		if n := len(all); n == 0 || all[n-1].ID != p.ID {
			all = append(all, ledger.Posting{ID: p.ID, Order: string(id), Kind: p.Kind, At: p.At.UTC()})
		}
		last := &all[len(all)-1]
		last.Entries = append(last.Entries, e)
		return nil
	})
	return all, err
}

// historyOfMoney reads the payments and the refund of an order, and returns the keys of their jobs.
func historyOfMoney(ctx context.Context, tx *ent.Tx, history *admin.History) (keys []string, err error) {
	payments, err := tx.Payment.Query().Where(entpayment.OrderID(string(history.Order.ID))).
		Order(entpayment.ByCreatedAt()).All(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range payments {
		p, err := paymentOf(row)
		if err != nil {
			return nil, err
		}
		history.Payments, keys = append(history.Payments, p), append(keys, p.ID.String())
	}
	row, err := tx.Refund.Query().Where(entrefund.OrderID(string(history.Order.ID))).Only(ctx)
	if ent.IsNotFound(err) {
		return keys, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := refundOf(row)
	if err != nil {
		return nil, err
	}
	history.Refund = &r
	return append(keys, r.ID.String()), nil
}

const jobsBehindSQL = `SELECT ` + ent.JobColumns +
	` FROM jobs WHERE kind = ANY($1) AND unique_key = ANY($2) ORDER BY created_at, id`

// jobsBehind finds the jobs of an order by their unique keys: its payments', its refund's, its cards' and its own.
func (s *Store) jobsBehind(ctx context.Context, tx *ent.Tx, id order.ID, keys []string) ([]job.Row, error) {
	cards, err := tx.Card.Query().Where(entcard.OrderID(string(id))).IDs(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range cards {
		keys = append(keys, c.String())
	}
	keys = append(keys, string(id))
	kinds := []job.Kind{settlement.Fulfilling, settlement.Confirming, settlement.RefundConfirming, card.FeeJob}
	for _, p := range s.products {
		kinds = append(kinds, p.jobs...)
	}
	rows, err := raw(tx).Query(ctx, jobsBehindSQL, kindNames(kinds), keys)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (job.Row, error) { return scanJob(r) })
}

func movesOf(ctx context.Context, tx *ent.Tx, id order.ID) ([]order.Event, error) {
	rows, err := tx.Timeline.Query().Where(enttimeline.OrderID(string(id))).Order(enttimeline.ByVersion()).All(ctx)
	if err != nil {
		return nil, err
	}
	events := make([]order.Event, len(rows))
	for i, row := range rows {
		events[i] = order.Event{
			Move: order.Move{
				Order: id, From: order.Status(row.FromStatus), To: order.Status(row.ToStatus),
				Actor: row.Actor, Reason: row.Reason, Evidence: row.Evidence,
			},
			Version: row.Version, At: row.At.UTC(),
		}
		if row.RequestID != nil {
			events[i].Request = *row.RequestID
		}
	}
	return events, nil
}

// A worker that is finishing the job loses its lease, so that the decision counts. The step stays, because it says what
// the provider may have been sent. Earlier attempts do not count.
const decideJobSQL = `
	UPDATE jobs SET status = 'queued', last_error = '', run_at = now(), finished_at = NULL,
		uncounted_attempts = attempt, lease_owner = NULL, lease_until = NULL, version = version + 1
	WHERE kind = $1 AND unique_key = $2 AND owner = $3`

const lockJobSQL = `SELECT FROM jobs WHERE kind = $1 AND unique_key = $2 AND owner = $3 FOR UPDATE`

// decided is the audit record of a decision.
type decided struct {
	Status order.Status `json:"status"`
}

// Decide implements admin.Records. It locks the job first, as every worker does, so that the second of two decisions
// finds the order moved.
func (d Admin) Decide(ctx context.Context, m order.Move, act order.OperatorContext) error {
	err := d.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		return d.decide(ctx, tx, m, act, d.requestDecisionApproval)
	})
	if err == nil {
		d.s.Notify(topicOrder, string(m.Order))
	}
	return err
}

// requestDecisionApproval stores an ending that needs a second operator; pending is false when it needs none.
func (d Admin) requestDecisionApproval(
	ctx context.Context, tx *ent.Tx, row *ent.Order, m order.Move, act order.OperatorContext,
) (pending bool, err error) {
	action, ends := approval.Ending(m.To)
	if !ends {
		return false, nil
	}
	a, err := d.s.requestApproval(ctx, tx, approval.Asked{
		Action: action, Subject: row.ID, Amount: money.Cents(row.PriceUsdCents), Version: row.Version,
	}, act)
	return a != nil, err
}

// decide is Decide in a transaction. request, which may be nil, can store the decision for a second operator instead.
func (d Admin) decide(ctx context.Context, tx *ent.Tx, m order.Move, act order.OperatorContext,
	request func(context.Context, *ent.Tx, *ent.Order, order.Move, order.OperatorContext) (pending bool, err error),
) error {
	id := m.Order
	if err := m.Check(); err != nil {
		return err
	}
	key, err := lockJob(ctx, tx, id)
	if err != nil {
		return err
	}
	if repeated, err := d.s.repeats(ctx, tx, act, actDecide, string(id), decided{m.To}); err != nil || repeated {
		return err
	}
	row, err := tx.Order.Get(ctx, string(id))
	if err != nil {
		return err
	}
	if err := at(act, int64(row.Version)); err != nil {
		return err
	}
	if row.Status != entorder.StatusOperatorReview {
		return admin.ErrNotInReview
	}
	if m.Owner, err = x402.ParseAddress(row.Owner); err != nil {
		return fmt.Errorf("read the owner: %w", err)
	}
	if err := checkNoOpenRefund(ctx, tx, id); err != nil {
		return err
	}
	if request != nil {
		if pending, err := request(ctx, tx, row, m, act); err != nil || pending {
			return err
		}
	}
	if !m.To.Final() {
		later(tx, decideJobSQL, settlement.Fulfilling, key, row.Owner)
		wakeClasses(func(class string) { wakeOnCommit(tx, topicJobs, class) }, "")
	}
	moveOrder(tx, m, d.s.stamp(), new(order.Order))
	return d.s.record(ctx, tx, act, actDecide, string(id), decided{m.From}, decided{m.To})
}

// at refuses an action whose operator has seen its subject at another version.
func at(act order.OperatorContext, version int64) error {
	if act.Version != 0 && int64(act.Version) != version {
		return admin.ErrChanged
	}
	return nil
}

// lockJob locks the job that fulfills a paid order, and returns its key.
func lockJob(ctx context.Context, tx *ent.Tx, id order.ID) (key string, err error) {
	owner, err := ownerOf(ctx, raw(tx), ownerOfOrderSQL, id)
	if err == nil && owner == "" {
		err = order.ErrNotFound
	}
	if err != nil {
		return "", err
	}
	paid, err := tx.Payment.Query().
		Where(entpayment.OrderID(string(id)), entpayment.Owner(owner), entpayment.StatusEQ(entpayment.StatusPaid)).OnlyID(ctx)
	if ent.IsNotFound(err) {
		return "", admin.ErrNotInReview
	}
	if err != nil {
		return "", err
	}
	return paid.String(), lockJobOf(ctx, tx, id, owner, paid)
}

// lockJobOf locks the job that fulfills the order of a payment. The job of an order that was final for long is pruned,
// and nobody else changes the order any more.
func lockJobOf(ctx context.Context, tx *ent.Tx, id order.ID, owner string, paid uuid.UUID) error {
	err := raw(tx).QueryRow(ctx, lockJobSQL, settlement.Fulfilling, paid.String(), owner).Scan()
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	row, err := tx.Order.Get(ctx, string(id))
	if err == nil && !order.Status(row.Status).Final() {
		err = fmt.Errorf("order %s has no job", id)
	}
	return err
}

// checkNoOpenRefund refuses a decision while a refund's authorization may still be used. The legal moves keep an order
// in refund_pending until the refund is dead; this is a second check.
func checkNoOpenRefund(ctx context.Context, tx *ent.Tx, id order.ID) error {
	out, err := tx.Refund.Query().
		Where(entrefund.OrderID(string(id)), entrefund.StatusNEQ(entrefund.Status(payment.RefundDead))).Exist(ctx)
	if err == nil && out {
		err = fmt.Errorf("order %s is in review while its refund may still be paid", id)
	}
	return err
}

// repeats reports whether an operator's action with this key has been done. It fails with order.KeyReused when that had
// another reason or, where after is not nil, another result.
func (s *Store) repeats(
	ctx context.Context, tx *ent.Tx, act order.OperatorContext, action, subject string, after any,
) (bool, error) {
	before, err := tx.Audit.Query().Where(audit.Actor(act.Operator), audit.Action(action),
		audit.Subject(subject), audit.IdempotencyKey(act.Key)).Only(ctx)
	if ent.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	same := before.Reason == act.Reason
	if same && after != nil {
		if same, err = sameJSON(before.After, after); err != nil {
			return false, err
		}
	}
	if !same {
		return false, order.KeyReused()
	}
	return true, nil
}

// sameJSON compares a stored value with one to be stored; the database writes JSON in its own way.
func sameJSON(stored json.RawMessage, v any) (bool, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return false, fmt.Errorf("encode the action: %w", err)
	}
	var was, is map[string]any
	if err := errors.Join(json.Unmarshal(stored, &was), json.Unmarshal(b, &is)); err != nil {
		return false, fmt.Errorf("decode the action: %w", err)
	}
	if len(was) != len(is) {
		return false, nil
	}
	for name, value := range is {
		if was[name] != value {
			return false, nil
		}
	}
	return true, nil
}

// record writes an operator's action to the audit trail.
func (s *Store) record(
	ctx context.Context, tx *ent.Tx, act order.OperatorContext, action, subject string, before, after any,
) error {
	was, err1 := stateOf(before)
	is, err2 := stateOf(after)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	insert(tx, ent.AuditTable, &ent.Audit{
		ID: uuid.Must(uuid.NewV7()), At: s.stamp(), Actor: act.Operator, Action: action, Subject: subject,
		Reason: act.Reason, IdempotencyKey: act.Key, Before: was, After: is,
	})
	return nil
}

// stateOf is a state as the audit trail keeps it; nil for none.
func stateOf(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the audit row: %w", err)
	}
	return b, nil
}
