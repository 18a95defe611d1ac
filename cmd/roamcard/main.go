// Command roamcard sells virtual cards and travel eSIMs for USDC; see `roamcard help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/roamcard/roamcard/internal/app"
)

func main() { os.Exit(run()) }

func run() int {
	// The first signal drains; the second, after stop, ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() { <-ctx.Done(); stop() }()
	err := root().ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(os.Stderr, "roamcard:", err)
	return exitCode(err)
}

// The exit codes.
const (
	exitOK       = 0
	exitFailure  = 1
	exitUsage    = 2
	exitNotReady = 5
)

func exitCode(err error) int {
	switch {
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, app.ErrNotReady):
		return exitNotReady
	}
	return exitFailure
}
