package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

func TestErrorsAreJSONWhereThatWasAskedFor(t *testing.T) {
	var out bytes.Buffer
	tell(&out, &roamcard.AmbiguousPaymentError{IdempotencyKey: "k", OrderID: "ord_1", Err: io.EOF}, true)
	var told struct{ Error report }
	if err := json.Unmarshal(out.Bytes(), &told); err != nil {
		t.Fatal(err)
	}
	if e := told.Error; e.ExitCode != exitAmbiguous || e.IdempotencyKey != "k" || e.OrderID != "ord_1" || *e.SafeToPayAgain {
		t.Errorf("%s", out.String())
	}
}

func TestPrintableDropsControlCharacters(t *testing.T) {
	var out bytes.Buffer
	if _, err := io.WriteString(printable{&out}, "pl\x1b[31man\u202e\u009b one\r\n\tBücher\n"); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "pl[31man one\n\tBücher\n" {
		t.Errorf("%q", got)
	}
}

// A person who gives up at the prompt, and types on, has not said yes.
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
