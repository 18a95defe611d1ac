package simulation_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/testing/simulation/node"
	"github.com/roamcard/roamcard/internal/x402"
)

// liar is a node that may be false: what it is asked for goes through the lies that it tells now.
type liar struct {
	name string
	node *node.Node
	seed uint64

	mu sync.Mutex
	// lies are those that it tells now, in its n-th time, and often in how many of a hundred cases.
	lies  []lie
	nth   int
	often int
	// stuck is the head that it shows, and seen are the authorizations that it has lied about.
	stuck string
	seen  map[x402.Hash]bool
	calls map[string]uint64
}

// lie answers a question in its own way. truth asks the node.
type lie func(l *liar, q *question, truth func() reply) reply

// question is one call to a node.
type question struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
	// rng has dice of the question and of how often it was asked; the liar's steady has those of a subject alone.
	rng *rand.Rand
	// gone is closed when nobody waits for the answer.
	gone <-chan struct{}
}

// reply is what a node answers, as a JSON object.
type reply map[string]json.RawMessage

// lies are the ways in which real nodes are false.
var lies = map[string]lie{
	"lacks transactions":   lacksTransactions,
	"shows no transfers":   showsNoTransfers,
	"shows nothing used":   showsNothingUsed,
	"shows payments":       showsPayments,
	"shows cancellations":  showsCancellations,
	"shows reverts":        showsReceipts("0x0"),
	"shows inclusions":     showsReceipts("0x1"),
	"counts too many":      counts(func(n uint64, rng *rand.Rand) uint64 { return n + 1<<rng.IntN(14) }),
	"counts too few":       counts(func(n uint64, rng *rand.Rand) uint64 { return n - min(n, uint64(1+rng.IntN(4))) }),
	"answers errors":       answersErrors,
	"refuses":              refuses,
	"forgets what is sent": forgetsWhatIsSent,
	"shows code":           showsCode,
	"shows no money":       showsNoMoney,
	"is stuck":             isStuck,
	"does not answer":      doesNotAnswer,
	// It is ahead then.
	"shows blocks of tomorrow": func(_ *liar, _ *question, truth func() reply) reply { return truth() },
}

// turnedAway notes that a payment was refused with which nothing was wrong. One that is nearly over may be, and so may
// what strangers send and what is bought of what has bounds.
func (p *purchase) turnedAway(header string, a answer) {
	nearly := payment.MinMargin + p.of.world.plan.skew + time.Second
	pay, err := x402.DecodeAnyPayment(header)
	if of := p.of.world.plan; of.strangers > 0 || of.owners || of.bounded {
		return
	}
	if p.odd || p.of.cheated || err != nil || a.body.Code != "payment_rejected" ||
		uint64(time.Now().Add(nearly).Unix()) > pay.Authorization.ValidBefore {
		return
	}
	p.of.world.note("a good payment of %s for %s is refused", p.of.address, p.key)
}

const (
	// longestLie is how long a node is false at most, and farthestAhead how many blocks it is ahead at most.
	longestLie    = 20 * time.Second
	farthestAhead = 5000
)

// newLiars are the nodes of a world, which all tell the truth.
func (w *world) newLiars() (all []*liar) {
	for i := range w.plan.nodes {
		all = append(all, &liar{name: nodeName(i), node: w.chain.Node(nodeName(i)), seed: w.plan.seed})
	}
	return all
}

// deceive lets one node at a time be false, until it is over. In some worlds it is always the same one, to the end.
func (w *world) deceive(over <-chan struct{}) {
	always := -1
	rng := diceOf(w.plan.seed, 4)
	names := slices.Sorted(maps.Keys(lies))
	pauses := float64(time.Minute) / w.plan.lies
	var kept []string
	if w.plan.liar {
		over, always, pauses = w.ending, min(rng.IntN(len(w.liars)), rng.IntN(len(w.liars))), 0
	}
	for nth := 1; pause(time.Duration(rng.ExpFloat64()*pauses)+1, over); nth++ {
		// The first of them, which is asked first, more often.
		l := w.liars[min(rng.IntN(len(w.liars)), rng.IntN(len(w.liars)))]
		if always >= 0 {
			l = w.liars[always]
		}
		var told []string
		for range 1 + rng.IntN(3) {
			told = append(told, names[rng.IntN(len(names))])
		}
		if always >= 0 {
			if kept == nil {
				kept = told
			}
			told = kept
		}
		often := 100 >> rng.IntN(3)
		w.bus.note("%s %s in %d of 100 cases", l.name, strings.Join(told, ", "), often)
		l.begin(told, nth, often)
		pause(time.Duration(rng.Int64N(int64(longestLie))), over)
		l.end()
		w.bus.note("%s tells the truth", l.name)
	}
}

