package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Evidence reads a named transaction.
type Evidence interface {
	// Prove is Settled when the transaction made exactly this payment, else Unknown.
	Prove(ctx context.Context, a x402.Authorization, transaction x402.Hash) (payment.Verdict, error)
}

// Prove settles an order by a transaction that an operator names. The order stays as it is unless the chain shows the
// payment's transfer in that transaction. A repeat with the same key returns the order as it is now.
func (a Admin) Prove(
	ctx context.Context, id order.ID, transaction x402.Hash, act order.OperatorContext,
) (ReviewItem, error) {
	pay, done, err := a.Records.Unproven(ctx, id, transaction, act)
	if err != nil {
		return ReviewItem{}, toFault(err, "read the payment")
	}
	if !done {
		if err := a.prove(ctx, pay, transaction, act); err != nil {
			return ReviewItem{}, err
		}
	}
	q, err := a.Records.ReviewItem(ctx, id)
	if err != nil {
		return ReviewItem{}, toFault(err, "read the order")
	}
	return q, nil
}

func (a Admin) prove(ctx context.Context, pay payment.Payment, transaction x402.Hash, act order.OperatorContext) error {
	shown, err := a.Evidence.Prove(ctx, pay.Authorization, transaction)
	if err != nil {
		return fmt.Errorf("read the transaction: %w",
			errors.Join(fault.New(fault.DependencyDown, "The chain does not answer."), err))
	}
	if shown.State != payment.Settled {
		return fault.New(fault.TransferUnproven,
			"The chain does not show this payment's transfer in the transaction.").About(string(pay.Order))
	}
	pay.Status, pay.Receipt = payment.Paid, shown.Receipt
	m := byOperator(pay.Order, order.Settling, order.Settled, act)
	m.Evidence, m.Postings = map[string]string{"transaction": pay.Receipt.Transaction.String()}, pay.Postings()
	if err := a.Records.Prove(ctx, pay, m, a.Confirm(pay), act); err != nil {
		return toFault(err, "record the payment")
	}
	return nil
}
