package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/smartaccount"
	"github.com/roamcard/roamcard/internal/x402"
)

// blockState reads accounts at a block, named by its hash.
type blockState struct {
	*Chain
	hash x402.Hash
}

// Code implements smartaccount.Block.
func (b blockState) Code(ctx context.Context, account x402.Address) ([]byte, error) {
	var code hexutil.Bytes
	err := b.pool.call(ctx, &code, "eth_getCode", account.String(), atHash(b.hash))
	return code, err
}

// Word implements smartaccount.Block.
func (b blockState) Word(ctx context.Context, account x402.Address, slot x402.Hash) (x402.Hash, error) {
	var word common.Hash
	err := b.pool.call(ctx, &word, "eth_getStorageAt", account.String(), slot.String(), atHash(b.hash))
	return x402.Hash(word), err
}

// transfer is the call that moves a payment, and the most gas that it may use.
type transfer struct {
	to   x402.Address
	data []byte
	gas  uint64
}

// creationGas is what a transaction may use that makes a smart account first.
const creationGas = 450_000

// transfer is the call that moves a payment: the token's, or both that of the factory that makes the payer's account
// and the token's, of which neither may fail.
func (c *Chain) transfer(a x402.Authorization, s x402.Signature) transfer {
	creation, makes := smartaccount.CreationOf(s)
	if !makes {
		return transfer{c.config.Domain.Contract, x402.TransferCall(a, s), c.config.CallGas}
	}
	return transfer{settler.MulticallAddress, settler.InOrder(
		settler.Step{To: creation.Factory, Data: creation.Call()},
		settler.Step{To: c.config.Domain.Contract, Data: x402.TransferCall(a, creation.Signature)},
	), creationGas}
}

// refusalOfCreation is why the token refuses a transfer behind a creation, which Multicall3 does not say when nothing
// may fail; unknown when this does not say it either. It fails when nobody answers.
func (c *Chain) refusalOfCreation(
	ctx context.Context, as *simulated, a x402.Authorization, s x402.Signature, block any, unknown *payment.Rejection,
) (*payment.Rejection, error) {
	steps, _ := settler.ParseInOrder(c.transfer(a, s).data)
	for i := range steps {
		steps[i].MayFail = true
	}
	answer, err := c.ethCallAs(ctx, as, transfer{settler.MulticallAddress, settler.InOrder(steps...), creationGas}, block)
	if err != nil && !isAnswer(err) {
		return nil, fmt.Errorf("ask why the token refuses: %w", err)
	}
	if err != nil {
		return unknown, nil
	}
	results, err := settler.ResultsInOrder(answer)
	if err != nil || len(results) != len(steps) || results[len(steps)-1].Success {
		return unknown, nil
	}
	return refusalOf(results[len(steps)-1].ReturnData), nil
}

// paymentOf reads what transfer makes.
func (c *Chain) paymentOf(to x402.Address, data []byte) (a x402.Authorization, s x402.Signature, ok bool) {
	if to == c.config.Domain.Contract {
		return x402.TransferOf(data)
	}
	steps, ok := settler.ParseInOrder(data)
	if !ok || to != settler.MulticallAddress || len(steps) != 2 {
		return a, "", false
	}
	a, s, ok = x402.TransferOf(steps[1].Data)
	whole := smartaccount.WithCreation(steps[0].To, steps[0].Data, s)
	return a, whole, ok && bytes.Equal(c.transfer(a, whole).data, data)
}

// Carried implements payment.SmartAccounts. What a node answers is the transaction itself: its hash says so.
func (c *Chain) Carried(ctx context.Context, transaction x402.Hash) (payment.Carried, error) {
	var tx types.Transaction
	if err := c.pool.call(ctx, &tx, "eth_getTransactionByHash", transaction.String()); err != nil {
		return payment.Carried{}, fmt.Errorf("read a transaction: %w", err)
	}
	if x402.Hash(tx.Hash()) != transaction {
		return payment.Carried{}, errors.New("read a transaction: a node answered with another one")
	}
	if tx.To() == nil {
		return payment.Carried{}, nil
	}
	a, s, ok := c.paymentOf(x402.Address(*tx.To()), tx.Data())
	if !ok {
		return payment.Carried{}, nil
	}
	return payment.Carried{Authorization: a, Signature: s}, nil
}

