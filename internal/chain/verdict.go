package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// Verdict implements payment.Chain. With several nodes, Settled and Void need two of them.
func (c *Chain) Verdict(ctx context.Context, a x402.Authorization, since time.Time) (payment.Verdict, error) {
	verdict, err := c.verdict(ctx, a, since)
	if err != nil {
		return payment.Verdict{}, fmt.Errorf("read authorization status: %w", err)
	}
	return verdict, nil
}

// authorizationStatus decides by what one block shows, named by hash: two reads of "latest" may be two different
// blocks.
func (c *Chain) authorizationStatus(
	ctx context.Context, a x402.Authorization, since time.Time,
) (payment.Verdict, error) {
	head, err := c.head(ctx, c.config.Finality.Paid)
	if err != nil {
		return payment.Verdict{}, err
	}
	follower := c.follower()
	if follower != nil {
		verdict, known := follower.status(ctx, c, a, head)
		switch {
		case known && verdict.State == payment.Unused:
			return c.statusOfUnused(ctx, a, head)
		case known:
			return verdict, nil
		}
	}
	used, err := c.stateAt(ctx, a, head)
	switch {
	case err != nil:
		return payment.Verdict{}, err
	case used:
		return c.statusOfUsed(ctx, a, head, since)
	}
	if follower != nil {
		follower.watch(ctx, c, a, head)
	}
	return c.statusOfUnused(ctx, a, head)
}

// Final is the same chain with verdicts at the final block: a payment that is settled there stays settled. It always
// needs two nodes.
func (c *Chain) Final() *Chain {
	final := *c
	final.config.Finality.Paid = c.config.Finality.Dead
	final.config.WitnessFrom = 0
	return &final
}

// Time is that of the block at which verdicts are read, as one node shows it.
func (c *Chain) Time(ctx context.Context) (time.Time, error) {
	head, err := c.head(ctx, c.config.Finality.Paid)
	return head.time(), err
}

// statusOfUnused decides about a nonce that is free at the head. The authorization is void only once a final block is
// past its time and the nonce is free there, too. Our own clock must be past its time, too: a block with a time in the
// future is not trusted.
func (c *Chain) statusOfUnused(ctx context.Context, a x402.Authorization, head header) (payment.Verdict, error) {
	if c.inTime(a, head) {
		return payment.Verdict{State: payment.Unused}, nil
	}
	final, err := c.finalHead(ctx, head)
	if err != nil {
		return payment.Verdict{}, err
	}
	if final.Time < a.ValidBefore || uint64(c.config.Now().Unix()) < a.ValidBefore {
		return payment.Verdict{}, nil
	}
	used, err := c.stateAt(ctx, a, final)
	if err != nil || used {
		return payment.Verdict{}, err
	}
	return payment.Verdict{State: payment.Void, Reason: payment.ReasonExpired}, nil
}

// inTime reports that neither a block nor our own clock has reached the end of an authorization.
func (c *Chain) inTime(a x402.Authorization, head header) bool {
	return head.Time < a.ValidBefore && uint64(c.config.Now().Unix()) < a.ValidBefore
}

// statusOfUsed decides about a nonce that is used at the head. The state alone proves nothing: a cancellation and
// another authorization with the same nonce set it, too. The log tells which.
func (c *Chain) statusOfUsed(
	ctx context.Context, a x402.Authorization, head header, since time.Time,
) (payment.Verdict, error) {
	found, err := c.findUse(ctx, a, head, since)
	if err != nil || found == nil {
		return payment.Verdict{}, err
	}
	reason := payment.ReasonCancelled
	if found.topic(0) == x402.TopicUsed {
		transfer, err := c.transferAfter(ctx, a, *found)
		if err != nil {
			return payment.Verdict{}, err
		}
		if transfer.moves(a) {
			return c.settledBy(ctx, a, *transfer)
		}
		if transfer == nil {
			// The token always logs a transfer, so a node that does not show it proves nothing.
			return payment.Verdict{}, nil
		}
		reason = payment.ReasonUsedElsewhere
	}
	final, err := c.isFinal(ctx, head, uint64(found.BlockNumber), x402.Hash(found.BlockHash))
	if err != nil || !final {
		return payment.Verdict{}, err
	}
	return payment.Verdict{State: payment.Void, Reason: reason}, nil
}

func (c *Chain) settledBy(ctx context.Context, a x402.Authorization, transfer logEntry) (payment.Verdict, error) {
	block, err := c.headerOf(ctx, x402.Hash(transfer.BlockHash))
	if err != nil {
		return payment.Verdict{}, err
	}
	return payment.Verdict{State: payment.Settled, Receipt: receiptFrom(a, transfer, block)}, nil
}

// receiptFrom is the proof by a transfer's log and its block.
func receiptFrom(a x402.Authorization, transfer logEntry, block header) *payment.Receipt {
	return &payment.Receipt{
		Transaction: x402.Hash(transfer.TransactionHash),
		Block:       uint64(transfer.BlockNumber),
		BlockHash:   x402.Hash(transfer.BlockHash),
		LogIndex:    uint(transfer.LogIndex),
		Payer:       a.From,
		PayTo:       a.To,
		Amount:      a.Value,
		SettledAt:   block.time(),
	}
}

// stateAt is the token's authorizationState at a block.
func (c *Chain) stateAt(ctx context.Context, a x402.Authorization, at header) (bool, error) {
	answer, err := c.ethCall(ctx, x402.StateCall(a.From, a.Nonce), atHash(at.Hash))
	if err != nil {
		return false, fmt.Errorf("read authorization state: %w", err)
	}
	if len(answer) != 32 {
		return false, errors.New("read authorization state: not a word")
	}
	return x402.Hash(answer) != x402.Hash{}, nil
}

