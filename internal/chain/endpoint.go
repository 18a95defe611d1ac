package chain

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/rpc"

	"github.com/roamcard/roamcard/internal/outward"
)

// After maxFailures in a row a node is asked last for minPause, twice as long each time, up to maxPause.
const (
	maxFailures = 3
	minPause    = time.Second
	maxPause    = 30 * time.Second
)

// circuit keeps whether a node keeps failing, or lags behind.
type circuit struct {
	mu       sync.Mutex
	failures int
	until    time.Time
	// behind is until when the node counts as lagging; its answers do not end that.
	behind time.Time
}

func (c *circuit) open(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.until) || now.Before(c.behind)
}

// isFailing reports that a node keeps failing.
func (c *circuit) isFailing(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.until)
}

// demote makes a node that shows an old head, or another chain's, the last to be asked for maxPause.
func (c *circuit) demote(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behind = now.Add(maxPause)
}

// isDemoted reports that a node lags, or follows another chain.
func (c *circuit) isDemoted(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.behind)
}

func (c *circuit) succeeded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures, c.until = 0, time.Time{}
}

func (c *circuit) failed(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures++
	if over := c.failures - maxFailures; over >= 0 {
		c.until = now.Add(min(maxPause, minPause<<min(over, 10)))
	}
}

// retryableCodes are JSON-RPC errors of the node, not of the chain: limits, missing methods, internal faults, and
// -32001, anvil's "block not known".
var retryableCodes = []int{-32001, -32005, -32007, -32016, -32029, -32097, -32601, -32603}

// retryableTexts are geth's messages, all with code -32000, for a block that this node does not have.
var retryableTexts = []string{"header not found", "unknown block", "block not found", "beyond current head"}

// codePruned is geth's "pruned history unavailable".
const codePruned = 4444

// prunedTexts are the messages of nodes that have pruned the state or the history of an old block.
var prunedTexts = []string{
	"missing trie node", "historical state", "state not available", "state is not available", "no state available",
	"history unavailable", "pruned", "pruning",
}

// isPruned reports the error of a healthy node that has pruned the block asked for.
func isPruned(err error) bool {
	answer, ok := errors.AsType[rpc.Error](err)
	return ok && (answer.ErrorCode() == codePruned || containsAny(answer.Error(), prunedTexts))
}

// isAnswer reports an error that is the chain's own, the same on every node.
func isAnswer(err error) bool {
	answer, ok := errors.AsType[rpc.Error](err)
	if !ok || slices.Contains(retryableCodes, answer.ErrorCode()) || isPruned(err) {
		return false
	}
	return !containsAny(answer.Error(), retryableTexts)
}

// tooMuchTexts are the messages for a log query that covers too much.
var tooMuchTexts = []string{
	"query returned more than", "response size", "too many results", "block range", "range is too large",
	"range too large", "limited to", "exceeds max",
}

// isTooMuch reports that a node refuses a log query for its size. Any other error of a log query is a failure of the
// node.
func isTooMuch(err error) bool {
	answer, ok := errors.AsType[rpc.Error](err)
	return ok && answer.ErrorCode() != -32603 && containsAny(answer.Error(), tooMuchTexts) &&
		!containsAny(answer.Error(), retryableTexts)
}

// isAnswerTo reports an error that answers the call: a refusal by the contract or the transaction pool, or a log query
// that covers too much. After any other error the next node is asked.
func isAnswerTo(method string, err error) bool {
	switch method {
	case "eth_call", "eth_sendRawTransaction":
		return isAnswer(err)
	case "eth_getLogs":
		return isTooMuch(err)
	default:
		return false
	}
}

// isKnownTransaction reports that a node already has, or had, the transaction. Nodes have no code for it; a message
// that is not listed here only turns a success into a warning.
func isKnownTransaction(err error) bool {
	answer, ok := errors.AsType[rpc.Error](err)
	return ok && containsAny(
		answer.Error(), []string{"already known", "known transaction", "already imported", "nonce too low"},
	)
}

func containsAny(text string, parts []string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// redact drops the URL that net/http puts into its errors, which may contain a key, and the body of an HTTP error.
func redact(err error) error {
	if status, ok := errors.AsType[rpc.HTTPError](err); ok {
		return errors.New("HTTP status " + status.Status)
	}
	return outward.Cause(err)
}

// maxResponse bounds an answer. The largest ones are lists of logs.
const maxResponse = 32 << 20
