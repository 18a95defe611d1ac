package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/x402"
)

// Recovery finds and restores the records that a restored database lacks. It implements reconcile.LostBooks.
type Recovery struct {
	t Treasury
	// Validity bounds the validity of an authorization whose expiry is not known.
	Validity time.Duration
}

var _ reconcile.LostBooks = Recovery{}

// Recovery is the part of the store that a recovery uses.
func (s *Store) Recovery(asset, payTo x402.Address, validity time.Duration) Recovery {
	return Recovery{s.Treasury(asset, payTo), validity}
}

// The actions of a recovery, as the audit trail names them.
const (
	actAdopt  = "recover.adopt"
	actReturn = "recover.return"
)

const (
	// Reported transfers, and those read by reconciliation; a reported one has more fields and is preferred.
	lostTransfersSQL = `
		SELECT * FROM (
			SELECT DISTINCT ON (payer, nonce) transaction, log_index, block, payer, value, nonce, valid_after,
				valid_before FROM (
				SELECT payer, value, nonce, valid_after, valid_before, transaction, log_index, block, 0 AS source
				FROM reported_transfers
				WHERE network = $1 AND asset = $2 AND pay_to = $3
				UNION ALL
				SELECT sender, value, nonce, 0, 0, transaction, log_index, block, 1 FROM transfers
				WHERE asset = $2 AND pay_to = $3 AND nonce <> ''
			) t
			WHERE NOT EXISTS (SELECT 1 FROM payments p
					WHERE p.network = $1 AND p.asset = $2 AND p.owner = t.payer AND p.nonce = t.nonce)
				AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.transaction = t.transaction AND p.log_index = t.log_index)
				AND NOT EXISTS (SELECT FROM transfers a
					JOIN transfer_resolutions r ON r.id = a.transaction || '/' || a.log_index
					WHERE a.asset = $2 AND a.sender = t.payer AND a.nonce = t.nonce)
			ORDER BY payer, nonce, source
		) u ORDER BY block, log_index`

	// Orders in progress have no row for their goods yet.
	lostOrdersSQL = `SELECT ` + ent.OrderColumns + ` FROM orders
		WHERE owner = ANY($1) OR status IN ('settling', 'settled', 'provisioning', 'operator_review') ORDER BY id`
)

// Lost implements reconcile.LostBooks. It reads everything in one snapshot.
func (r Recovery) Lost(
	ctx context.Context, owners []x402.Address, references []uuid.UUID,
) (lost reconcile.Lost, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	tx, err := r.t.s.pool.BeginTx(ctx, snapshotTx)
	if err != nil {
		return lost, mapError(fmt.Errorf("begin to read: %w", err))
	}
	defer func() { _ = tx.Rollback(ctx) }() // nothing was written
	b := booksReader{ctx, tx, r.t.s.shards}
	if err := readAll(b, &lost.Unmatched, scanUnmatched, lostTransfersSQL, x402.NetworkID, r.t.asset,
		r.t.payTo)(); err != nil {
		return lost, err
	}
	lost.References = map[uuid.UUID]bool{}
	for _, p := range r.t.s.products {
		if p.referencesSQL == "" {
			continue
		}
		var refs []uuid.UUID
		if err := readAll(b, &refs, pgx.RowTo[uuid.UUID], p.referencesSQL, references)(); err != nil {
			return lost, err
		}
		for _, ref := range refs {
			lost.References[ref] = true
		}
	}
	var of []string
	for _, owner := range owners {
		of = append(of, owner.Lower())
	}
	for _, t := range lost.Unmatched {
		of = append(of, t.From.Lower())
	}
	orders := func(row pgx.CollectableRow) (order.Order, error) { return scanOrder(row) }
	err = readAll(b, &lost.Orders, orders, lostOrdersSQL, of)()
	return lost, err
}

func scanUnmatched(row pgx.CollectableRow) (u reconcile.Unmatched, err error) {
	var transaction, sender, nonce string
	var index, block int64
	if err := row.Scan(&transaction, &index, &block, &sender, (*int64)(&u.Value), &nonce, &u.ValidAfter,
		&u.ValidBefore); err != nil {
		return u, err
	}
	return u, setTransfer(&u.Transfer, transaction, sender, nonce, index, block)
}

// recoveredAudit is the audit record of a recovered order.
type recoveredAudit struct {
	Transfer  string `json:"transfer"`
	Reference string `json:"reference,omitempty"`
}

// Adopt implements reconcile.LostBooks.
func (r Recovery) Adopt(ctx context.Context, a reconcile.Adoption, act order.OperatorContext) (bool, error) {
	o, err := r.order(a.Transfer, a.Kind, a.Item)
	if err != nil {
		return false, err
	}
	o.Key, o.RecoveredReference = order.RecoveredKey(a.Reference), &a.Reference
	return r.claim(ctx, recoveryClaim{o, a.Of, a.Made, a.Transfer, a.Step, actAdopt, act, a.Reference.String()})
}

