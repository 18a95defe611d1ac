package chain

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/x402"
)

// CheckKeys fails when a relayer's transaction waits whose key is not here: without it its fee cannot be raised and
// gaps in the nonces cannot be filled, and a payment waits for its open transaction. What a final block has used up
// needs no key any more, as of a key that was retired since the database was copied: Maintain records how it has
// ended. Without keys the relayer is nil.
func (r *Relayer) CheckKeys(ctx context.Context, stored payment.Transactions) error {
	open, err := stored.Relayers(ctx)
	if err != nil {
		return fmt.Errorf("list relayers with open attempts: %w", err)
	}
	var missing []string
	for _, relayer := range open {
		if r.has(relayer) {
			continue
		}
		over, err := r.over(ctx, relayer)
		if err != nil {
			return fmt.Errorf("see whether the transactions of %s are final: %w", relayer, err)
		}
		if !over {
			missing = append(missing, relayer.String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf(
			"there are open settlement transactions of %s, whose private key is not configured", strings.Join(missing, ", "),
		)
	}
	return nil
}

// has reports whether the key of a relayer is here.
func (r *Relayer) has(relayer x402.Address) bool {
	return r != nil && slices.ContainsFunc(r.all(), func(a account) bool { return a.address == relayer })
}

// over reports that a final block has used up the account nonces of all open transactions of a relayer.
func (r *Relayer) over(ctx context.Context, relayer x402.Address) (bool, error) {
	if r == nil {
		return false, nil
	}
	open, err := r.config.Transactions.Open(ctx, relayer, 0)
	if err != nil || len(open) == 0 {
		return err == nil, err
	}
	final, err := r.config.Chain.witnessedHead(ctx, r.config.Chain.config.Finality.Dead)
	if errors.Is(err, reconcile.ErrUnwitnessed) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	next := open[len(open)-1].Nonce + 1
	used, err := r.used(ctx, relayer, atHash(final.Hash), next, 0)
	return used >= next, err
}

// choose is a key with enough gas for a payment; a payment keeps its key while the balances do not change. Payments
// that can share transactions all have the same key, which differs between most processes, while it has room: batches
// are larger then, and processes seldom wait for each other's account nonces. Others are distributed over all keys, and
// those of payers with code over the keys for them. When every key is below the minimum, one that can pay for this
// transaction is used: the payment is already claimed, and readiness stops further ones.
func (r *Relayer) choose(
	ctx context.Context, id uuid.UUID, s x402.Signature, cost *big.Int,
) (account, error) {
	among, start := r.accounts, r.home
	if !s.IsOfKey() {
		among = r.apart
	}
	if len(among) == 0 {
		return account{}, errors.New("every relayer is retired")
	}
	if !s.IsOfKey() || r.batchesBy().IsZero() || r.config.MaxBatch == 1 {
		start = int(binary.BigEndian.Uint64(id[8:]) % uint64(len(among)))
	}
	order := slices.Concat(among[start:], among[:start])
	// One whose signer does not work waits longest.
	const unsigned = 2
	burden := func(a account) int {
		if a.key.Doubtful() {
			return unsigned + r.senderOf(a.address).backlog()
		}
		return r.senderOf(a.address).backlog()
	}
	slices.SortStableFunc(order, func(a, b account) int { return burden(a) - burden(b) })
	for _, least := range []*big.Int{r.config.MinBalance, cost} {
		for _, a := range order {
			balance, err := r.gasOf(ctx, a)
			if err != nil {
				return account{}, err
			}
			if balance.Cmp(least) >= 0 {
				return a, nil
			}
		}
	}
	return account{}, errors.New("every relayer is short of gas")
}

// Ready reports what would keep a payment from settling now: silent or wrong nodes, an old head, or no key with enough
// ether for gas whose signer works. A key without is skipped while there is another.
func (r *Relayer) Ready(ctx context.Context) error {
	if err := r.config.Chain.Ready(ctx, r.config.MaxHeadAge); err != nil {
		return err
	}
	return r.ready(ctx, r.accounts)
}

// ready fails unless one of some accounts has enough ether for gas and a signer that works.
func (r *Relayer) ready(ctx context.Context, accounts []account) error {
	var short []string
	var unsigned error
	for _, a := range accounts {
		balance, err := r.readGas(ctx, a)
		if err != nil {
			return fmt.Errorf("chain not ready: %w", err)
		}
		if balance.Cmp(r.config.MinBalance) < 0 {
			short = append(short, fmt.Sprintf("%s has %s wei", a.address, balance))
			continue
		}
		if err = a.key.Ready(ctx); err == nil {
			return nil
		}
		unsigned = errors.Join(unsigned, err)
	}
	if unsigned != nil {
		return fmt.Errorf("no relayer can sign: %w", unsigned)
	}
	if len(accounts) == 0 {
		const detail = "This service has no key to settle payments with."
		return fmt.Errorf("every relayer is retired: %w", fault.New(fault.DependencyDown, detail))
	}
	return fmt.Errorf("every relayer is short of gas: %s: %w", strings.Join(short, ", "),
		fault.New(fault.DependencyDown, "This service is short of gas to settle payments with."))
}

// GasBalances is the ether of each key, in wei, also of those that are retired, whose open transactions it pays for. It
// has those that can be read, and an error for the others.
func (r *Relayer) GasBalances(ctx context.Context) (map[x402.Address]*big.Int, error) {
	found := map[x402.Address]*big.Int{}
	var errs error
	for _, a := range r.all() {
		balance, err := r.gasOf(ctx, a)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("relayer %s: %w", a.address, err))
			continue
		}
		found[a.address] = balance
	}
	return found, errs
}