func (l *liar) begin(told []string, nth, often int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range told {
		l.lies = append(l.lies, lies[name])
	}
	l.nth, l.often, l.stuck = nth, often, ""
	l.seen, l.calls = map[x402.Hash]bool{}, map[string]uint64{}
	if slices.Contains(told, "shows blocks of tomorrow") {
		l.node.Lag(-1 - l.dice("ahead", 0).IntN(farthestAhead))
	}
}

func (l *liar) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lies = nil
	l.node.Honest()
	l.node.Lag(0)
}

// ServeHTTP implements http.Handler.
func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	l.mu.Lock()
	told := l.lies
	l.mu.Unlock()
	q := &question{gone: r.Context().Done()}
	if len(told) == 0 || json.Unmarshal(body, q) != nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
		l.node.ServeHTTP(w, r)
		return
	}
	l.mu.Lock()
	asked := q.Method + string(mustJSON(q.Params))
	l.calls[asked]++
	q.rng = l.dice(asked, l.calls[asked])
	l.mu.Unlock()
	answer := func() reply { return l.truth(q) }
	for _, one := range told {
		next := answer
		if q.rng.IntN(100) < l.often {
			answer = func() reply { return one(l, q, next) }
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(mustJSON(answer()))
}

// truth is what the node answers.
func (l *liar) truth(q *question) (a reply) {
	asked := mustJSON(map[string]any{"jsonrpc": "2.0", "id": q.ID, "method": q.Method, "params": q.Params})
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(asked))
	w := httptest.NewRecorder()
	l.node.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		panic(err) // the node wrote it
	}
	return a
}

// dice are those of a question, and steady those of a subject for as long as the node is false this time.
func (l *liar) dice(of string, nth uint64) *rand.Rand {
	sum := fnv.New64a()
	fmt.Fprint(sum, l.name, l.nth, of)
	return diceOf(l.seed^sum.Sum64(), nth)
}

func (l *liar) steady(subject string) bool { return l.dice(subject, 0).IntN(100) < l.often }

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is made of what was read
	}
	return text
}

func (q *question) tell(result any) reply {
	return reply{"jsonrpc": json.RawMessage(`"2.0"`), "id": q.ID, "result": mustJSON(result)}
}

func (q *question) fail(code int, message, data string) reply {
	return reply{
		"jsonrpc": json.RawMessage(`"2.0"`), "id": q.ID,
		"error": mustJSON(devnet.Refusal{Code: code, Message: message, Data: data}),
	}
}

// called is the data of an eth_call or of a transaction that is sent; nil for anything else.
func (q *question) called() []byte {
	if len(q.Params) == 0 {
		return nil
	}
	switch q.Method {
	case "eth_call":
		var of struct{ Data, Input hexutil.Bytes }
		_ = json.Unmarshal(q.Params[0], &of)
		return slices.Concat(of.Data, of.Input)
	case "eth_sendRawTransaction":
		var raw hexutil.Bytes
		tx := new(types.Transaction)
		if json.Unmarshal(q.Params[0], &raw) == nil && tx.UnmarshalBinary(raw) == nil {
			return tx.Data()
		}
	}
	return nil
}

// isStateCall reports that the use of an authorization is asked for.
func isStateCall(call []byte) bool {
	return len(call) >= 4 && bytes.Equal(call[:4], x402.StateCall(x402.Address{}, x402.Hash{})[:4])
}

