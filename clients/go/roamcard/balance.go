package roamcard

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

// USDC is an amount in its smallest unit; Dollars shows it as in "25.000000".
type USDC = money.USDC

// USDCBalance reads what an account holds of USDC from a node of Base.
func USDCBalance(ctx context.Context, rpcURL, account string) (USDC, error) {
	holder, err := x402.ParseAddress(account)
	if err != nil {
		return 0, fmt.Errorf("read the account: %w", err)
	}
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "eth_call",
		"params": []any{map[string]string{"to": BaseUSDC, "data": "0x" + hex.EncodeToString(x402.BalanceCall(holder))},
			"latest"},
	})
	if err != nil {
		return 0, fmt.Errorf("encode the call: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, rpcURL, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("make the call: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := noRedirects.Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask the node: %w", unwrapped(err)) // its address may hold a key
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= http.StatusMultipleChoices && res.StatusCode < http.StatusBadRequest {
		return 0, fmt.Errorf("the node answered %d, and no redirect is followed", res.StatusCode)
	}
	var answer struct {
		Result string `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&answer); err != nil {
		return 0, fmt.Errorf("read the node's answer: %w", err)
	}
	if answer.Error != nil {
		return 0, errors.New("the node says: " + answer.Error.Message)
	}
	n, ok := new(big.Int).SetString(strings.TrimPrefix(answer.Result, "0x"), 16)
	if !ok || !n.IsInt64() {
		return 0, fmt.Errorf("%q is not an amount; is the node one of Base?", answer.Result)
	}
	return USDC(n.Int64()), nil
}
