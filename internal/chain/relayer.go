package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/jitter"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

// RelayerConfig is what a Relayer needs. What is zero takes the default named.
type RelayerConfig struct {
	Chain        *Chain
	Transactions Transactions
	// Keys send the transactions and pay their gas. Keep a key while it has open attempts: without it their fee cannot
	// be raised, and gaps in its nonces cannot be filled.
	Keys []payment.Signer
	// SmartAccountKeys send the transactions of payers with code, and no others: what such a payer wastes is not the gas
	// of those who pay by key, and its transactions do not take their room. Without any, nothing is sent for them.
	SmartAccountKeys []payment.Signer
	// Retired keys send no new payments. Their open attempts are sent again, their fees are raised and their gaps are
	// filled, until none is left.
	Retired []payment.Signer
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
	// Settler is the contract that settles several payments in one transaction; zero means that each has its own, until
	// Use. MaxBatch is the most of them: 100, of at most settler.MaxMembers.
	Settler  settler.Contract
	MaxBatch int
	// Window is how many transactions of a key may wait for blocks at once: 16, which a node's pool takes of one sender.
	Window uint64
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
	// apart are the accounts of SmartAccountKeys.
	apart []account
	// retired are accounts that only finish what they began.
	retired []account
	// home is the place in accounts of the key that sends batches.
	home    int
	senders []*sender
	signer  types.Signer
	sent    recentLog[x402.Hash]
	gas     gasLog
	fees    feeLog
	settler atomic.Pointer[settler.Contract]
	sizes   batchSizes
	trials  rounds[settler.Member, tried]
	// simulations are the latest ones that succeeded.
	simulations simulationLog
	// included are attempts that were seen in a block.
	included inclusionLog
	// submitted are the payments whose transactions were looked at lately.
	submitted recentLog[uuid.UUID]
}

// account is one key and its address; the key is nil where it is not here.
type account struct {
	key     *payment.Account
	address x402.Address
}

// NewRelayer makes a relayer.
func NewRelayer(config RelayerConfig) (*Relayer, error) {
	if len(config.Keys)+len(config.SmartAccountKeys)+len(config.Retired) == 0 {
		return nil, errors.New("the relayer has no key")
	}
	config.MaxFeePerGas = orDefault(config.MaxFeePerGas, big.NewInt(20e9))
	config.MinTip = orDefault(config.MinTip, big.NewInt(1e6))
	config.MinBalance = orDefault(config.MinBalance, big.NewInt(5e14))
	config.BumpAfter = orDefault(config.BumpAfter, 12*time.Second)
	config.ResendAfter = orDefault(config.ResendAfter, 4*time.Second)
	config.Chain = config.Chain.Following()
	config.Window = orDefault(config.Window, defaultWindow)
	config.MaxBatch = min(orDefault(config.MaxBatch, settler.MaxMembers), settler.MaxMembers)
	config.Budget = config.Budget.withDefaults()
	r := &Relayer{
		config: config, signer: types.LatestSignerForChainID(new(big.Int).SetUint64(config.Chain.config.Domain.ChainID)),
	}
	r.Use(config.Settler)
	if len(config.Keys) > 0 {
		r.home = jitter.IntN(len(config.Keys))
	}
	for _, key := range config.Keys {
		r.accounts = append(r.accounts, r.add(key))
	}
	for _, key := range config.SmartAccountKeys {
		r.apart = append(r.apart, r.add(key))
	}
	for _, key := range config.Retired {
		r.retired = append(r.retired, r.add(key))
	}
	return r, nil
}

// Use lets payments share the transactions of a contract from now on.
func (r *Relayer) Use(on settler.Contract) { r.settler.Store(&on) }

// batchesBy is the contract by which payments share transactions, or zero.
func (r *Relayer) batchesBy() settler.Contract { return *r.settler.Load() }

func (r *Relayer) add(key payment.Signer) account {
	by := account{payment.NewAccount(key, r.config.Chain.config.Domain.ChainID, r.config.Now), key.Address()}
	r.senders = append(r.senders, newSender(r, by))
	return by
}

// all are the accounts that this process has keys of.
func (r *Relayer) all() []account { return slices.Concat(r.accounts, r.apart, r.retired) }

