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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/app"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM)
	go func() {
		by := <-asked
		// The first one drains. The second one ends the process at once, from before anybody can see that it drains.
		signal.Stop(asked)
		end(fmt.Errorf("%s signal received", by))
	}()
	called, err := root().ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	tell(os.Stderr, err, wantsJSON(called, os.Args[1:]))
	return exitCode(err)
}

// wantsJSON says whether a command was asked for JSON. A mistake on the command line may stand before the flag.
func wantsJSON(cmd *cobra.Command, args []string) bool {
	if output := cmd.Flags().Lookup("output"); output != nil && output.Value.String() == "json" {
		return true
	}
	asked := cmd.Flags().Lookup("json")
	return asked != nil && (asked.Value.String() == "true" || slices.Contains(args, "--json"))
}

// tell says what went wrong and what to do next, to a person or as JSON.
func tell(w io.Writer, err error, asJSON bool) {
	if asJSON {
		document, _ := json.Marshal(map[string]any{"error": reportOf(err)}) // it has nothing that cannot be encoded
		_, _ = w.Write(append(escaped(document), '\n'))
		return
	}
	w = printable{w}
	// Further lines of an answer are indented, so that they do not look like lines of this program.
	fmt.Fprintln(w, "roamcard:", strings.ReplaceAll(err.Error(), "\n", "\n    "))
	r := reportOf(err)
	for _, field := range r.Fields {
		fmt.Fprintln(w, "  ", line(field))
	}
	if r.IdempotencyKey != "" {
		fmt.Fprintln(w, "key:", line(r.IdempotencyKey))
	}
	if r.RetryAt != nil {
		fmt.Fprintln(w, "another payment may be signed for it from", r.RetryAt.Format(time.RFC3339))
	}
	if next := advice(r); next != "" {
		fmt.Fprintln(w, "next:", next)
	}
}

// report is an error as programs read it: the client's report, all that was said, and the exit code.
type report struct {
	roamcard.ErrorReport
	Message  string `json:"message"`
	ExitCode int    `json:"exitCode"`
}

func reportOf(err error) report {
	r := report{roamcard.ReportOf(err), err.Error(), exitCode(err)}
	if without, ok := errors.AsType[undelivered](err); ok {
		r.Code, r.Detail = "not_delivered", without.Error()
		r.IdempotencyKey, r.OrderID = without.key, without.order.GetOrderId()
		if roamcard.StatusOf(without.order) == roamcard.OrderOperatorReview {
			r.NextAction = "poll_order"
		} else {
			r.NextAction = "use_another_key"
		}
	}
	switch {
	case errors.Is(err, errUsage):
		r.Code, r.NextAction = "usage", "read_help"
	case errors.Is(err, errNoWallet):
		r.Code, r.NextAction = "no_wallet", "name_wallet"
	case errors.Is(err, errNoCard):
		r.Code, r.NextAction = "no_card", "buy_card"
	case r.Code == "operator_token_invalid" || r.Code == "operator_role_missing":
		r.NextAction = "set_operator_token" // an operator has no session: nobody signs in again
	case errors.Is(err, app.ErrNotReady):
		r.Code = "not_ready"
	case errors.Is(err, app.ErrDifference):
		r.Code = "books_differ"
	}
	return r
}

// advice is what to do next, as a sentence.
func advice(r report) string {
	switch r.Code {
	case "payment_outcome_unknown":
		return "" // its message has the advice
	case "denied_by_local_policy":
		return "if it is meant, raise --max, and --max-day, which caps all payments of 24 hours and is --max when absent"
	case "card_already_exists":
		return "use another wallet; one wallet owns one card"
	case "http_404":
		return "see whether --url, or ROAMCARD_URL, is the service; with admin.addr set, operators' routes are only there"
	}
	return map[string]string{
		"retry_same_request": "repeat the same command with the same --key",
		"wait_and_retry":     "wait and run it again",
		"poll_order":         "look at the order until it changes: roamcard orders watch " + line(r.OrderID),
		"sign_new_payment":   "run it again; no money moved and a new payment is safe",
		"fix_request":        "correct the request; repeating it unchanged will not help",
		"sign_in":            "run it again; it signs in again",
		"contact_support":    "ask the service's operators, with the request's id",
		"fund_wallet":        "send USDC on Base to the wallet: roamcard wallet address",
		"use_another_key":    "buy it under another key; what was paid under this one is back, or was never taken",
		"read_help":          "see the same command with --help",
		"set_operator_token": "set ROAMCARD_OPERATOR_TOKEN, or the file in its _FILE, to a token that may do this",
		"set_clock":          "set this computer's clock",
		"fix_journal": "make the journal readable and writable, or take it from a backup; without it nothing is " +
			"signed",
	}[r.NextAction]
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
	case errors.Is(err, roamcard.ErrPolicyDenied), errors.Is(err, roamcard.ErrApprovalDenied),
		errors.Is(err, roamcard.ErrTermsMismatch), errors.Is(err, errDeclined):
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
