package demo

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

// balance reads what an account holds of a token, from the chain itself.
func balance(ctx context.Context, c *http.Client, rpcURL string, token, account x402.Address) (money.USDC, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	word, err := ethCall(ctx, c, rpcURL, token, x402.BalanceCall(account))
	if err != nil {
		return 0, fmt.Errorf("read the balance of %s at %s: %w", account, rpcURL, err)
	}
	n, ok := new(big.Int).SetString(strings.TrimPrefix(word, "0x"), 16)
	if !ok || !n.IsInt64() {
		return 0, fmt.Errorf("read the balance of %s at %s: %q is not an amount; is there a USDC at %s?", account, rpcURL, word, token)
	}
	return money.USDC(n.Int64()), nil
}

func ethCall(ctx context.Context, c *http.Client, rpcURL string, to x402.Address, data []byte) (string, error) {
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "eth_call",
		"params": []any{map[string]string{"to": to.Lower(), "data": "0x" + hex.EncodeToString(data)}, "latest"},
	})
	if err != nil {
		return "", fmt.Errorf("encode the call: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, rpcURL, bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("make the call: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	var answer struct {
		Result string `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&answer); err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	if answer.Error != nil {
		return "", errors.New(answer.Error.Message)
	}
	return answer.Result, nil
}
