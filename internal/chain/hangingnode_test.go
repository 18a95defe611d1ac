package chain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/x402"
)

// latency is how long a simulated node takes for an answer, skew how long one that is behind takes longer than the
// others to show a block, and hang how long one that hangs takes for an answer.
const (
	latency = 10 * time.Millisecond
	skew    = 200 * time.Millisecond
	hang    = 3 * time.Second
)

var simulatedDomain = x402.Domain{Name: "USD Coin", Version: "2", ChainID: 8453, Contract: x402.Address{19: 0xc0}}

// simulation is a chain of which several nodes answer in a bubble's time. Each transaction is a block of its own.
type simulation struct {
	mu   sync.Mutex
	sent []sentTransaction
	// hangs and behind are the hosts of nodes.
	hangs, behind string
}

type sentTransaction struct {
	hash  common.Hash
	payer x402.Address
	words []byte
	at    time.Time
}

// RoundTrip implements http.RoundTripper.
func (s *simulation) RoundTrip(r *http.Request) (*http.Response, error) {
	var q struct {
		ID     json.RawMessage
		Method string
		Params []json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, err
	}
	s.mu.Lock()
	takes := latency
	if r.URL.Host == s.hangs {
		takes = hang
	}
	s.mu.Unlock()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(takes):
	}
	result, err := json.Marshal(s.answer(r.URL.Host, q.Method, q.Params))
	if err != nil {
		return nil, err
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

// blockNumber is the number of the block that a simulated node has before any transaction.
const blockNumber = 100

func (s *simulation) answer(host, method string, params []json.RawMessage) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := s.sent
	if host == s.behind {
		shown = slices.DeleteFunc(slices.Clone(shown), func(t sentTransaction) bool { return time.Since(t.at) < skew })
	}
	switch method {
	case "eth_chainId":
		return "0x2105"
	case "eth_getBlockByNumber", "eth_getBlockByHash":
		return block(params[0], len(shown))
	case "eth_call":
		return s.call(params[0], shown)
	case "eth_getCode":
		return "0x"
	case "eth_getBalance":
		return "0xde0b6b3a7640000"
	case "eth_maxPriorityFeePerGas":
		return "0x1"
	case "eth_getTransactionCount":
		if host == s.behind { // it never has the newest, so that the counts differ whenever they are read
			return hexutil.Uint64(max(0, len(s.sent)-1))
		}
		return hexutil.Uint64(len(s.sent))
	case "eth_getLogs":
		return logsOf(params[0], shown)
	case "eth_sendRawTransaction":
		return s.take(params[0])
	default:
		return nil
	}
}

func block(named json.RawMessage, transactions int) any {
	number := hexutil.Uint64(blockNumber + transactions)
	if name := strings.Trim(string(named), `"`); strings.HasPrefix(name, "0x") {
		n := hexutil.Uint64(common.HexToHash(name).Big().Uint64())
		if n > number {
			return nil
		}
		number = n
	}
	return map[string]any{
		"number": number, "hash": hashOf(number), "timestamp": hexutil.Uint64(time.Now().Unix()), "baseFeePerGas": "0x1",
	}
}

func hashOf(block hexutil.Uint64) common.Hash {
	return common.BigToHash(hexutil.MustDecodeBig(block.String()))
}

func (s *simulation) call(param json.RawMessage, shown []sentTransaction) any {
	var call struct{ Data hexutil.Bytes }
	_ = json.Unmarshal(param, &call) // without data it is a transfer that succeeds
	switch {
	case bytes.Equal(call.Data, x402.SeparatorCall()):
		separator := simulatedDomain.Separator()
		return hexutil.Bytes(separator[:])
	case len(call.Data) == 4+2*32: // authorizationState
		used := make([]byte, 32)
		for _, t := range shown {
			if bytes.Equal(call.Data[16:36], t.payer[:]) && bytes.Equal(call.Data[36:68], t.words[5*32:6*32]) {
				used[31] = 1
			}
		}
		return hexutil.Bytes(used)
	default:
		return "0x"
	}
}

// logsOf are the two events of each transaction that fit the first topics asked for and the payer.
func logsOf(param json.RawMessage, shown []sentTransaction) any {
	logs := []any{}
	for i, t := range shown {
		if !bytes.Contains(param, []byte(t.payer.Word().String())) {
			continue
		}
		number := hexutil.Uint64(blockNumber + 1 + i)
		for index, topics := range [][]common.Hash{
			{common.Hash(x402.TopicUsed), common.Hash(t.payer.Word()), common.Hash(t.words[5*32 : 6*32])},
			{common.Hash(x402.TopicTransfer), common.Hash(t.payer.Word()), common.Hash(t.words[32 : 2*32])},
		} {
			if bytes.Contains(param, []byte(topics[0].Hex())) {
				logs = append(logs, map[string]any{
					"address": simulatedDomain.Contract.String(), "topics": topics, "data": hexutil.Bytes(t.words[2*32 : 3*32]),
					"blockNumber": number, "blockHash": hashOf(number), "transactionHash": t.hash, "logIndex": hexutil.Uint(index),
				})
			}
		}
	}
	return logs
}