// logsOf are the logs of an answer.
func logsOf(list json.RawMessage) (all []map[string]any) {
	_ = json.Unmarshal(list, &all) // what is no list stays empty
	return all
}

func topic(l map[string]any, n int) string {
	topics, _ := l["topics"].([]any)
	if n >= len(topics) {
		return ""
	}
	text, _ := topics[n].(string)
	return text
}

// withoutLogs leaves out logs, of a list or of a receipt.
func withoutLogs(q *question, a reply, drop func(map[string]any) bool) reply {
	switch q.Method {
	case "eth_getLogs":
		if a["error"] == nil {
			a["result"] = mustJSON(slices.DeleteFunc(logsOf(a["result"]), drop))
		}
	case "eth_getTransactionReceipt":
		var receipt map[string]json.RawMessage
		if json.Unmarshal(a["result"], &receipt) == nil && receipt != nil {
			receipt["logs"] = mustJSON(slices.DeleteFunc(logsOf(receipt["logs"]), drop))
			a["result"] = mustJSON(receipt)
		}
	}
	return a
}

// lacksTransactions is an index that lags, or was pruned.
func lacksTransactions(l *liar, q *question, truth func() reply) reply {
	if q.Method == "eth_getTransactionReceipt" || q.Method == "eth_getTransactionByHash" {
		if l.steady(string(q.Params[0])) {
			return q.tell(nil)
		}
		return truth()
	}
	return withoutLogs(q, truth(), func(one map[string]any) bool {
		hash, _ := one["transactionHash"].(string)
		return l.steady(`"` + hash + `"`)
	})
}

func showsNoTransfers(_ *liar, q *question, truth func() reply) reply {
	return withoutLogs(q, truth(), func(one map[string]any) bool { return topic(one, 0) == x402.TopicTransfer.String() })
}

func showsNothingUsed(_ *liar, q *question, truth func() reply) reply {
	if isStateCall(q.called()) {
		return q.tell(common.Hash{})
	}
	return withoutLogs(q, truth(), func(one map[string]any) bool { return topic(one, 0) == x402.TopicUsed.String() })
}

// showsPayments shows the payments that it hears of as made.
func showsPayments(l *liar, q *question, truth func() reply) reply {
	if a, _, ok := x402.TransferOf(q.called()); ok && l.hears(a.Nonce) {
		l.node.Forge(a)
	}
	return truth()
}

// showsCancellations shows the authorizations that it hears of as cancelled.
func showsCancellations(l *liar, q *question, truth func() reply) reply {
	call := q.called()
	a, _, ok := x402.TransferOf(call)
	if isStateCall(call) {
		a.From, a.Nonce, ok = x402.Address(call[16:36]), x402.Hash(call[36:68]), true
	}
	if ok && l.hears(a.Nonce) {
		l.node.ForgeCancel(a)
	}
	return truth()
}

// hears is true for what it lies about, the first time.
func (l *liar) hears(nonce x402.Hash) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	heard := l.seen[nonce]
	l.seen[nonce] = true
	return !heard && l.steady(nonce.String())
}

// showsReceipts gives each transaction a status: one that is in no block is in the latest one.
func showsReceipts(status string) lie {
	return func(l *liar, q *question, truth func() reply) reply {
		if q.Method != "eth_getTransactionReceipt" {
			return truth()
		}
		a := truth()
		var receipt map[string]any
		if json.Unmarshal(a["result"], &receipt) == nil && receipt != nil {
			receipt["status"] = status
			return q.tell(receipt)
		}
		head := l.truth(&question{
			ID: q.ID, Method: "eth_getBlockByNumber",
			Params: []json.RawMessage{json.RawMessage(`"latest"`), json.RawMessage("false")},
		})
		var block struct{ Number, Hash string }
		_ = json.Unmarshal(head["result"], &block)
		return q.tell(map[string]any{
			"transactionHash": q.Params[0], "transactionIndex": "0x0", "blockHash": block.Hash, "blockNumber": block.Number,
			"status": status, "gasUsed": "0x15f90", "cumulativeGasUsed": "0x15f90", "effectiveGasPrice": "0x5b8d80",
			"type": "0x2", "logs": []any{}, "logsBloom": types.Bloom{}, "contractAddress": nil,
		})
	}
}

