package payment

import (
	"context"
	"errors"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

// ErrRefundSigned says that a refund is signed, and that the chain may still pay it.
var ErrRefundSigned = errors.New("a refund is signed that may still be paid")

// ErrTransferUsed says that a transaction is the refund of something else.
var ErrTransferUsed = errors.New("the transaction is the refund of something else")

// Transfers reads a named transaction, by which an operator has refunded something.
type Transfers interface {
	// Transferred reports whether a transaction that is final has transferred exactly an amount to an account.
	Transferred(ctx context.Context, to x402.Address, amount money.USDC, transaction x402.Hash) (bool, error)
}
