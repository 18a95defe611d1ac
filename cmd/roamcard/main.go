// Command roamcard sells virtual cards and travel eSIMs for USDC; see `roamcard help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/roamcard/roamcard/clients/go/roamcard"
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
	if next := advice(err); next != "" {
		fmt.Fprintln(os.Stderr, "next:", next)
	}
	return exitCode(err)
}

// advice is what the service says to do next, as a sentence.
func advice(err error) string {
	told, ok := errors.AsType[*roamcard.APIError](err)
	if !ok || errors.Is(err, roamcard.ErrAmbiguousPayment) {
		return "" // an ambiguous payment says so itself
	}
	if told.Code == "card_already_exists" {
		return "use another wallet; one wallet owns one card"
	}
	return map[string]string{
		"retry_same_request": "repeat the same command with the same --key",
		"wait_and_retry":     "wait and run it again",
		"poll_order":         "look at the order until it changes: roamcard orders watch " + told.OrderID,
		"sign_new_payment":   "run it again; no money moved and a new payment is safe",
		"fix_request":        "correct the request; repeating it unchanged will not help",
		"sign_in":            "run it again; it signs in anew",
		"contact_support":    "ask the service's operators, with the request's id",
	}[told.NextAction]
}

// The exit codes: a payment refused by the policy and one whose outcome is not known have their own.
const (
	exitOK         = 0
	exitFailure    = 1
	exitUsage      = 2
	exitDenied     = 3
	exitAmbiguous  = 4
	exitNotReady   = 5
	exitDifference = 6
)

func exitCode(err error) int {
	switch {
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, roamcard.ErrPolicyDenied), errors.Is(err, roamcard.ErrApprovalDenied), errors.Is(err, roamcard.ErrTermsMismatch):
		return exitDenied
	case errors.Is(err, app.ErrNotReady):
		return exitNotReady
	case errors.Is(err, app.ErrDifference):
		return exitDifference
	}
	if _, ok := errors.AsType[*roamcard.AmbiguousPaymentError](err); ok {
		return exitAmbiguous
	}
	if told, ok := errors.AsType[*roamcard.APIError](err); ok && told.Status == http.StatusServiceUnavailable {
		return exitNotReady
	}
	return exitFailure
}