// counts makes another number of how many transactions an account has sent.
func counts(other func(uint64, *rand.Rand) uint64) lie {
	return func(_ *liar, q *question, truth func() reply) reply {
		a := truth()
		var n hexutil.Uint64
		if q.Method != "eth_getTransactionCount" || json.Unmarshal(a["result"], &n) != nil {
			return a
		}
		return q.tell(hexutil.Uint64(other(uint64(n), q.rng)))
	}
}

// gibberish are errors of nodes that say nothing about what was asked for.
var gibberish = []devnet.Refusal{
	{Code: -32000, Message: "internal error"}, {Code: -32602, Message: "invalid argument 0"},
	{Code: -32603, Message: "Internal error"}, {Code: -32000, Message: "header not found"},
	{Code: -32005, Message: "over rate limit"}, {Code: -32000, Message: "method handler crashed"},
}

func answersErrors(_ *liar, q *question, _ func() reply) reply {
	e := gibberish[q.rng.IntN(len(gibberish))]
	return q.fail(e.Code, e.Message, e.Data)
}

// refuses lets no transfer pass.
func refuses(_ *liar, q *question, truth func() reply) reply {
	call := q.called()
	if len(call) < 4 || isStateCall(call) || q.Method == "eth_call" && len(call) < 4+6*32 {
		return truth()
	}
	if q.Method == "eth_sendRawTransaction" {
		return q.fail(-32000, "insufficient funds for gas * price + value", "")
	}
	const poor = "ERC20: transfer amount exceeds balance"
	return q.fail(3, "execution reverted: "+poor, hexutil.Encode(revert(poor)))
}

// revert is how a contract says why it reverts.
func revert(reason string) []byte {
	data := slices.Concat([]byte{0x08, 0xc3, 0x79, 0xa0}, make([]byte, 64), common.RightPadBytes([]byte(reason), 64))
	data[4+31], data[4+63] = 32, byte(len(reason))
	return data
}

// forgetsWhatIsSent takes transactions and keeps none of them.
func forgetsWhatIsSent(_ *liar, q *question, truth func() reply) reply {
	var raw hexutil.Bytes
	tx := new(types.Transaction)
	if q.Method != "eth_sendRawTransaction" || json.Unmarshal(q.Params[0], &raw) != nil || tx.UnmarshalBinary(raw) != nil {
		return truth()
	}
	return q.tell(tx.Hash())
}

// showsCode shows code where there is none, and none where there is.
func showsCode(_ *liar, q *question, truth func() reply) reply {
	if q.Method != "eth_getCode" {
		return truth()
	}
	if a := truth(); string(a["result"]) == `"0x"` {
		return q.tell("0xef0100" + strings.Repeat("5a", 20))
	}
	return q.tell("0x")
}

func showsNoMoney(_ *liar, q *question, truth func() reply) reply {
	if call := q.called(); len(call) >= 4 && bytes.Equal(call[:4], x402.BalanceCall(x402.Address{})[:4]) {
		return q.tell(common.Hash{})
	}
	if q.Method == "eth_getBalance" {
		return q.tell("0x0")
	}
	return truth()
}

// isStuck shows the head that it showed first, and answers freshly otherwise.
func isStuck(l *liar, q *question, truth func() reply) reply {
	if q.Method != "eth_getBlockByNumber" || len(q.Params) == 0 || string(q.Params[0]) != `"latest"` {
		return truth()
	}
	l.mu.Lock()
	at := l.stuck
	l.mu.Unlock()
	if at != "" {
		q.Params = slices.Concat([]json.RawMessage{json.RawMessage(`"` + at + `"`)}, q.Params[1:])
		return truth()
	}
	a := truth()
	var block struct{ Number string }
	if json.Unmarshal(a["result"], &block) == nil {
		l.mu.Lock()
		l.stuck = block.Number
		l.mu.Unlock()
	}
	return a
}

func doesNotAnswer(_ *liar, q *question, truth func() reply) reply {
	pause(longestLie, q.gone)
	return truth()
}
