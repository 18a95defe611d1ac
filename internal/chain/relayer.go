package chain

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
	"github.com/roamcard/roamcard/internal/x402"
)

// RelayerConfig is what a Relayer needs. What is zero takes the default named.
type RelayerConfig struct {
	Chain    *Chain
	Attempts payment.Attempts
	// Keys send the transactions and pay their gas. Keep a key while it has open attempts: without it their fee cannot
	// be raised, and gaps in its nonces cannot be filled.
	Keys []*ecdsa.PrivateKey
	// MaxFeePerGas bounds the price of a unit of gas, in wei. Transactions above it wait. 20 gwei.
	MaxFeePerGas *big.Int
	// MinTip is the least tip offered, in wei: 0.001 gwei.
	MinTip *big.Int
	// MinBalance is the balance that a key needs for new payments, in wei: 0.0005 ether, some hundreds of settlements.
	MinBalance *big.Int
	// MaxHeadAge is the age of the latest block beyond which the chain is not ready; zero disables the check.
	MaxHeadAge time.Duration
	// BumpAfter is how long the oldest transaction may wait before its fee is raised: 12 s.
	BumpAfter time.Duration
	// ResendAfter is the least time between two broadcasts of the same bytes by this process: 4 s.
	ResendAfter time.Duration
	// Budget bounds the gas spent on transactions that move nothing.
	Budget  Budget
	Now     func() time.Time
	Log     *slog.Logger
	Metrics *telemetry.Metrics
}

// Relayer settles payments with transactions of our own. It is payment.Settler. Its durable state is in Attempts;
// several processes may run one with the same keys.
type Relayer struct {
	config   RelayerConfig
	accounts []account
	signer   types.Signer
	sent     sentLog
	gas      gasLog
	fees     feeLog
}

// account is one key and its address.
type account struct {
	key     *ecdsa.PrivateKey
	address x402.Address
}

// NewRelayer makes a relayer.
func NewRelayer(config RelayerConfig) (*Relayer, error) {
	if len(config.Keys) == 0 {
		return nil, errors.New("the relayer has no key")
	}
	config.MaxFeePerGas = orDefault(config.MaxFeePerGas, big.NewInt(20e9))
	config.MinTip = orDefault(config.MinTip, big.NewInt(1e6))
	config.MinBalance = orDefault(config.MinBalance, big.NewInt(5e14))
	config.BumpAfter = orDefault(config.BumpAfter, 12*time.Second)
	config.ResendAfter = orDefault(config.ResendAfter, 4*time.Second)
	config.Budget = config.Budget.withDefaults()
	r := &Relayer{
		config: config, signer: types.LatestSignerForChainID(new(big.Int).SetUint64(config.Chain.config.Domain.ChainID)),
	}
	for _, key := range config.Keys {
		r.accounts = append(r.accounts, account{key: key, address: x402.Address(crypto.PubkeyToAddress(key.PublicKey))})
	}
	return r, nil
}

// Submit implements payment.Settler. An open attempt is sent again, byte for byte. Another one is made only when there
// is none, or when the chain shows that it moved nothing, and only if it would succeed now.
func (r *Relayer) Submit(ctx context.Context, p payment.Payment) error {
	attempt, open, err := r.config.Attempts.ByPayment(ctx, p.ID)
	if err != nil {
		return fmt.Errorf("submit payment: find its open attempt: %w", err)
	}
	if open {
		live, err := r.resume(ctx, attempt)
		if err != nil || live {
			return err
		}
	}
	if err := r.affordable(ctx, p); err != nil {
		return fmt.Errorf("submit payment: %w", err)
	}
	attempt, err = r.prepare(ctx, p)
	if err != nil {
		return fmt.Errorf("submit payment: %w", err)
	}
	faultpoint.Reach("attempt.stored")
	// The bytes are stored: even if the broadcast fails, the money may move.
	return r.send(ctx, attempt)
}

