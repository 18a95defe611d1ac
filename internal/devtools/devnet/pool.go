package devnet

import (
	"cmp"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

const (
	// defaultSlots is how many transactions of one sender reth keeps in its pool (txpool.max-account-slots).
	defaultSlots = 16
	// maxTxGas is the most gas that a transaction may ask for: 2^24 (EIP-7825).
	maxTxGas = 1 << 24
	// maxLogRange is the widest range of blocks in one log query: what the service asks for at most.
	maxLogRange = 2_000
)

// The codes of errors, as reth has them.
const (
	CodeInvalidInput = -32000
	CodeRejected     = -32003
	CodeInvalidParam = -32602
)

// Refusal is an error that a node answers.
type Refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	// Data is what a contract returned with a revert, in hex.
	Data string `json:"data,omitempty"`
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

// PoolRules are the rules by which a public node's pool takes a sender's transactions.
type PoolRules struct {
	// Slots is how many transactions of one sender the pool takes: 16.
	Slots int
	// QueueGaps lets a transaction that comes before an earlier one of its sender take a slot and wait, as in reth. Else
	// it is refused, as some nodes do.
	QueueGaps bool
}

// Refuse applies the rules to a transaction whose sender has next transactions in blocks, and these in the pool, by
// nonce. nil takes it.
func (r PoolRules) Refuse(tx *types.Transaction, next uint64, pooled map[uint64]common.Hash) *Refusal {
	if tx.Gas() > maxTxGas {
		return &Refusal{Code: CodeInvalidInput, Message: "exceeds max transaction gas limit"}
	}
	if pooled[tx.Nonce()] == tx.Hash() {
		return &Refusal{Code: CodeInvalidInput, Message: "already known"}
	}
	waiting := 0
	for nonce := range pooled {
		if nonce >= next {
			waiting++
		}
	}
	if waiting >= cmp.Or(r.Slots, defaultSlots) && tx.Nonce() > next {
		return &Refusal{Code: CodeRejected, Message: "txpool is full"}
	}
	for nonce := next; !r.QueueGaps && nonce < tx.Nonce(); nonce++ {
		if _, held := pooled[nonce]; !held {
			return &Refusal{Code: CodeInvalidInput, Message: "nonce too high"}
		}
	}
	return nil
}

// RefuseRange refuses a log query about too many blocks.
func RefuseRange(from, to int64) *Refusal {
	if to-from <= maxLogRange {
		return nil
	}
	return &Refusal{Code: CodeInvalidParam, Message: fmt.Sprintf("query exceeds max block range %d", maxLogRange)}
}
