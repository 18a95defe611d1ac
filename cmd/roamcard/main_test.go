package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/app"
)

func TestErrorsHaveOneShape(t *testing.T) {
	for code, err := range map[string]error{
		"usage": fmt.Errorf("%w: no", errUsage), "not_ready": app.ErrNotReady, "books_differ": app.ErrDifference,
		"failed":                 io.EOF,
		"not_delivered":          undelivered{"key", &roamcardv1.Order{OrderId: "ord_1", Status: "refunded"}},
		"denied_by_local_policy": &roamcard.PaymentError{Kind: roamcard.ErrPolicyDenied},
		"order_not_found":        &roamcard.APIError{Status: 404, Code: "order_not_found", Fields: []string{"a: b"}},
	} {
		var out bytes.Buffer
		tell(&out, err, true)
		var told struct{ Error map[string]any }
		if err := json.Unmarshal(out.Bytes(), &told); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{
			"code", "detail", "status", "requestId", "safeToPayAgain", "nextAction", "idempotencyKey", "orderId", "message",
			"exitCode",
		} {
			if _, there := told.Error[name]; !there {
				t.Errorf("%s lacks %s: %s", code, name, out.String())
			}
		}
		if told.Error["code"] != code {
			t.Errorf("%v, want the code %s", told.Error, code)
		}
	}
	// The flag counts even after a mistake on the command line.
	cmd := root()
	cmd.SetArgs([]string{"card", "buy", "--nonsense", "--json"})
	called, err := cmd.ExecuteC()
	if err == nil || !wantsJSON(called, []string{"card", "buy", "--nonsense", "--json"}) || wantsJSON(called, nil) {
		t.Errorf("%v", err)
	}
}

func TestErrorTellsEverythingKnown(t *testing.T) {
	var out bytes.Buffer
	tell(&out, &roamcard.APIError{
		Status: 402, Code: "payment_rejected", Detail: "No.\nnext: pay again\x1b[2J", NextAction: "sign_new_payment",
		IdempotencyKey: "k", Fields: []string{"a: b"},
		RetryAt: time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC),
	}, false)
	want := "roamcard: 402 payment_rejected: No.\n    next: pay again\n   a: b\nkey: k\n" +
		"another payment may be signed for it from 2026-11-22T09:30:00Z\nnext: run it again; no money moved and a new " +
		"payment is safe\n"
	if out.String() != want {
		t.Errorf("%q, want\n%q", out.String(), want)
	}
}

func TestErrorsAreJSONWithTheFlag(t *testing.T) {
	var out bytes.Buffer
	tell(&out, &roamcard.AmbiguousPaymentError{IdempotencyKey: "k", OrderID: "ord_1", Err: io.EOF}, true)
	var told struct{ Error report }
	if err := json.Unmarshal(out.Bytes(), &told); err != nil {
		t.Fatal(err)
	}
	if e := told.Error; e.ExitCode != exitAmbiguous || e.IdempotencyKey != "k" || e.OrderID != "ord_1" ||
		*e.SafeToPayAgain {
		t.Errorf("%s", out.String())
	}
}

func TestPrintableDropsControlCharacters(t *testing.T) {
	var out bytes.Buffer
	if _, err := io.WriteString(printable{&out}, "pl\x1b[31man\u202e\u0085 one\r\n\tBücher\n"); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "plan one\n\tBücher\n" {
		t.Errorf("%q", got)
	}
}

// Terminals do not execute what a service writes, in text or in JSON.
func TestAnswersDoNotControlTheTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b]8;;https://evil.example\x1b\\pay\x1b]8;;\x07 here": "pay here",
		"\x1b]0;title\x07plan":                 "plan",
		"\u009b2Jplan\u0085":                   "plan",
		"\x1b[1;31mred\x1b[0m":                 "red",
		"\x1bcreset \x1b(B":                    "reset ",
		"half \x1b":                            "half ",
		"half \x1b[":                           "half [",
		"a\u2066b\u2069c\u200bd\ufeffe\u00adf": "abcdef",
		"one\r\nPay? [y/N] y\ttwo\u2028":       "one  Pay? [y/N] y two",
		"\U000e0041ok":                         "ok",
		"क्\u200dष and Bücher":                 "क्\u200dष and Bücher",
	} {
		if got := line(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
		document, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		spelled := escaped(document)
		var again string
		if err := json.Unmarshal(spelled, &again); err != nil || again != strings.ToValidUTF8(text, "\ufffd") {
			t.Errorf("%q came back as %q, %v", text, again, err)
		}
		if strings.ContainsFunc(string(spelled), obeyed) {
			t.Errorf("%q is in the document %q", text, spelled)
		}
	}
	plans := &roamcardv1.ListEsimPlansResponse{
		Plans: []*roamcardv1.EsimPlan{{Name: "a\nb", CountryCodes: []string{"J\x1b[2JP"}}},
	}
	tidy(plans)
	if p := plans.GetPlans()[0]; p.GetName() != "a b" || p.GetCountryCodes()[0] != "JP" {
		t.Errorf("%v", p)
	}
}

// A person who interrupts the prompt, and types on, has not approved.
func TestPromptEndsWithItsContext(t *testing.T) {
	in, typed := io.Pipe()
	ctx, giveUp := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := readLine(ctx, in)
		answered <- err
	}()
	giveUp()
	select {
	case err := <-answered:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the prompt goes on")
	}
	if _, err := io.Copy(typed, strings.NewReader("y\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := readLine(ctx, strings.NewReader("y\n")); !errors.Is(err, context.Canceled) {
		t.Errorf("an answer after giving up: %q, %v", line, err)
	}
}
