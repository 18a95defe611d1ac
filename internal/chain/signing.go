package chain

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

func (r *Relayer) sign(
	ctx context.Context, by account, nonce uint64, fee fee, to common.Address, gas uint64, data []byte,
) (payment.Variant, error) {
	chainID := r.signer.ChainID()
	tx := types.NewTx(&types.DynamicFeeTx{
		ChainID: chainID, Nonce: nonce, GasTipCap: fee.tip, GasFeeCap: fee.cap, Gas: gas, To: &to, Data: data,
	})
	unsigned, err := signedPart(tx)
	if err != nil {
		return payment.Variant{}, fmt.Errorf("encode transaction: %w", err)
	}
	if x402.Keccak256(unsigned) != x402.Hash(r.signer.Hash(tx)) {
		return payment.Variant{}, errors.New("encode transaction: its hash is not the library's")
	}
	signature, err := by.key.SignTransaction(ctx, chainID.Uint64(), unsigned)
	if err != nil {
		return payment.Variant{}, fmt.Errorf("sign transaction: %w", err)
	}
	rsv := []byte(signature)
	rsv[64] -= 27
	if tx, err = tx.WithSignature(r.signer, rsv); err != nil {
		return payment.Variant{}, fmt.Errorf("sign transaction: %w", err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		return payment.Variant{}, fmt.Errorf("encode transaction: %w", err)
	}
	return payment.Variant{Hash: x402.Hash(tx.Hash()), Raw: raw, SignedAt: r.config.Now().UTC()}, nil
}

// signedPart is what the sender of a transaction with a dynamic fee signs: its type, and its members without the
// signature (EIP-1559).
func signedPart(tx *types.Transaction) ([]byte, error) {
	members, err := rlp.EncodeToBytes([]any{
		tx.ChainId(), tx.Nonce(), tx.GasTipCap(), tx.GasFeeCap(), tx.Gas(), tx.To(), tx.Value(), tx.Data(), tx.AccessList(),
	})
	return append([]byte{tx.Type()}, members...), err
}

// draftTries bounds how often a transaction is signed for a nonce that another process has taken meanwhile.
const draftTries = 5

// prepare is payment.Transactions.Prepare. A signer on another machine is never asked inside the database transaction:
// that tells which nonce and payments it is about, and ends; after the signature it is tried again. What was signed for
// a nonce that is taken by then is forgotten: it is not stored, so it is never sent.
func (s *sender) prepare(
	ctx context.Context, payments []uuid.UUID, window payment.Window, sign payment.SignBatch,
) ([]payment.Transaction, error) {
	if s.by.key.IsLocal() {
		return s.config.Transactions.Prepare(ctx, payments, s.by.address, window, sign)
	}
	var made draft
	for range draftTries {
		prepared, err := s.config.Transactions.Prepare(ctx, payments, s.by.address, window, made.use)
		wanted, unsigned := errors.AsType[*draft](err)
		if !unsigned {
			return prepared, err
		}
		made = *wanted
		if made.variant, err = sign(made.nonce, made.payments); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("other processes take the account nonces faster than the signer signs")
}

// draft is a transaction for a nonce and payments. Without a variant it is the error that asks for one.
type draft struct {
	nonce    uint64
	payments []uuid.UUID
	variant  payment.Variant
}

// Error implements error.
func (d *draft) Error() string {
	return fmt.Sprintf("the transaction of nonce %d is not signed", d.nonce)
}

// use is a payment.SignBatch that has signed already.
func (d *draft) use(nonce uint64, payments []uuid.UUID) (payment.Variant, error) {
	if d.variant.Raw == nil || nonce != d.nonce || !slices.Equal(payments, d.payments) {
		return payment.Variant{}, &draft{nonce: nonce, payments: slices.Clone(payments)}
	}
	return d.variant, nil
}

// ParseKey reads a private key: 32 bytes in hex, with or without 0x. The error never holds the key.
func ParseKey(text string) (*ecdsa.PrivateKey, error) {
	key, err := crypto.HexToECDSA(strings.TrimPrefix(strings.TrimSpace(text), "0x"))
	if err != nil {
		return nil, errors.New("not a private key of 32 bytes in hex")
	}
	return key, nil
}
