package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	entorder "github.com/roamcard/roamcard/ent/order"
	entpayment "github.com/roamcard/roamcard/ent/payment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

// insertOrder inserts an order. request is the request that creates it unpaid; nil for one whose timeline has it.
func insertOrder(ctx context.Context, tx *ent.Tx, o order.Order, request *string) error {
	return tx.Order.Create().SetID(string(o.ID)).SetOperationID(o.Operation).SetKind(string(o.Kind)).
		SetStatus(entorder.Status(o.Status)).SetOwner(o.Owner.Lower()).SetIdempotencyKey(o.Key).
		SetFingerprint(o.Fingerprint[:]).SetPriceUsdCents(int64(o.Price)).SetItem(o.Item).SetResource(o.Resource).
		SetNillableReference(o.Reference).SetNillableAdoptedReference(o.RecoveredReference).SetRefundReason(o.RefundReason).
		SetVersion(o.Version).SetDeliveryAttempt(max(1, o.Delivery)).SetCreatedAt(o.CreatedAt).SetUpdatedAt(o.UpdatedAt).
		SetNillableExpiresAt(o.ExpiresAt).SetNillableRequestID(request).Exec(ctx)
}

// requestOf is the request that a context belongs to, as its answer names it; nil when it belongs to none.
func requestOf(ctx context.Context) *string {
	if id := telemetry.RequestID(ctx); id != "" {
		return &id
	}
	return nil
}

// requestOfMove is the request that makes a move; nil for one that a worker makes, which may run in a request.
func requestOfMove(ctx context.Context, m order.Move) *string {
	if m.ByWorker() {
		return nil
	}
	return requestOf(ctx)
}

// orderColumns is what scanOrder reads.
const orderColumns = `id, operation_id, kind, status, owner, idempotency_key, fingerprint, price_usd_cents, item,
	resource, reference, adopted_reference, refund_reason, version, delivery_attempt, created_at, updated_at, expires_at`

func scanOrder(row pgx.Row) (order.Order, error) {
	var r ent.Order
	err := row.Scan(&r.ID, &r.OperationID, &r.Kind, &r.Status, &r.Owner, &r.IdempotencyKey, &r.Fingerprint,
		&r.PriceUsdCents, &r.Item, &r.Resource, &r.Reference, &r.AdoptedReference, &r.RefundReason,
		&r.Version, &r.DeliveryAttempt, &r.CreatedAt, &r.UpdatedAt, &r.ExpiresAt)
	if err != nil {
		return order.Order{}, err
	}
	return orderOf(&r)
}

func orderOf(row *ent.Order) (order.Order, error) {
	owner, err := x402.ParseAddress(row.Owner)
	if err != nil {
		return order.Order{}, fmt.Errorf("order %s: owner: %w", row.ID, err)
	}
	o := order.Order{
		ID: order.ID(row.ID), Operation: row.OperationID, Kind: order.Kind(row.Kind), Status: order.Status(row.Status),
		Owner: owner, Key: row.IdempotencyKey, Price: money.Cents(row.PriceUsdCents), Item: row.Item, Resource: row.Resource,
		Reference: row.Reference, RecoveredReference: row.AdoptedReference, RefundReason: row.RefundReason,
		Version: row.Version, Delivery: row.DeliveryAttempt, CreatedAt: row.CreatedAt.UTC(), UpdatedAt: row.UpdatedAt.UTC(),
	}
	if copy(o.Fingerprint[:], row.Fingerprint) != len(o.Fingerprint) {
		return order.Order{}, fmt.Errorf("order %s: fingerprint of %d bytes", row.ID, len(row.Fingerprint))
	}
	if row.ExpiresAt != nil {
		at := row.ExpiresAt.UTC()
		o.ExpiresAt = &at
	}
	return o, nil
}

func insertPayment(ctx context.Context, tx *ent.Tx, p payment.Payment) error {
	a, signature := p.Authorization, p.Signature[:]
	if p.ArrivedAt != nil && !p.Signed() {
		signature = []byte{}
	}
	return tx.Payment.Create().SetID(p.ID).SetOrderID(string(p.Order)).SetStatus(entpayment.Status(p.Status)).
		SetNetwork(p.Network).SetAsset(p.Asset.Lower()).SetOwner(a.From.Lower()).SetPayTo(a.To.Lower()).
		SetValue(int64(a.Value)).SetValidAfter(int64(a.ValidAfter)).SetValidBefore(int64(a.ValidBefore)).
		SetNonce(a.Nonce.String()).SetSignature(signature).SetCreatedAt(p.CreatedAt).SetNillableArrivedAt(p.ArrivedAt).
		Exec(ctx)
}

func paymentOf(row *ent.Payment) (payment.Payment, error) {
	asset, err1 := x402.ParseAddress(row.Asset)
	payer, err2 := x402.ParseAddress(row.Owner)
	payTo, err3 := x402.ParseAddress(row.PayTo)
	nonce, err4 := x402.ParseHash(row.Nonce)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return payment.Payment{}, fmt.Errorf("payment %s: %w", row.ID, err)
	}
	p := payment.Payment{
		ID: row.ID, Order: order.ID(row.OrderID), Status: payment.Status(row.Status), Network: row.Network, Asset: asset,
		Authorization: x402.Authorization{
			From: payer, To: payTo, Value: money.USDC(row.Value), Nonce: nonce,
			ValidAfter: uint64(row.ValidAfter), ValidBefore: uint64(row.ValidBefore),
		},
		DeadReason: row.DeadReason, CreatedAt: row.CreatedAt.UTC(),
	}
	if n := copy(p.Signature[:], row.Signature); n != len(p.Signature) && (n != 0 || row.ArrivedAt == nil) {
		return payment.Payment{}, fmt.Errorf("payment %s: signature of %d bytes", row.ID, len(row.Signature))
	}
	if row.ArrivedAt != nil {
		at := row.ArrivedAt.UTC()
		p.ArrivedAt = &at
	}
	if row.Transaction == nil {
		return p, nil
	}
	tx, err := x402.ParseHash(*row.Transaction)
	if err != nil {
		return payment.Payment{}, fmt.Errorf("payment %s: transaction: %w", row.ID, err)
	}
	p.Receipt = &payment.Receipt{
		Transaction: tx, Payer: payer, PayTo: payTo, Amount: p.Authorization.Value, SettledAt: row.SettledAt.UTC(),
		LogIndex: uint(*row.LogIndex),
	}
	if row.Block != nil {
		p.Receipt.Block = uint64(*row.Block)
	}
	if row.BlockHash != nil {
		if p.Receipt.BlockHash, err = x402.ParseHash(*row.BlockHash); err != nil {
			return payment.Payment{}, fmt.Errorf("payment %s: block: %w", row.ID, err)
		}
	}
	return p, nil
}

// stamp is the current time with the database's precision: UTC, in microseconds.
func (s *Store) stamp() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