// Submit implements payment.Settler. An open attempt is sent again, byte for byte. Another one is made only when there
// is none, or when the chain shows that it moved nothing, and only if it would succeed now. While the key's earlier
// transactions fill the nodes' pools, the payment waits, and its transaction is made and sent in the background. A
// payment that was submitted within ResendAfter is left alone.
func (r *Relayer) Submit(ctx context.Context, p payment.Payment) error {
	for _, s := range r.senders {
		if s.waits(p.ID) {
			return nil
		}
	}
	if !r.submitted.due(p.ID, r.config.Now(), r.config.ResendAfter) {
		return nil
	}
	err := r.submit(ctx, p)
	if err != nil && !errors.Is(err, errUnmoved) {
		r.submitted.reset(p.ID)
	}
	return err
}

func (r *Relayer) submit(ctx context.Context, p payment.Payment) error {
	attempt, open, err := r.config.Transactions.ByPayment(ctx, p.ID)
	if err != nil {
		return fmt.Errorf("submit payment: find its open attempt: %w", err)
	}
	if open {
		live, err := r.resume(ctx, attempt, p.ID)
		if err != nil || live {
			return err
		}
	}
	lost, err := r.affordable(ctx, p)
	if err != nil {
		return fmt.Errorf("submit payment: %w", err)
	}
	by, err := r.afford(ctx, p)
	if err != nil {
		return fmt.Errorf("submit payment: %w", err)
	}
	if err := by.submit(ctx, p, lost.Reverts > 0 || !p.Signature.IsOfKey()); err != nil {
		return fmt.Errorf("submit payment: %w", err)
	}
	return nil
}

// resume sends an open attempt again unless it is included. The attempt is live unless a block shows that it moved
// nothing. It is errUnmoved when a block shows that it moved others, and not the payment of that id: until the block is
// final, no other attempt is made.
func (r *Relayer) resume(ctx context.Context, a payment.Transaction, of uuid.UUID) (live bool, err error) {
	if by := r.senderOf(a.Relayer); by != nil && r.config.Chain.shares() {
		if window, err := by.window(ctx); err == nil && a.Nonce >= window.First {
			return true, r.resend(ctx, a) // no block has its nonce
		}
	}
	receipt, included, err := r.inclusion(ctx, r.config.Chain.quick(), a)
	// An incomplete or unconfirmed answer does not matter: sending the same bytes again is safe.
	if err != nil && !errors.Is(err, errIncomplete) && !errors.Is(err, errUnconfirmed) {
		return false, fmt.Errorf("resume attempt: %w", err)
	}
	if !included {
		return true, r.resend(ctx, a)
	}
	if receipt.Status != 0 {
		if slices.Contains(r.unmoved(a, receipt), of) {
			return true, errUnmoved
		}
		return true, nil
	}
	return false, r.close(ctx, a, payment.TransactionReverted, receipt.cost(), nil)
}

// resend sends an attempt that is not included, once its nonce is in the window.
func (r *Relayer) resend(ctx context.Context, a payment.Transaction) error {
	if !r.sent.isDue(a.Variants[len(a.Variants)-1].Hash, r.config.Now(), r.config.ResendAfter) {
		return nil
	}
	by := r.senderOf(a.Relayer)
	if by == nil { // its gaps cannot be filled without the key
		return r.send(ctx, a)
	}
	window, err := by.window(ctx)
	if err != nil || !window.Has(a.Nonce) {
		return err
	}
	return by.sendInOrder(ctx, a, window.First)
}

// send broadcasts the newest variant, unless this process did so within ResendAfter. What the nodes have refused is not
// due again any sooner.
func (r *Relayer) send(ctx context.Context, a payment.Transaction) error {
	newest := a.Variants[len(a.Variants)-1]
	if !r.sent.due(newest.Hash, r.config.Now(), r.config.ResendAfter) {
		return nil
	}
	err := r.config.Chain.pool.broadcast(ctx, newest.Raw)
	if err != nil && !isAnswer(err) {
		r.sent.reset(newest.Hash)
	}
	faultpoint.Reach("transaction.sent")
	return err
}

func attemptAttrs(a payment.Transaction) []any {
	return []any{slog.Any("payments", a.Payments), slog.String("relayer", a.Relayer.String()),
		slog.Uint64("nonce", a.Nonce), slog.String("transaction", a.Variants[len(a.Variants)-1].Hash.String())}
}