// resume sends an open attempt again unless it is included. The attempt is live unless a block shows that it moved
// nothing.
func (r *Relayer) resume(ctx context.Context, a payment.Attempt) (live bool, err error) {
	receipt, included, err := r.inclusion(ctx, r.config.Chain.quick(), a)
	// An incomplete or unconfirmed answer does not matter: sending the same bytes again is safe.
	if err != nil && !errors.Is(err, errIncomplete) && !errors.Is(err, errUnconfirmed) {
		return false, fmt.Errorf("resume attempt: %w", err)
	}
	if !included {
		return true, r.send(ctx, a)
	}
	if receipt.Status != 0 {
		return true, nil
	}
	return false, r.close(ctx, a, payment.AttemptReverted, receipt.cost())
}

// prepare stores a signed transaction for the payment, or finds the one stored meanwhile. The transfer is simulated as
// it will be sent: by the same account, for the same fee, with the same gas limit.
func (r *Relayer) prepare(ctx context.Context, p payment.Payment) (payment.Attempt, error) {
	fee, err := r.suggestFee(ctx)
	if err != nil {
		return payment.Attempt{}, err
	}
	account, err := r.choose(ctx, p.ID, new(big.Int).Mul(fee.cap, new(big.Int).SetUint64(r.config.Chain.config.CallGas)))
	if err != nil {
		return payment.Attempt{}, err
	}
	if err := r.config.Chain.simulate(ctx, &sender{account.address, fee}, p.Authorization, p.Signature); err != nil {
		return payment.Attempt{}, err
	}
	floor, err := r.floor(ctx, account.address)
	if err != nil {
		return payment.Attempt{}, err
	}
	token := common.Address(r.config.Chain.config.Domain.Contract)
	call := x402.TransferCall(p.Authorization, p.Signature)
	sign := func(nonce uint64) (payment.Transaction, error) {
		return r.sign(account, nonce, fee, token, r.config.Chain.config.CallGas, call)
	}
	attempt, err := r.config.Attempts.Prepare(ctx, p.ID, account.address, floor, sign)
	if err != nil {
		return payment.Attempt{}, fmt.Errorf("prepare attempt: %w", err)
	}
	return attempt, nil
}

func (r *Relayer) sign(
	by account, nonce uint64, fee fee, to common.Address, gas uint64, data []byte,
) (payment.Transaction, error) {
	tx, err := types.SignNewTx(by.key, r.signer, &types.DynamicFeeTx{
		ChainID: r.signer.ChainID(), Nonce: nonce, GasTipCap: fee.tip, GasFeeCap: fee.cap, Gas: gas, To: &to, Data: data,
	})
	if err != nil {
		return payment.Transaction{}, fmt.Errorf("sign transaction: %w", err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		return payment.Transaction{}, fmt.Errorf("encode transaction: %w", err)
	}
	return payment.Transaction{Hash: x402.Hash(tx.Hash()), Raw: raw, SignedAt: r.config.Now().UTC()}, nil
}

// send broadcasts the newest variant, unless this process did so within ResendAfter.
func (r *Relayer) send(ctx context.Context, a payment.Attempt) error {
	newest := a.Variants[len(a.Variants)-1]
	if !r.sent.due(newest.Hash, r.config.Now(), r.config.ResendAfter) {
		return nil
	}
	err := r.config.Chain.pool.broadcast(ctx, newest.Raw)
	if err != nil {
		r.sent.reset(newest.Hash)
	}
	faultpoint.Reach("attempt.sent")
	return err
}

func attemptAttrs(a payment.Attempt) []any {
	return []any{slog.String("payment", a.Payment.String()), slog.String("relayer", a.Relayer.String()),
		slog.Uint64("nonce", a.Nonce), slog.String("transaction", a.Variants[len(a.Variants)-1].Hash.String())}
}

// ParseKey reads a private key: 32 bytes in hex, with or without 0x. The error never holds the key.
func ParseKey(text string) (*ecdsa.PrivateKey, error) {
	key, err := crypto.HexToECDSA(strings.TrimPrefix(strings.TrimSpace(text), "0x"))
	if err != nil {
		return nil, errors.New("not a private key of 32 bytes in hex")
	}
	return key, nil
}
