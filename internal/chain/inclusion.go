package chain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// errUnconfirmed says that only one node shows a receipt, where two are needed.
var errUnconfirmed = errors.New("one node alone shows a receipt")

// receipt is the part of a transaction's receipt that is used here. Status 1 is success.
type receipt struct {
	Hash        common.Hash    `json:"transactionHash"`
	Status      hexutil.Uint64 `json:"status"`
	BlockNumber hexutil.Uint64 `json:"blockNumber"`
	BlockHash   common.Hash    `json:"blockHash"`
	GasUsed     hexutil.Uint64 `json:"gasUsed"`
	GasPrice    *hexutil.Big   `json:"effectiveGasPrice"`
	// DataFee is what a rollup charges in addition to the gas.
	DataFee *hexutil.Big `json:"l1Fee"`
	Logs    []logEntry   `json:"logs"`
	// to and data are the transaction's own.
	to   x402.Address
	data []byte
	// most is the highest cost that the transaction itself allows, in wei.
	most *big.Int
}

// inclusion finds the block that includes any variant of the attempt. With several nodes, two must show the same
// receipt: a revert that one node invents would close an attempt that can still move the money. The error is
// errUnconfirmed while only one shows a receipt. An empty variant moves nothing, like a revert.
func (r *Relayer) inclusion(ctx context.Context, on *Chain, a payment.Transaction) (receipt, bool, error) {
	var doubt error
	for _, v := range a.Variants {
		found, err := on.receiptOf(ctx, v.Hash)
		switch {
		case err == nil:
			tx, err := decode(v)
			if err != nil {
				return receipt{}, false, err
			}
			found.to, found.data, found.most = x402.Address(*tx.To()), tx.Data(), mostOf(tx)
			if len(tx.Data()) == 0 {
				found.Status = 0
			}
			return found, true, nil
		case errors.Is(err, errUnconfirmed):
			doubt = err
		case !errors.Is(err, errNotFound):
			return receipt{}, false, fmt.Errorf("read receipt: %w", err)
		}
	}
	return receipt{}, false, doubt
}

// receiptOf reads a transaction's receipt. A receipt of another transaction, or of a block that is not part of the
// chain, counts for nothing: it would keep the transaction from being sent again.
func (c *Chain) receiptOf(ctx context.Context, transaction x402.Hash) (found receipt, err error) {
	if err := c.pool.call(ctx, &found, "eth_getTransactionReceipt", transaction.String()); err != nil {
		return receipt{}, err
	}
	if len(c.pool.endpoints) > 1 {
		return c.confirmedReceipt(ctx, transaction)
	}
	if found.Hash != common.Hash(transaction) {
		return receipt{}, errNotFound
	}
	if c.isFollowed(ctx, x402.Hash(found.BlockHash)) {
		return found, nil
	}
	block, err := c.headerAt(ctx, uint64(found.BlockNumber))
	if err != nil {
		return receipt{}, err
	}
	if block.Hash != x402.Hash(found.BlockHash) {
		return receipt{}, errNotFound
	}
	return found, nil
}

// confirmedReceipt asks each node alone for a receipt, and returns the one that two of them show. The error is
// errNotFound when two show none, and else errUnconfirmed.
func (c *Chain) confirmedReceipt(ctx context.Context, transaction x402.Hash) (receipt, error) {
	const calls = 2
	ask := func(ctx context.Context, one *Chain) (*receipt, error) {
		found, err := one.receiptOf(ctx, transaction)
		if errors.Is(err, errNotFound) || errors.Is(err, errIncomplete) {
			return nil, nil
		}
		return &found, err
	}
	results := consult(ctx, c, calls, ask, sameInclusion)
	if err := ctx.Err(); err != nil {
		return receipt{}, err // the others could not be asked
	}
	type inclusion struct {
		block  common.Hash
		status hexutil.Uint64
	}
	shown, missing := map[inclusion]int{}, 0
	for _, w := range results {
		switch {
		case w.err != nil:
		case w.value == nil:
			missing++
		default:
			same := inclusion{w.value.BlockHash, w.value.Status}
			if shown[same]++; shown[same] >= witnesses {
				return *w.value, nil
			}
		}
	}
	if missing >= witnesses {
		return receipt{}, errNotFound
	}
	return receipt{}, errUnconfirmed
}

// sameInclusion reports that two nodes show a transaction alike, or that neither shows it.
func sameInclusion(a, b *receipt) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.BlockHash == b.BlockHash && a.Status == b.Status
}

func decode(t payment.Variant) (*types.Transaction, error) {
	var tx types.Transaction
	if err := tx.UnmarshalBinary(t.Raw); err != nil {
		return nil, fmt.Errorf("decode transaction: %w", err)
	}
	return &tx, nil
}

// mostOf is the highest cost that a transaction allows, in wei: its gas limit at its fee cap.
func mostOf(tx *types.Transaction) *big.Int {
	return new(big.Int).Mul(tx.GasFeeCap(), new(big.Int).SetUint64(tx.Gas()))
}

// cost is what an included transaction cost the relayer, in wei: the node's number, bounded by what the transaction
// allows, because an invented number would exhaust the budgets.
func (f receipt) cost() int64 {
	if f.GasPrice == nil {
		return 0
	}
	wei := new(big.Int).Mul(f.GasPrice.ToInt(), new(big.Int).SetUint64(uint64(f.GasUsed)))
	if f.DataFee != nil {
		wei.Add(wei, f.DataFee.ToInt())
	}
	wei = smaller(wei, f.most)
	if !wei.IsInt64() {
		return math.MaxInt64
	}
	return wei.Int64()
}

// seenIncluded is the block of an attempt that is included and did not revert, where that is known without a call.
func (r *Relayer) seenIncluded(ctx context.Context, a payment.Transaction) (number uint64, known bool) {
	if number, known = r.included.block(a.ID); known {
		return number, true
	}
	on := r.config.Chain
	follower := on.follower()
	if follower == nil || !on.shares() {
		return 0, false
	}
	if head, err := on.head(ctx, "latest"); err != nil || follower.follow(ctx, on, head) != nil {
		return 0, false
	}
	for _, v := range a.Variants {
		if number, known = follower.includes(v.Hash); known {
			r.included.keep(a.ID, number)
			return number, true
		}
	}
	return 0, false
}

// inclusionLog caches in which block an attempt was seen, until that block is final. It only saves calls: a
// reorganisation that removes the block also lowers the account's count, and at the end the receipt is read again.
type inclusionLog struct {
	mu sync.Mutex
	in map[uuid.UUID]uint64
	// missed is how often no receipt was found of an attempt whose account nonce is used.
	missed map[uuid.UUID]int
}

// enoughIncluded bounds what is remembered of attempts.
const enoughIncluded = 100_000

// miss counts that no receipt of an attempt was found, and is true when that is often enough to believe it: a node may
// lack a receipt for a while.
func (l *inclusionLog) miss(attempt uuid.UUID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	const often = 3
	if l.missed == nil || len(l.missed) >= enoughIncluded {
		l.missed = map[uuid.UUID]int{}
	}
	l.missed[attempt]++
	return l.missed[attempt] >= often
}

func (l *inclusionLog) block(attempt uuid.UUID) (number uint64, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	number, known = l.in[attempt]
	return number, known
}

func (l *inclusionLog) keep(attempt uuid.UUID, number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.in == nil || len(l.in) >= enoughIncluded {
		l.in = map[uuid.UUID]uint64{}
	}
	l.in[attempt] = number
}

func (l *inclusionLog) drop(attempt uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.in, attempt)
	delete(l.missed, attempt)
}