func (s *simulation) take(param json.RawMessage) any {
	var raw hexutil.Bytes
	var tx types.Transaction
	if json.Unmarshal(param, &raw) != nil || tx.UnmarshalBinary(raw) != nil {
		return nil
	}
	paid, _, pays := x402.TransferOf(tx.Data())
	known := slices.ContainsFunc(s.sent, func(t sentTransaction) bool { return t.hash == tx.Hash() })
	if pays && !known {
		s.sent = append(s.sent, sentTransaction{tx.Hash(), paid.From, tx.Data()[4:], time.Now()})
	}
	return tx.Hash()
}

// open connects to the simulation's nodes, and makes a relayer on it.
func (s *simulation) open(t *testing.T, hosts []string) (*Chain, *Relayer) {
	t.Helper()
	var endpoints []Endpoint
	for _, h := range hosts {
		endpoints = append(endpoints, Endpoint{URL: "https://" + h})
	}
	c, err := New(t.Context(), Config{
		Endpoints: endpoints, Domain: simulatedDomain, Now: time.Now, Through: &http.Client{Transport: s},
	})
	if err != nil {
		t.Fatal(err)
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRelayer(RelayerConfig{
		Chain: c, Transactions: paymenttest.NewTransactions(time.Now), Keys: []payment.Signer{curve.NewLocalSigner(key)},
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, r
}

// purchase asks what one purchase asks, until the payment is settled, and returns how long that took.
func (s *simulation) purchase(t *testing.T, c *Chain, r *Relayer, n byte) time.Duration {
	t.Helper()
	begin := time.Now()
	a := x402.Authorization{
		From: x402.Address{0: 0xbb, 19: n}, To: x402.Address{0: 0xee}, Value: 25_000_000,
		ValidBefore: uint64(begin.Add(time.Hour).Unix()), Nonce: x402.Hash{31: n},
	}
	p := payment.Payment{
		ID: uuid.New(), Status: payment.Claimed, Authorization: a, CreatedAt: begin,
		Signature: x402.KeySignature(make([]byte, 64), 0),
	}
	head, err := c.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.TransfersFrom(t.Context(), a.From, a.To, head, head); err != nil {
		t.Fatal(err)
	}
	if err := AsRelayer(c, r).Simulate(t.Context(), a, p.Signature); err != nil {
		t.Fatal(err)
	}
	for {
		verdict, err := c.Verdict(t.Context(), a, begin)
		switch {
		case err != nil:
			t.Fatal(err)
		case verdict.State == payment.Settled:
			return time.Since(begin)
		case verdict.State == payment.Unused:
			if err := r.Submit(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(latency)
	}
}

// TestPurchaseDoesNotWaitForHangingNode buys while one node of three begins to hang, and while another shows blocks
// later than the third.
func TestPurchaseDoesNotWaitForHangingNode(t *testing.T) {
	hosts := []string{"first", "second", "third"}
	for i, hanging := range hosts {
		for _, behind := range []string{"", hosts[(i+1)%3], hosts[(i+2)%3]} {
			t.Run(fmt.Sprintf("%s hangs, %s is behind", hanging, behind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &simulation{behind: behind}
					c, r := s.open(t, hosts)
					defer c.Close()
					s.purchase(t, c, r, 1)
					time.Sleep(gasFor) // what is cached is read again
					quiet := s.purchase(t, c, r, 2)
					time.Sleep(gasFor)
					s.mu.Lock()
					s.hangs = hanging
					s.mu.Unlock()
					first := s.purchase(t, c, r, 3)
					next := s.purchase(t, c, r, 4)
					t.Logf("quiet %s, the first %s, the next %s", quiet, first, next)
					if limit := quiet + tooSlow + 2*skew; first > limit {
						t.Errorf("the first purchase takes %s, want %s at most", first, limit)
					}
					if limit := quiet + 2*skew; next > limit {
						t.Errorf("the next purchase takes %s, want %s at most", next, limit)
					}
				})
			})
		}
	}
}

// TestComparisonIsWaitedForAsLongAsThereIsTime: who compares a node's chain with earlier blocks asks that node, and
// those who come meanwhile have deadlines of their own.
func TestComparisonIsWaitedForAsLongAsThereIsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{}
		c, _ := s.open(t, []string{"only"})
		defer c.Close()
		at := func(number uint64) tip {
			return tip{c.pool.endpoints[0], header{Number: number, Hash: x402.Hash(hashOf(hexutil.Uint64(number)))}}
		}
		if _, err := c.unsettledUntil(t.Context(), at(blockNumber)); err != nil {
			t.Fatal(err)
		}
		s.hangs = "only"
		go func() { _, _ = c.unsettledUntil(t.Context(), at(blockNumber+1)) }() // as long as the node hangs
		synctest.Wait()
		const least = 100 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), least)
		defer cancel()
		begin := time.Now()
		if _, err := c.unsettledUntil(ctx, at(blockNumber+1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("compared: %v", err)
		}
		if took := time.Since(begin); took != least {
			t.Errorf("waited for %s, want %s", took, least)
		}
	})
}
