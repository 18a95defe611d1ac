package node

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
)

// sent is a transaction in the pool.
type sent struct {
	tx   *types.Transaction
	from common.Address
	// unsigned is one of Execute.
	unsigned bool
	// included says that it is in a block.
	included bool
}

// take puts a signed transaction into the pool, by the rules and with the errors of reth.
func (c *Chain) take(raw []byte) (common.Hash, *refusal) {
	refuse := func(code int, message string, args ...any) (common.Hash, *refusal) {
		return common.Hash{}, &refusal{Code: code, Message: fmt.Sprintf(message, args...)}
	}
	tx := new(types.Transaction)
	if tx.UnmarshalBinary(raw) != nil {
		return refuse(devnet.CodeInvalidParam, "failed to decode signed transaction")
	}
	if known := c.lookUp(tx.Hash()); known != nil {
		tx = known.tx // which has its sender
	}
	from, err := types.Sender(c.signer, tx)
	if err != nil {
		return refuse(devnet.CodeInvalidInput, "%s", err)
	}
	if tx.Type() == types.BlobTxType {
		return refuse(devnet.CodeRejected, "transaction type not supported")
	}
	next := c.state.GetNonce(from)
	if no := c.config.Pool.Refuse(tx, next, c.pooled(from)); no != nil {
		return common.Hash{}, no
	}
	if tx.Nonce() < next {
		return refuse(devnet.CodeInvalidInput, "nonce too low: next nonce %d, tx nonce %d", next, tx.Nonce())
	}
	if least, err := leastGas(from, tx); err != nil || tx.Gas() < least {
		return refuse(devnet.CodeInvalidInput, "intrinsic gas too low")
	}
	if have := c.state.GetBalance(from); have.CmpBig(tx.Cost()) < 0 {
		const poor = "insufficient funds for gas * price + value: have %s want %s"
		return refuse(devnet.CodeRejected, poor, have.Dec(), tx.Cost())
	}
	s := &sent{tx: tx, from: from}
	at := slices.IndexFunc(c.pool, func(p *sent) bool {
		return p.from == from && !p.unsigned && p.tx.Nonce() == tx.Nonce()
	})
	if at < 0 {
		c.pool = append(c.pool, s)
		return tx.Hash(), nil
	}
	old := c.pool[at].tx
	if tx.GasFeeCap().Cmp(tenthMore(old.GasFeeCap())) < 0 || tx.GasTipCap().Cmp(tenthMore(old.GasTipCap())) < 0 {
		return refuse(devnet.CodeInvalidInput, "replacement transaction underpriced")
	}
	c.pool[at] = s
	return tx.Hash(), nil
}

// lookUp is a transaction that is in a block or in the pool, or nil.
func (c *Chain) lookUp(hash common.Hash) *sent {
	if e := c.included[hash]; e != nil {
		return e.sent
	}
	if at := slices.IndexFunc(c.pool, func(s *sent) bool { return s.tx.Hash() == hash }); at >= 0 {
		return c.pool[at]
	}
	return nil
}

// tenthMore is what a replacement must offer.
func tenthMore(n *big.Int) *big.Int {
	more := new(big.Int).Mul(n, big.NewInt(110))
	return more.Div(more, big.NewInt(100))
}

// leastGas is what a transaction needs before its first instruction.
func leastGas(from common.Address, tx *types.Transaction) (uint64, error) {
	value, _ := uint256.FromBig(tx.Value())
	osaka := rules.Rules(common.Big0, true, 0)
	gas, err := core.IntrinsicGas(tx.Data(), tx.AccessList(), tx.SetCodeAuthorizations(), from, tx.To(), value, osaka)
	if err != nil {
		return 0, err
	}
	floor, err := core.FloorDataGas(osaka, from, tx.To(), value, tx.Data(), tx.AccessList())
	return max(gas, floor), err
}

// pooled are a sender's transactions in the pool, by nonce.
func (c *Chain) pooled(from common.Address) map[uint64]common.Hash {
	found := map[uint64]common.Hash{}
	for _, p := range c.pool {
		if p.from == from && !p.unsigned {
			found[p.tx.Nonce()] = p.tx.Hash()
		}
	}
	return found
}

// best is the one that comes next in a block: one of Execute, or the one of the highest tip, of equal ones the oldest.
func (c *Chain) best(waiting []*sent, baseFee *big.Int, passed map[*sent]bool) (best *sent) {
	var most *big.Int
	for _, p := range waiting {
		switch {
		case passed[p]:
		case p.unsigned:
			return p
		case p.tx.Nonce() != c.state.GetNonce(p.from):
		default:
			tip, err := p.tx.EffectiveGasTip(baseFee)
			if err == nil && (most == nil || tip.Cmp(most) > 0) {
				best, most = p, tip
			}
		}
	}
	return best
}

// remove takes what the last block used out of the pool: its transactions, and others that had their nonces.
func (c *Chain) remove() {
	c.pool = slices.DeleteFunc(c.pool, func(p *sent) bool {
		if p.unsigned {
			return p.included
		}
		return p.tx.Nonce() < c.state.GetNonce(p.from)
	})
}