// Return implements reconcile.LostBooks.
func (r Recovery) Return(ctx context.Context, t reconcile.Unmatched, act order.OperatorContext) (bool, error) {
	// The order may be of any kind, because nothing is delivered.
	o, err := r.order(t, r.t.s.products[0].Kind, []byte("{}"))
	if err != nil {
		return false, err
	}
	o.Key, o.RefundReason = order.Keyless(o.ID), "recovered without goods: "+act.Reason
	return r.claim(ctx, recoveryClaim{order: o, transfer: t, action: actReturn, act: act})
}

// order is a new order for a transfer.
func (r Recovery) order(t reconcile.Unmatched, kind order.Kind, item json.RawMessage) (order.Order, error) {
	price, exact := t.Value.Cents()
	if !exact {
		return order.Order{}, fmt.Errorf("%s USDC is no price", t.Value.Dollars())
	}
	now := r.t.s.stamp()
	return order.Order{
		ID: order.NewID(now), Operation: uuid.Must(uuid.NewV7()), Kind: kind, Status: order.Settling, Owner: t.From,
		Price: price,
		Item:  item, Version: 1, Delivery: 1, CreatedAt: now, UpdatedAt: now,
	}, nil
}

// recoveryClaim is the claim of a transfer for an order.
type recoveryClaim struct {
	order order.Order
	// of is an existing unpaid order to use instead; empty for the new one.
	of order.ID
	// made reports whether the goods are an order's; nil when there are none.
	made     func(order.Order) bool
	transfer reconcile.Unmatched
	// step is the marker of the call that made the goods; empty when there are none.
	step      string
	action    string
	act       order.OperatorContext
	reference string
}

// claim claims the transfer for the order. False when it is claimed already.
func (r Recovery) claim(ctx context.Context, k recoveryClaim) (bool, error) {
	if k.of != "" {
		k.order.ID = k.of
	}
	pay, err := r.payment(k.transfer, k.order.ID)
	if err != nil {
		return false, err
	}
	err = r.t.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		r.t.s.caughtUp(tx)
		if goods := k.order.RecoveredReference; goods != nil {
			lockGoods(tx, *goods, k.order.Owner)
		}
		claimArrived(tx, pay)
		if err := r.write(ctx, tx, k, pay); err != nil {
			return err
		}
		return faultpoint.Fail("recover.before_commit")
	})
	switch {
	case err == nil:
		faultpoint.Reach("recover.committed")
		return true, nil
	case errors.Is(err, errRepeated), errors.Is(err, errResolved), violates(err, "payments_authorization"),
		violates(err, "payments_live"),
		violates(err, "orders_adopted"), violates(err, "orders_purchase"):
		return false, nil
	}
	return false, err
}

// payment is the payment of an order by a transfer that arrived.
func (r Recovery) payment(t reconcile.Unmatched, of order.ID) (payment.Payment, error) {
	payTo, err1 := x402.ParseAddress(r.t.payTo)
	asset, err2 := x402.ParseAddress(r.t.asset)
	arrived := payment.Arrived{
		Network: x402.NetworkID, Asset: asset,
		Authorization: x402.Authorization{
			From: t.From, To: payTo, Value: t.Value, Nonce: t.Nonce, ValidAfter: t.ValidAfter, ValidBefore: t.ValidBefore,
		},
		Receipt: payment.Receipt{SettledAt: t.At},
	}
	return arrived.Claim(uuid.Must(uuid.NewV7()), of, r.Validity, r.t.s.stamp()), errors.Join(err1, err2)
}

// markRecoveredSQL makes a delivery begin by reading the provider's record: the call that made the goods was long ago.
const markRecoveredSQL = `UPDATE jobs SET step = $3, step_at = now() - interval '1 day'
	WHERE kind = $1 AND unique_key = $2 AND owner = $4`

const unpaidOrderSQL = `SELECT status FROM orders
	WHERE id = $1 AND owner = $2 AND status IN ('payment_required', 'expired') FOR UPDATE`

const resumeOrderSQL = `
	UPDATE orders SET status = 'settling', version = version + 1, updated_at = $3, expires_at = NULL
	WHERE id = $1 AND owner = $2 AND status IN ('payment_required', 'expired') RETURNING version`

