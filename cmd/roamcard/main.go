// Command roamcard sells virtual cards and travel eSIMs for USDC; see `roamcard help`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/app"
)

func main() { os.Exit(run()) }

func run() int {
	// The first signal drains; the second, after stop, ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() { <-ctx.Done(); stop() }()
	called, err := root().ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	tell(printable{os.Stderr}, err, wantsJSON(called))
	return exitCode(err)
}

// wantsJSON says whether a command was asked for JSON.
func wantsJSON(cmd *cobra.Command) bool {
	asked := cmd.Flags().Lookup("json")
	return asked != nil && asked.Value.String() == "true"
}

// tell says what went wrong and what to do next, to a person or as JSON.
func tell(w io.Writer, err error, asJSON bool) {
	if asJSON {
		_ = json.NewEncoder(w).Encode(map[string]any{"error": reportOf(err)})
		return
	}
	fmt.Fprintln(w, "roamcard:", err)
	for _, field := range reportOf(err).Fields {
		fmt.Fprintln(w, "  ", field)
	}
	if next := advice(err); next != "" {
		fmt.Fprintln(w, "next:", next)
	}
}

// report is an error as programs read it.
type report struct {
	Message        string   `json:"message"`
	ExitCode       int      `json:"exitCode"`
	Code           string   `json:"code,omitempty"`
	Status         int      `json:"status,omitempty"`
	NextAction     string   `json:"nextAction,omitempty"`
	SafeToPayAgain *bool    `json:"safeToPayAgain,omitempty"`
	IdempotencyKey string   `json:"idempotencyKey,omitempty"`
	OrderID        string   `json:"orderId,omitempty"`
	RequestID      string   `json:"requestId,omitempty"`
	RetryAt        string   `json:"retryAt,omitempty"`
	Fields         []string `json:"fields,omitempty"`
}

func reportOf(err error) report {
	r := report{Message: err.Error(), ExitCode: exitCode(err)}
	if told, ok := errors.AsType[*roamcard.APIError](err); ok {
		r.Code, r.Status, r.NextAction, r.SafeToPayAgain = told.Code, told.Status, told.NextAction, &told.SafeToPayAgain
		r.OrderID, r.RequestID, r.Fields, r.IdempotencyKey = told.OrderID, told.RequestID, told.Fields, told.IdempotencyKey
		if !told.RetryAt.IsZero() {
			r.RetryAt = told.RetryAt.UTC().Format(time.RFC3339)
		}
	}
	if unclear, ok := errors.AsType[*roamcard.AmbiguousPaymentError](err); ok {
		no := false
		r.SafeToPayAgain, r.IdempotencyKey, r.OrderID, r.NextAction = &no, unclear.IdempotencyKey, first(unclear.OrderID, r.OrderID), "retry_same_request"
	}
	if stopped, ok := errors.AsType[*roamcard.PaymentError](err); ok {
		r.IdempotencyKey = first(r.IdempotencyKey, stopped.IdempotencyKey)
	}
	return r
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
