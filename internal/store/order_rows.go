package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
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

// orderRow is the row of an order. The request that created it is set for one that is created unpaid; the timeline has
// that of any other.
func orderRow(o order.Order) *ent.Order {
	return &ent.Order{
		ID: string(o.ID), OperationID: o.Operation, Kind: string(o.Kind), Status: entorder.Status(o.Status),
		Owner: o.Owner.Lower(), IdempotencyKey: o.Key, Fingerprint: o.Fingerprint[:], PriceUsdCents: int64(o.Price),
		Item: o.Item, Resource: o.Resource, Version: o.Version, DeliveryAttempt: max(1, o.Delivery),
		Reference: o.Reference, RefundReason: o.RefundReason, AdoptedReference: o.RecoveredReference,
		CreatedAt: o.CreatedAt, UpdatedAt: o.UpdatedAt, ExpiresAt: o.ExpiresAt,
	}
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

// scanOrder reads a row of ent.OrderColumns.
func scanOrder(from pgx.Row) (order.Order, error) {
	row, err := ent.ScanOrder(from)
	if err != nil {
		return order.Order{}, err
	}
	return orderOf(row)
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

// paymentRow is the row of a payment that is claimed.
func paymentRow(p payment.Payment) *ent.Payment {
	a := p.Authorization
	return &ent.Payment{
		ID: p.ID, OrderID: string(p.Order), Owner: a.From.Lower(), Status: entpayment.Status(p.Status),
		Network: p.Network, Asset: p.Asset.Lower(), PayTo: a.To.Lower(), Value: int64(a.Value),
		ValidAfter: int64(a.ValidAfter), ValidBefore: int64(a.ValidBefore), Nonce: a.Nonce.String(),
		Signature: []byte(p.Signature), CreatedAt: p.CreatedAt, ArrivedAt: p.ArrivedAt,
	}
}

// moveRow is the line of a move in the timeline of an order, whose version is that after the move.
func moveRow(ctx context.Context, m order.Move, version int, now time.Time) *ent.Timeline {
	return &ent.Timeline{
		ID: uuid.Must(uuid.NewV7()), OrderID: string(m.Order), Owner: m.Owner.Lower(), Version: version, At: now,
		FromStatus: string(m.From), ToStatus: string(m.To), Actor: m.Actor, Reason: m.Reason, Evidence: m.Evidence,
		RequestID: requestOfMove(ctx, m),
	}
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
		Signature: x402.Signature(row.Signature), DeadReason: row.DeadReason, CreatedAt: row.CreatedAt.UTC(),
	}
	if short := !p.Signature.IsOfKey() && !p.Signature.IsOfAccount(); short && (p.Signed() || row.ArrivedAt == nil) {
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
