package roamcard

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

	"github.com/roamcard/roamcard/internal/x402"
)

// What is asked of the caller's own node.
const (
	// blockTime is Base's, and searchSlack how many blocks more are searched for an authorization's event.
	blockTime   = 2
	searchSlack = 1_000
	logRange    = 5_000
)

// prove marks what the chain shows to be void of a purchase, when there is a node to ask. What cannot be
// asked stays as it is.
func (p *Payer) prove(ctx context.Context, c call) {
	if p.RPCURL == "" {
		return
	}
	if b, err := p.Store.Read(ctx); err == nil {
		p.proveEntry(ctx, c.id, b.Purchases[c.id])
	}
}

func (p *Payer) proveEntry(ctx context.Context, id string, e Entry) {
	voids := map[int]string{}
	for i, a := range e.Authorizations {
		if (e.State == Refused || e.State == Signed) && a.Void == "" {
			if reason, err := p.voided(ctx, e, a); err == nil && reason != "" {
				voids[i] = reason
			}
		}
	}
	if len(voids) > 0 {
		_ = p.journal().void(ctx, id, voids) // asked again the next time
	}
}

// voided says why the chain can never take an authorization, as of a block that nothing undoes; empty when it
// could, or has.
func (p *Payer) voided(ctx context.Context, e Entry, a SignedAuthorization) (string, error) {
	var block struct {
		Number    string `json:"number"`
		Timestamp string `json:"timestamp"`
	}
	if err := p.rpc(ctx, &block, "eth_getBlockByNumber", "safe", false); err != nil {
		return "", err
	}
	number, err1 := quantity(block.Number)
	at, err2 := quantity(block.Timestamp)
	payer, err3 := x402.ParseAddress(e.Payer)
	nonce, err4 := x402.ParseHash(a.Nonce)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return "", err
	}
	asset := p.Policy.asset()
	var used string
	call := map[string]any{"to": asset, "data": fmt.Sprintf("0x%x", x402.StateCall(payer, nonce))}
	if err := p.rpc(ctx, &used, "eth_call", call, block.Number); err != nil {
		return "", err
	}
	if word, ok := new(big.Int).SetString(strings.TrimPrefix(used, "0x"), 16); !ok {
		return "", errors.New("the node did not answer with a word")
	} else if word.Sign() != 0 {
		return p.usedFor(ctx, a, nonce, payer, number, at)
	}
	if int64(at) > a.ValidBefore {
		return VoidExpired, nil
	}
	return "", nil
}

// deployed refuses an account that has no code, when there is a node to ask. What it does not answer is left to the
// service.
func (p *Payer) deployed(ctx context.Context, account x402.Address) error {
	if p.RPCURL == "" {
		return nil
	}
	var code string
	if err := p.rpc(ctx, &code, "eth_getCode", account.String(), "latest"); err == nil && code == "0x" {
		return denied(ErrNotDeployed, "%s has no code; deploy it first", account)
	}
	return nil
}

// event is one log of the token.
type event struct {
	Topics          []string `json:"topics"`
	Data            string   `json:"data"`
	TransactionHash string   `json:"transactionHash"`
	LogIndex        string   `json:"logIndex"`
}

// usedFor finds what a nonce was used for. A transfer of the amount is the payment itself, so it is not void.
func (p *Payer) usedFor(
	ctx context.Context, a SignedAuthorization, nonce x402.Hash, payer x402.Address, head, at uint64,
) (string, error) {
	from := head - min(head, uint64(max(0, int64(at)-a.SignedAt))/blockTime+searchSlack)
	topics := []any{[]string{x402.TopicUsed.String(), x402.TopicCanceled.String()}, payer.Word().String(), nonce.String()}
	for ; from <= head; from += logRange {
		var found []event
		filter := map[string]any{
			"address": p.Policy.asset(), "topics": topics,
			"fromBlock": "0x" + strconv.FormatUint(from, 16),
			"toBlock":   "0x" + strconv.FormatUint(min(from+logRange-1, head), 16),
		}
		if err := p.rpc(ctx, &found, "eth_getLogs", filter); err != nil {
			return "", err
		}
		if len(found) == 0 || len(found[0].Topics) == 0 {
			continue
		}
		if found[0].Topics[0] == x402.TopicCanceled.String() {
			return VoidCancelled, nil
		}
		return p.movedElse(ctx, found[0], payer, a.Amount)
	}
	return "", nil
}

// movedElse reads the transfer that comes directly after an authorization's use.
func (p *Payer) movedElse(ctx context.Context, used event, payer x402.Address, amount int64) (string, error) {
	var receipt struct {
		Logs []event `json:"logs"`
	}
	if err := p.rpc(ctx, &receipt, "eth_getTransactionReceipt", used.TransactionHash); err != nil {
		return "", err
	}
	at, err := quantity(used.LogIndex)
	if err != nil {
		return "", err
	}
	for _, l := range receipt.Logs {
		index, err := quantity(l.LogIndex)
		if err != nil || index != at+1 || len(l.Topics) != 3 || l.Topics[0] != x402.TopicTransfer.String() ||
			l.Topics[1] != payer.Word().String() {
			continue
		}
		moved, ok := new(big.Int).SetString(strings.TrimPrefix(l.Data, "0x"), 16)
		if ok && moved.Cmp(big.NewInt(amount)) != 0 {
			return VoidUsedElsewhere, nil
		}
	}
	return "", nil
}

func (p *Payer) rpc(ctx context.Context, result any, method string, params ...any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("encode the question: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.RPCURL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the node's address is not a URL") // it may hold a key
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := noRedirects.Do(req)
	if err != nil {
		return errors.New("the node does not answer")
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return errors.New("the node does not answer")
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(data, &answer); err != nil || len(answer.Result) == 0 || string(answer.Result) == "null" {
		return fmt.Errorf("the node does not answer %s", method)
	}
	return json.Unmarshal(answer.Result, result)
}

// noRedirects asks the node that was named, and no other.
var noRedirects = &http.Client{
	Transport:     network(),
	Timeout:       time.Minute,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func quantity(text string) (uint64, error) {
	return strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
}
