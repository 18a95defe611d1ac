package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
)

// ChainConfig is the development chain run alone.
type ChainConfig struct {
	Port           int
	Dir, ReadyFile string
	// OnlyEvery makes transactions wait for the next block.
	OnlyEvery bool
	Log       *slog.Logger
	Out       io.Writer
}

// RunChain runs the development chain until ctx ends.
func RunChain(ctx context.Context, c ChainConfig) (err error) {
	chain, err := devnet.StartChain(ctx, devnet.ChainConfig{
		Dir: c.Dir, Port: c.Port, BlockEvery: blockTime, OnlyEvery: c.OnlyEvery, Log: c.Log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, chain.Close()) }()
	if err := writeReady(c.ReadyFile, struct {
		RPCURL  string `json:"rpcUrl"`
		ChainID int64  `json:"chainId"`
		USDC    string `json:"usdc"`
	}{chain.RPCURL, chain.ChainID, chain.USDC}); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "chain %d at %s, USDC at %s\n", chain.ChainID, chain.RPCURL, chain.USDC)
	select {
	case <-ctx.Done():
		return nil
	case <-chain.Done():
		return errors.New("the chain stopped by itself")
	}
}

// SandboxConfig is the sandbox run alone.
type SandboxConfig struct {
	Addr, Dir, ReadyFile string
	// SpendLimits makes the issuer open cards with spending limits.
	SpendLimits bool
	Log         *slog.Logger
}

// Sandbox is a sandbox that listens.
type Sandbox struct {
	URL    string
	server *http.Server
	books  *sandbox.Server
	done   chan error
}

// StartSandbox starts the sandbox providers on a loopback address, and next to them the fakes of real issuers and
// suppliers.
func StartSandbox(c SandboxConfig) (*Sandbox, error) {
	if err := loopback(c.Addr); err != nil {
		return nil, err
	}
	books, err := sandbox.NewServer(sandbox.Config{Dir: c.Dir, SpendLimits: c.SpendLimits, Log: c.Log, Now: time.Now})
	if err != nil {
		return nil, fmt.Errorf("open the books: %w", err)
	}
	all, err := WithVendors(books, c.Dir, c.Log)
	if err != nil {
		return nil, errors.Join(err, books.Close())
	}
	listener, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), books.Close())
	}
	s := &Sandbox{
		URL: "http://" + listener.Addr().String(), books: books, done: make(chan error, 1),
		server: &http.Server{Handler: all, ReadHeaderTimeout: 5 * time.Second},
	}
	go func() { s.done <- s.server.Serve(listener) }()
	return s, nil
}

// Close stops the sandbox and its books.
func (s *Sandbox) Close() error {
	err := s.server.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, s.books.Close())
}

// RunSandbox runs the sandbox providers until ctx ends.
func RunSandbox(ctx context.Context, c SandboxConfig, out io.Writer) (err error) {
	s, err := StartSandbox(c)
	if err != nil {
		return err
	}
	if err := writeReady(c.ReadyFile, struct {
		SandboxURL string `json:"sandboxUrl"`
	}{s.URL}); err != nil {
		return errors.Join(err, s.Close())
	}
	fmt.Fprintf(out, "sandbox issuer at %s\n", s.URL)
	<-ctx.Done()
	return s.Close()
}
