package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/secret"
)

// Ready is what the ready file tells: where everything is, and who has money.
type Ready struct {
	BaseURL        string   `json:"baseUrl"`
	ConsoleURL     string   `json:"consoleUrl"`
	RPCURL         string   `json:"rpcUrl"`
	ChainID        int64    `json:"chainId"`
	USDC           string   `json:"usdc"`
	PayTo          string   `json:"payTo"`
	OperatorToken  string   `json:"operatorToken"`
	SandboxURL     string   `json:"sandboxUrl"`
	MetricsURL     string   `json:"metricsUrl"`
	AdminURL       string   `json:"adminUrl,omitempty"`
	OperatorWallet Wallet   `json:"operatorWallet"`
	Wallets        []Wallet `json:"wallets"`
}

// Wallet is a publicly known key of the development chain.
type Wallet struct {
	Address    string `json:"address"`
	PrivateKey string `json:"privateKey"`
	// USDC is what the wallet was given, in dollars.
	USDC string `json:"usdc,omitempty"`
}

// ready describes the server, all but the addresses at which it listens.
func (c Config) ready(cfg app.Config, operatorToken string) Ready {
	operator := devnet.WalletsOf(devnet.RoleOperator)[0]
	r := Ready{
		RPCURL: c.RPCURL, ChainID: devnet.ChainID, USDC: cfg.Asset.String(), PayTo: cfg.PayTo.String(),
		OperatorToken: operatorToken, SandboxURL: c.SandboxURL,
		OperatorWallet: Wallet{Address: operator.Address, PrivateKey: operator.PrivateKey},
	}
	for _, w := range devnet.WalletsOf(devnet.RoleBuyer) {
		r.Wallets = append(r.Wallets, Wallet{
			Address: w.Address, PrivateKey: w.PrivateKey, USDC: money.USDC(w.USDC).Dollars(),
		})
	}
	return r
}

// ReadReady reads the ready file of a running development server.
func ReadReady(path string) (r Ready, err error) {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return Ready{}, fmt.Errorf("read the ready file: %w", err)
	}
	return r, nil
}

// Reconcile lets the running development server that a ready file names compare its books, and tells what it found.
func Reconcile(ctx context.Context, readyFile string, c app.ReconcileConfig) error {
	r, err := ReadReady(readyFile)
	if err != nil {
		return err
	}
	c.URL, c.Token = r.BaseURL, secret.New(r.OperatorToken)
	return app.Reconcile(ctx, c)
}

// writeReady writes the file whole or not at all: whoever waits for it reads it at once.
func writeReady(path string, v any) error {
	if path == "" {
		return nil
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the ready file: %w", err)
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the ready file: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write the ready file: %w", err)
	}
	return nil
}

func banner(w io.Writer, readyFile string, r Ready) {
	if w == nil {
		return
	}
	fmt.Fprintf(w, `
  roamcard development server — loopback only, no real money, every key is public

  API             %s
  Console         %s
  OpenAPI         %s/api/openapi.json
  Chain (8453)    %s
  Sandbox issuer  %s/control/books
  Metrics         %s
  Operator token  %s
  Demo wallet     %s with %s USDC

  Compare the books:  roamcard reconcile --ready-file %s
  Try:  roamcard demo   or
        curl -i -X POST %s/api/card/purchase -H 'content-type: application/json' -d '{"idempotencyKey":"first"}'

`, r.BaseURL, r.ConsoleURL, r.BaseURL, r.RPCURL, r.SandboxURL, r.MetricsURL, r.OperatorToken, r.Wallets[0].Address,
		r.Wallets[0].USDC, readyFile, r.BaseURL)
}
