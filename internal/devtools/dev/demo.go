package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/roamcard/roamcard/internal/devtools/demo"
	"github.com/roamcard/roamcard/internal/secret"
)

// DemoConfig says where the demo buys and how it tells.
type DemoConfig struct {
	// ReadyFile is a running development server's; empty starts one for the demo.
	ReadyFile           string
	JSON, TTY, ShowCard bool
	Out, Err            io.Writer
}

// Demo buys and shows a card and an eSIM on a development server.
func Demo(ctx context.Context, c DemoConfig) error {
	if c.ReadyFile != "" {
		r, err := ReadReady(c.ReadyFile)
		if err != nil {
			return err
		}
		return c.buy(ctx, r)
	}
	if !c.JSON {
		fmt.Fprintln(c.Err, "Starting a development server: PostgreSQL, a local chain, the sandbox issuer, the service …")
	}
	// The server ends with the demo, and its data is removed.
	r, stop, err := Start(ctx, Config{Addr: "127.0.0.1:0", Log: Logger(c.Err, os.Getenv("ROAMCARD_LOG__LEVEL"))})
	if err != nil {
		return err
	}
	err = c.buy(ctx, r)
	return errors.Join(err, stop())
}

func (c DemoConfig) buy(ctx context.Context, r Ready) error {
	cfg := demo.Config{
		BaseURL: r.BaseURL, RPCURL: r.RPCURL, USDC: r.USDC, PayTo: r.PayTo,
		Out: c.Out, JSON: c.JSON, TTY: c.TTY, ShowCard: c.ShowCard,
	}
	for _, w := range r.Wallets {
		cfg.Wallets = append(cfg.Wallets, secret.New(w.PrivateKey))
	}
	_, err := demo.Run(ctx, cfg)
	return err
}
