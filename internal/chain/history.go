package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// errOtherQuestion says that a node has returned events that were not asked for.
var errOtherQuestion = errors.New("a node answered another question")

// logsIn are the token's events in the blocks from..to that fit. Where there are several nodes, at least two must
// answer: of two answers, an event in either counts; of more, an event in two of them. So no node alone hides an event,
// and of three none alone invents one. With two nodes, the verdict on each payment detects an invented event. The error
// is reconcile.ErrUnwitnessed while too few answer, or when they show different events at one log index.
func (c *Chain) logsIn(
	ctx context.Context, from, to uint64, fits func(logEntry) bool, topics ...any,
) ([]logEntry, error) {
	if len(c.pool.endpoints) == 1 {
		return c.shownIn(ctx, from, to, fits, topics...)
	}
	var answers [][]logEntry
	var errs, tooMuch error
	ask := func(ctx context.Context, one *Chain) ([]logEntry, error) {
		return one.shownIn(ctx, from, to, fits, topics...)
	}
	for _, w := range consultQuorum(ctx, c, c.pool.responsive(c.quorum()), ask, sameLogs) {
		errs = errors.Join(errs, w.err)
		switch {
		case w.err == nil:
			answers = append(answers, w.value)
		case isTooMuch(w.err):
			tooMuch = w.err
		}
	}
	switch {
	case len(answers) >= witnesses:
	case tooMuch != nil && (from < to || len(answers) == 0): // the caller halves the range
		return nil, tooMuch
	case len(answers) == 0:
		return nil, errs
	case tooMuch == nil && len(answers) < c.quorum():
		return nil, unwitnessed(errs)
	}
	return merge(answers)
}

// event is what makes two log entries the same event.
type event struct {
	transaction, block common.Hash
	index              hexutil.Uint
	topics, data       string
}

func (l logEntry) event() event {
	return event{l.TransactionHash, l.BlockHash, l.LogIndex, fmt.Sprint(l.Topics), string(l.Data)}
}

func sameLogs(a, b []logEntry) bool {
	return slices.EqualFunc(a, b, func(a, b logEntry) bool { return a.event() == b.event() })
}

// merge are the events that two of the answers contain; of two answers, those in either.
func merge(answers [][]logEntry) ([]logEntry, error) {
	enough := min(len(answers), witnesses)
	if len(answers) == witnesses {
		enough = 1
	}
	shown := map[event]int{}
	var all []logEntry
	for _, logs := range answers {
		once := map[event]bool{}
		for _, l := range logs {
			event := l.event()
			if once[event] {
				continue
			}
			once[event] = true
			if shown[event]++; shown[event] == enough {
				all = append(all, l)
			}
		}
	}
	slices.SortFunc(all, func(a, b logEntry) int {
		return cmp.Or(cmp.Compare(a.BlockNumber, b.BlockNumber), cmp.Compare(a.LogIndex, b.LogIndex))
	})
	for i := range len(all) - 1 {
		if all[i].BlockNumber == all[i+1].BlockNumber && all[i].LogIndex == all[i+1].LogIndex {
			return nil, unwitnessed(fmt.Errorf("log %d of block %d is two events", all[i].LogIndex, all[i].BlockNumber))
		}
	}
	return all, nil
}

// shownIn are the events of the first node that returns only fitting ones.
func (c *Chain) shownIn(
	ctx context.Context, from, to uint64, fits func(logEntry) bool, topics ...any,
) (found []logEntry, err error) {
	filter := map[string]any{
		"fromBlock": hexutil.EncodeUint64(from), "toBlock": hexutil.EncodeUint64(to), "topics": topics,
	}
	err = c.askLogs(ctx, filter, func(ours []logEntry) error {
		for _, l := range ours {
			if !fits(l) || uint64(l.BlockNumber) < from || uint64(l.BlockNumber) > to {
				return errOtherQuestion
			}
		}
		found = ours
		return nil
	})
	return found, err
}