// gasOf is an account's balance for gas, in wei, cached for gasFor.
func (r *Relayer) gasOf(ctx context.Context, a account) (*big.Int, error) {
	if known, ok := r.gas.cached(a.address, r.config.Now()); ok {
		return known, nil
	}
	return r.readGas(ctx, a)
}

// readGas asks more nodes when the first one shows too little, or fails, so that no single node stops sales. A balance
// that is too large is accepted: the next transaction would fail.
func (r *Relayer) readGas(ctx context.Context, a account) (*big.Int, error) {
	on := r.config.Chain
	balance, err := on.ether(ctx, a.address)
	if len(on.pool.endpoints) > 1 && (err != nil || balance.Cmp(r.config.MinBalance) < 0) {
		if most, known := on.etherOfMost(ctx, a.address); known {
			balance, err = most, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read gas balance: %w", err)
	}
	r.gas.keep(a.address, balance, r.config.Now())
	return balance, nil
}

// ether is what an account holds at the latest block, in wei.
func (c *Chain) ether(ctx context.Context, of x402.Address) (*big.Int, error) {
	var balance hexutil.Big
	err := c.pool.call(ctx, &balance, "eth_getBalance", of.String(), "latest")
	return balance.ToInt(), err
}

// etherOfMost asks each node alone and returns the median; of two, the larger balance. known is false when none
// answers.
func (c *Chain) etherOfMost(ctx context.Context, of x402.Address) (wei *big.Int, known bool) {
	ask := func(ctx context.Context, one *Chain) (*big.Int, error) { return one.ether(ctx, of) }
	var got []*big.Int
	for _, w := range consult(ctx, c, 1, ask, func(a, b *big.Int) bool { return a.Cmp(b) == 0 }) {
		if w.err == nil {
			got = append(got, w.value)
		}
	}
	if len(got) == 0 {
		return nil, false
	}
	slices.SortFunc(got, (*big.Int).Cmp)
	return got[len(got)/2], true
}

// gasLog caches balances, which saves a call for each payment. A cached balance is enough for hundreds of settlements,
// or it is read again.
type gasLog struct {
	mu sync.Mutex
	of map[x402.Address]gasBalance
}

type gasBalance struct {
	wei *big.Int
	at  time.Time
}

// gasFor is how long a balance is cached.
const gasFor = 5 * time.Second

func (g *gasLog) cached(of x402.Address, now time.Time) (*big.Int, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b, ok := g.of[of]
	return b.wei, ok && now.Sub(b.at) < gasFor
}

func (g *gasLog) keep(of x402.Address, wei *big.Int, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of == nil {
		g.of = map[x402.Address]gasBalance{}
	}
	g.of[of] = gasBalance{wei: wei, at: now}
}