// write stores the order or moves the existing one, with its payment, job and audit row.
func (r Recovery) write(ctx context.Context, tx *ent.Tx, k recoveryClaim, pay payment.Payment) error {
	s, from := r.t.s, order.PaymentRequired
	if k.of == "" {
		if k.order.RecoveredReference != nil {
			if err := adoptedOnce(ctx, tx, k.order, k.made); err != nil {
				return err
			}
		}
		insert(tx, ent.OrderTable, orderRow(k.order))
	} else {
		owner := k.order.Owner.Lower()
		err := raw(tx).QueryRow(ctx, unpaidOrderSQL, k.of, owner).Scan(&from)
		if err == nil {
			err = raw(tx).QueryRow(ctx, resumeOrderSQL, k.of, owner, s.stamp()).Scan(&k.order.Version)
		}
		if errors.Is(err, pgx.ErrNoRows) {
			err = errRepeated
		}
		if err != nil {
			return err
		}
	}
	move := order.Move{
		Order: k.order.ID, Owner: k.order.Owner, From: from, To: order.Settling,
		Actor:    "operator:" + k.act.Operator,
		Reason:   "recovered: " + k.act.Reason,
		Evidence: map[string]string{"transfer": k.transfer.Place().String(), "reference": k.reference},
	}
	insert(tx, ent.TimelineTable, moveRow(ctx, move, k.order.Version, s.stamp()))
	insert(tx, ent.PaymentTable, paymentRow(pay))
	if _, _, err := insertJob(ctx, tx, settlement.FulfillJob(k.order.ID, pay.ID.String()), k.order.Owner); err != nil {
		return err
	}
	if k.step != "" {
		later(tx, markRecoveredSQL, settlement.Fulfilling, pay.ID.String(), k.step, k.order.Owner.Lower())
	}
	k.act.Key = k.transfer.Place().String()
	return s.record(ctx, tx, k.act, k.action, string(k.order.ID), nil, recoveredAudit{k.act.Key, k.reference})
}

const (
	adoptedSQL   = `SELECT EXISTS (SELECT FROM orders WHERE adopted_reference = $1)`
	adoptedBySQL = `SELECT count(*) FROM orders WHERE adopted_reference = $2 AND owner = $3`

	ordersOfSQL = `SELECT ` + ent.OrderColumns + ` FROM orders WHERE owner = $1 AND kind = $2`
)

// lockGoods queues the locks of goods to adopt: of the goods, for the unique key of orders includes the owner, and of
// the owner, whose claims are made under it. It is before other locks, as in a claim.
func lockGoods(tx *ent.Tx, goods uuid.UUID, owner x402.Address) {
	lockAll(tx, []string{"adopted/" + goods.String(), payerLock(owner)})
}

// adoptedOnce refuses an order for goods that have one: an adopted one, or one that was claimed or opened since the
// recovery was planned, which finds these goods as its own. After lockGoods.
func adoptedOnce(ctx context.Context, tx *ent.Tx, o order.Order, made func(order.Order) bool) error {
	var adopted bool
	if err := raw(tx).QueryRow(ctx, adoptedSQL, o.RecoveredReference).Scan(&adopted); err != nil {
		return err
	}
	if adopted {
		return errRepeated
	}
	rows, err := raw(tx).Query(ctx, ordersOfSQL, o.Owner.Lower(), o.Kind)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (order.Order, error) { return scanOrder(row) })
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, made) {
		return errRepeated
	}
	return nil
}

// errAdopted fails a claim whose goods a recovery has made an order for.
var errAdopted = errors.New("the goods are adopted")

// claimGoods queues the check that no recovery has made an order for what a claim would find as its own at the
// provider. After the lock of the payer, which adoption takes, too.
func claimGoods(tx *ent.Tx, p checkout.ClaimRequest) {
	if p.Goods != uuid.Nil {
		within(tx, errAdopted, adoptedBySQL, 0, p.Goods, claimKey(p))
	}
}

// adopted answers a claim with the order that a recovery has made for its goods.
func (o Orders) adopted(ctx context.Context, p checkout.ClaimRequest) (checkout.ClaimResult, error) {
	known, err := o.Rebind(ctx, checkout.Rebinding{
		Kind: p.Order.Kind, Owner: p.Order.Owner, Key: p.Order.Key, Fingerprint: p.Order.Fingerprint,
		Resource: p.Order.Resource, Reference: p.Goods,
	})
	if errors.Is(err, order.ErrNotFound) {
		known, err = o.FindByKey(ctx, p.Order.Kind, p.Order.Owner, p.Order.Key) // a copy of the request was first
	}
	if err == nil && known.RecoveredReference == nil {
		err = fmt.Errorf("order %s: a recovery has made another order for its goods", known.ID)
	}
	return checkout.ClaimResult{Claim: checkout.Repeated, Order: known}, err
}

// rebindSQL sets the key and the request of a recovered order.
const rebindSQL = `
	UPDATE orders SET idempotency_key = $4, fingerprint = $5, reference = $6, resource = $7
	WHERE adopted_reference = $1 AND kind = $2 AND owner = $3 AND reference IS NULL RETURNING ` + ent.OrderColumns

// Rebind implements checkout.Store.
func (o Orders) Rebind(ctx context.Context, r checkout.Rebinding) (order.Order, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	found, err := findOrder(o.s.pool.QueryRow(ctx, rebindSQL, r.Reference, r.Kind, r.Owner.Lower(), r.Key,
		r.Fingerprint[:],
		order.ReferenceOf(r.Kind, r.Owner, r.Key), r.Resource))
	if violates(err, "orders_purchase") {
		return o.FindByKey(ctx, r.Kind, r.Owner, r.Key) // a copy of the request was first
	}
	return found, err
}