// statement is what an account is said to have signed on this chain.
func (c *Chain) statement(account x402.Address, digest x402.Hash, s x402.Signature) smartaccount.Statement {
	return smartaccount.Statement{ChainID: c.config.Domain.ChainID, Account: account, Digest: digest, Signature: s}
}

// checkSmartAccount refuses a payment unless its payer, which has the code, is a smart account of an accepted kind
// whose owner has signed it.
func (c *Chain) checkSmartAccount(
	ctx context.Context, at blockState, code []byte, a x402.Authorization, s x402.Signature,
) error {
	refuse := func(detail string) error {
		return &payment.Rejection{Reason: x402.ReasonSignature, Detail: detail}
	}
	err := c.config.SmartAccounts.Verify(ctx, at, code, c.statement(a.From, c.config.Domain.Digest(a), s))
	switch {
	case errors.Is(err, smartaccount.ErrOtherKind):
		return &payment.Rejection{
			Code: fault.PayerKindNotAccepted, Reason: x402.ReasonSignature, Detail: "The payer is an account with code, of a " +
				"kind that is not accepted here. Pay from an account without code; a delegation by EIP-7702 can be taken away.",
		}
	case errors.Is(err, curve.ErrNotSigned) && len(code) == 0:
		return refuse("the signature is a smart account's, and the payer has no code")
	case errors.Is(err, curve.ErrNotSigned):
		return refuse("no owner of the payer's smart account has made the signature")
	case err != nil:
		return fmt.Errorf("check the smart account's signature: %w", err)
	}
	return nil
}

// opinion is what a node says of a signature.
type opinion int

const (
	otherKind opinion = iota
	notSigned
	signed
)

// SignedBy implements payment.SmartAccounts, at the latest block. Who signed decides what is shown to whom, so where
// there are several nodes, two must say it: one alone may lie.
func (c *Chain) SignedBy(ctx context.Context, account x402.Address, digest x402.Hash, s x402.Signature) error {
	if !c.config.SmartAccounts.May(s) {
		return curve.ErrNotSigned
	}
	const calls = 5
	ask := func(ctx context.Context, one *Chain) (opinion, error) {
		return one.signedAt(ctx, one.statement(account, digest, s))
	}
	said := map[opinion]int{}
	var errs error
	for _, w := range consult(ctx, c, calls, ask, equal) {
		if errs = errors.Join(errs, w.err); w.err == nil {
			said[w.value]++
		}
	}
	enough := min(witnesses, len(c.pool.endpoints))
	switch {
	case said[signed] >= enough:
		return nil
	case said[notSigned] >= enough:
		return curve.ErrNotSigned
	case said[otherKind] >= enough:
		return &x402.PayerKindError{RejectedError: x402.RejectedError{
			Reason: x402.ReasonSignature,
			Detail: "The payer is no smart account of a kind that is accepted here: " + c.config.SmartAccounts.String() +
				". Pay from one of these, or from an account without code.",
		}}
	}
	return fmt.Errorf("check a smart account's signature: %w", unwitnessed(errs))
}

func (c *Chain) signedAt(ctx context.Context, s smartaccount.Statement) (opinion, error) {
	head, err := c.header(ctx, "latest")
	if err != nil {
		return 0, err
	}
	at := blockState{c, head.Hash}
	code, err := at.Code(ctx, s.Account)
	if err != nil {
		return 0, err
	}
	if s.Signature.IsKeySized() && bytes.HasPrefix(code, designator) {
		return notSigned, nil // it signs with its own key
	}
	err = c.config.SmartAccounts.Verify(ctx, at, code, s)
	switch {
	case err == nil:
		return signed, nil
	case errors.Is(err, smartaccount.ErrOtherKind):
		return otherKind, nil
	case errors.Is(err, curve.ErrNotSigned):
		return notSigned, nil
	}
	return 0, err
}