// finalHead is the newest block that counts as final; head when both tags are one.
func (c *Chain) finalHead(ctx context.Context, head header) (header, error) {
	if c.config.Finality.Dead == c.config.Finality.Paid {
		return head, nil
	}
	return c.head(ctx, c.config.Finality.Dead)
}

// isFinal reports that a block lies at or below the final head, on its chain.
func (c *Chain) isFinal(ctx context.Context, head header, number uint64, hash x402.Hash) (bool, error) {
	final, err := c.finalHead(ctx, head)
	if err != nil || number > final.Number {
		return false, err
	}
	block, err := c.headerAt(ctx, number)
	return err == nil && block.Hash == hash, err
}

// logEntry is one event of the token.
type logEntry struct {
	Address         common.Address `json:"address"`
	Topics          []common.Hash  `json:"topics"`
	Data            hexutil.Bytes  `json:"data"`
	BlockNumber     hexutil.Uint64 `json:"blockNumber"`
	BlockHash       common.Hash    `json:"blockHash"`
	TransactionHash common.Hash    `json:"transactionHash"`
	LogIndex        hexutil.Uint   `json:"logIndex"`
	Removed         bool           `json:"removed"`
}

// topic is zero when there is none.
func (l logEntry) topic(i int) x402.Hash {
	if i >= len(l.Topics) {
		return x402.Hash{}
	}
	return x402.Hash(l.Topics[i])
}

// moves reports that the event is exactly the authorization's transfer. It is false for nil.
func (l *logEntry) moves(a x402.Authorization) bool {
	return l != nil && l.topic(0) == x402.TopicTransfer && l.topic(1) == a.From.Word() && l.topic(2) == a.To.Word() &&
		new(big.Int).SetBytes(l.Data).Cmp(a.Value.Big()) == 0
}

// takes reports that the event used exactly this authorization's nonce. A node may return logs that were not asked for,
// and another payer's log would mark a settled payment void.
func (l *logEntry) takes(a x402.Authorization) bool {
	kind := l.topic(0)
	return (kind == x402.TopicUsed || kind == x402.TopicCanceled) && l.topic(1) == a.From.Word() && l.topic(2) == a.Nonce
}

// findUse finds the event that used the nonce, or nil when the nodes show none. When a node is silent for one range,
// the next ranges are searched; only when no range has the event, the error is errIncomplete.
func (c *Chain) findUse(ctx context.Context, a x402.Authorization, head header, since time.Time) (*logEntry, error) {
	start, err := c.blockBefore(ctx, head, since)
	if err != nil {
		return nil, err
	}
	var doubt error
	topics := []any{
		[]string{x402.TopicUsed.String(), x402.TopicCanceled.String()}, a.From.Word().String(), a.Nonce.String(),
	}
	for from := start; from <= head.Number; from += c.config.LogRange {
		to := min(from+c.config.LogRange-1, head.Number)
		found, err := c.log(ctx, func(l logEntry) bool { return l.takes(a) }, map[string]any{
			"fromBlock": hexutil.EncodeUint64(from), "toBlock": hexutil.EncodeUint64(to), "topics": topics,
		})
		switch {
		case errors.Is(err, errIncomplete):
			doubt = err
		case err != nil || found != nil:
			return found, err
		}
	}
	return nil, doubt
}

// transferAfter is the payer's transfer logged directly after AuthorizationUsed in the same transaction, or nil. Any
// other transfer belongs to another authorization of the same transaction, and must not count for two.
func (c *Chain) transferAfter(ctx context.Context, a x402.Authorization, used logEntry) (*logEntry, error) {
	return c.log(ctx, directlyAfter(used), map[string]any{
		"blockHash": used.BlockHash.Hex(), "topics": []any{x402.TopicTransfer.String(), a.From.Word().String()},
	})
}

// directlyAfter reports that a log follows another in the same transaction.
func directlyAfter(used logEntry) func(logEntry) bool {
	return func(l logEntry) bool {
		return l.LogIndex == used.LogIndex+1 && l.TransactionHash == used.TransactionHash
	}
}

// log finds the token's event that is wanted, or nil when no node shows it. It asks one node after the other, because
// one may lack what another has.
func (c *Chain) log(
	ctx context.Context, wanted func(logEntry) bool, filter map[string]any,
) (found *logEntry, err error) {
	err = c.askLogs(ctx, filter, func(ours []logEntry) error {
		at := slices.IndexFunc(ours, wanted)
		if at < 0 {
			return errNotFound
		}
		found = &ours[at]
		return nil
	})
	if errors.Is(err, errNotFound) {
		return nil, nil
	}
	return found, err
}

// askLogs queries the token's events, and drops other contracts' events and removed ones.
func (c *Chain) askLogs(ctx context.Context, filter map[string]any, take func(ours []logEntry) error) error {
	filter["address"] = c.config.Domain.Contract.String()
	err := c.pool.callUntil(ctx, func(raw json.RawMessage) error {
		var all []logEntry
		if err := json.Unmarshal(raw, &all); err != nil {
			return err
		}
		return take(slices.DeleteFunc(all, func(l logEntry) bool {
			return l.Removed || x402.Address(l.Address) != c.config.Domain.Contract
		}))
	}, "eth_getLogs", filter)
	if err != nil {
		return fmt.Errorf("read logs: %w", err)
	}
	return nil
}
