package invariants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The topics of the token's events.
const (
	topicTransfer = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
	topicUsed     = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5"
	topicCanceled = "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81"
)

// chainBook is what happened to the token, and what the relayers sent.
type chainBook struct {
	// credits are the transfers to who is paid.
	credits []transfer
	// payouts are the transfers from who refunds.
	payouts []payout
	// byHand are the transfers of the transactions by which an operator has concluded a refund.
	byHand []payout
	// used are the authorizations that moved money.
	used []use
	// included are the transactions of attempts that are in a block, by lower-case hash.
	included map[string]inclusion
	// sent counts each relayer's transactions in blocks, by lower-case address.
	sent map[string]int64
	// fresh are the relayers whose every transaction must be stored.
	fresh []string
}

type transfer struct {
	Transaction string
	LogIndex    int64
	From        string
	Value       int64
}

type payout struct {
	Transaction string
	LogIndex    int64
	From, To    string
	Value       int64
}

type use struct {
	Transaction  string
	LogIndex     int64
	Payer, Nonce string
}

type inclusion struct {
	From  string
	Nonce int64
}

// node asks one JSON-RPC endpoint.
type node struct {
	url  string
	http *http.Client
}

type logEntry struct {
	Topics          []string `json:"topics"`
	Data            string   `json:"data"`
	TransactionHash string   `json:"transactionHash"`
	LogIndex        string   `json:"logIndex"`
	Removed         bool     `json:"removed"`
}

func readChain(ctx context.Context, b Books, d database) (chainBook, error) {
	n := node{b.RPCURL, &http.Client{Timeout: 30 * time.Second}}
	book := chainBook{included: map[string]inclusion{}, sent: map[string]int64{}}
	treasuries := b.treasuries()
	for _, r := range d.refunds {
		treasuries[lower(r.Treasury)] = true
	}
	concluded := map[string]bool{}
	for _, c := range d.closings {
		concluded[lower(c.ByHand)] = true
	}
	for _, c := range d.cancels {
		concluded[lower(c.ByHand)] = true
	}
	err := n.eachLog(ctx, b, func(l logEntry) error { return book.enter(l, b.PayTo, treasuries, concluded) })
	if err != nil {
		return book, err
	}
	for _, relayer := range b.Relayers {
		book.fresh = append(book.fresh, strings.ToLower(relayer))
		if err := n.countSent(ctx, relayer, &book); err != nil {
			return book, err
		}
	}
	for _, a := range d.transactions {
		if err := n.readTransaction(ctx, a, &book); err != nil {
			return book, err
		}
	}
	return book, nil
}

// logBlocks is how many blocks are read at once: an answer about all of a flooded chain has no end.
const logBlocks = 32

// eachLog reads the token's logs, up to the block that is the latest now.
func (n node) eachLog(ctx context.Context, b Books, enter func(logEntry) error) error {
	var latest string
	if err := n.call(ctx, &latest, "eth_blockNumber"); err != nil {
		return err
	}
	head, err := number(latest)
	if err != nil {
		return err
	}
	for from := b.FromBlock; from <= uint64(head); from += logBlocks {
		var logs []logEntry
		err := n.call(ctx, &logs, "eth_getLogs", map[string]any{
			"fromBlock": "0x" + strconv.FormatUint(from, 16),
			"toBlock":   "0x" + strconv.FormatUint(min(from+logBlocks-1, uint64(head)), 16), "address": b.USDC,
			"topics": []any{[]string{topicTransfer, topicUsed, topicCanceled}},
		})
		if err != nil {
			return err
		}
		for _, l := range logs {
			if err := enter(l); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *chainBook) enter(l logEntry, payTo string, treasuries, concluded map[string]bool) error {
	if l.Removed || len(l.Topics) != 3 {
		return nil
	}
	index, err := number(l.LogIndex)
	if err != nil {
		return err
	}
	switch l.Topics[0] {
	case topicTransfer:
		from, to := address(l.Topics[1]), address(l.Topics[2])
		byHand := concluded[lower(l.TransactionHash)]
		if !same(to, payTo) && !treasuries[lower(from)] && !byHand {
			return nil
		}
		value, err := number(l.Data)
		if same(to, payTo) {
			c.credits = append(c.credits, transfer{l.TransactionHash, index, from, value})
		}
		if treasuries[lower(from)] {
			c.payouts = append(c.payouts, payout{l.TransactionHash, index, from, to, value})
		}
		if byHand {
			c.byHand = append(c.byHand, payout{l.TransactionHash, index, from, to, value})
		}
		return err
	case topicUsed:
		c.used = append(c.used, use{l.TransactionHash, index, address(l.Topics[1]), l.Topics[2]})
	}
	return nil
}

func (n node) readTransaction(ctx context.Context, a transactionRow, book *chainBook) error {
	for _, hash := range a.Hashes {
		var tx *struct{ From, Nonce, BlockNumber string }
		if err := n.call(ctx, &tx, "eth_getTransactionByHash", hash); err != nil {
			return err
		}
		if tx == nil || tx.BlockNumber == "" {
			continue
		}
		nonce, err := number(tx.Nonce)
		if err != nil {
			return err
		}
		book.included[strings.ToLower(hash)] = inclusion{tx.From, nonce}
	}
	return n.countSent(ctx, a.Relayer, book)
}

func (n node) countSent(ctx context.Context, relayer string, book *chainBook) error {
	if _, known := book.sent[strings.ToLower(relayer)]; known {
		return nil
	}
	var count string
	if err := n.call(ctx, &count, "eth_getTransactionCount", relayer, "latest"); err != nil {
		return err
	}
	sent, err := number(count)
	book.sent[strings.ToLower(relayer)] = sent
	return err
}

func (n node) call(ctx context.Context, into any, method string, params ...any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make %s: %w", method, err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := n.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)) // as much of it as there is
		return fmt.Errorf("%s: %s: %s", method, res.Status, bytes.TrimSpace(why))
	}
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 64<<20)).Decode(&answer); err != nil {
		return fmt.Errorf("read the answer of %s: %w", method, err)
	}
	if answer.Error != nil {
		return fmt.Errorf("%s: %w", method, errors.New(answer.Error.Message))
	}
	if err := json.Unmarshal(answer.Result, into); err != nil {
		return fmt.Errorf("read the answer of %s: %w", method, err)
	}
	return nil
}

// number reads a quantity or a word that fits in 63 bits.
func number(hex string) (int64, error) {
	n, ok := new(big.Int).SetString(strings.TrimPrefix(hex, "0x"), 16)
	if !ok || !n.IsInt64() {
		return 0, fmt.Errorf("%q is not a number of the chain", hex)
	}
	return n.Int64(), nil
}

// address is the address in an indexed word.
func address(word string) string {
	const digits = 40
	if len(word) < digits {
		return word
	}
	return "0x" + word[len(word)-digits:]
}
