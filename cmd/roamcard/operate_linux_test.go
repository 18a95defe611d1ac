package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestIrreversibleActionIsAskedAbout shows what it is about before, and does nothing without a yes.
func TestIrreversibleActionIsAskedAbout(t *testing.T) {
	a := &actions{}
	serving(t, a)
	if _, stderr, code := runWith(t, "admin", "orders", "refund", "an-order", "--reason", "r"); code != exitUsage ||
		!strings.Contains(stderr, "--yes") || a.decided.Load() != 0 {
		t.Errorf("without a person: %d, %s", code, stderr)
	}
	if out, _, code := runWith(t, "admin", "orders", "refund", "an-order", "--reason", "r", "--yes"); code != exitOK ||
		!strings.Contains(out, "refund") || a.decided.Swap(0) != 1 {
		t.Errorf("with --yes: %d, %s", code, out)
	}
	for answer, done := range map[string]int32{"y": 1, "yes": 1, "n": 0, "": 0, "refund": 0} {
		person, there := terminalPair(t)
		cmd := root()
		var out, stderr bytes.Buffer
		cmd.SetIn(there)
		cmd.SetOut(&out)
		cmd.SetErr(&stderr)
		cmd.SetArgs([]string{"admin", "orders", "refund", "an-order", "--reason", "r"})
		if _, err := person.WriteString(answer + "\n"); err != nil {
			t.Fatal(err)
		}
		err := cmd.ExecuteContext(t.Context())
		if a.decided.Swap(0) != done || (err == nil) != (done == 1) || !strings.Contains(stderr.String(), "the-owner") ||
			!strings.Contains(stderr.String(), "sent back to its payer. Go on? [y/N]") ||
			strings.Contains(stderr.String(), "\x1b") {
			t.Errorf("%q: %v, %q", answer, err, stderr.String())
		}
	}
}

// TestPromptShowsTheOneOfAList that an action is about, where nothing reads it alone.
func TestPromptShowsTheOneOfAList(t *testing.T) {
	serving(t, &actions{})
	person, there := terminalPair(t)
	cmd := root()
	var stderr bytes.Buffer
	cmd.SetIn(there)
	cmd.SetErr(&stderr)
	cmd.SetArgs([]string{"admin", "tokens", "revoke", "a-token", "--reason", "r"})
	if _, err := person.WriteString("n\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, errDeclined) {
		t.Errorf("declined: %v", err)
	}
	if shown := stderr.String(); !strings.Contains(shown, "ada") || strings.Contains(shown, "bob") ||
		!strings.Contains(shown, "tokens revoke a-token") {
		t.Errorf("shown %q", shown)
	}
}

// TestNothingIsAskedAboutWhatThereIsNot: who is asked reads what the answer is about.
func TestNothingIsAskedAboutWhatThereIsNot(t *testing.T) {
	a := &actions{}
	serving(t, a)
	for args, says := range map[string]string{
		"admin tokens revoke no-token --reason r":               "there is none",
		"admin cards close " + nobody + " --reason r":           "There is no card",
		"admin cards close " + a.card().GetId() + " --reason r": "0xthe-owner",
	} {
		person, there := terminalPair(t)
		cmd := root()
		var stderr bytes.Buffer
		cmd.SetIn(there)
		cmd.SetErr(&stderr)
		cmd.SetArgs(strings.Fields(args))
		if _, err := person.WriteString("n\n"); err != nil {
			t.Fatal(err)
		}
		err := cmd.ExecuteContext(t.Context())
		if err == nil {
			t.Fatalf("%s: was done", args)
		}
		asked := strings.Contains(stderr.String(), "Go on?")
		if asked != errors.Is(err, errDeclined) || asked != strings.Contains(args, a.card().GetId()) ||
			!strings.Contains(stderr.String()+err.Error(), says) {
			t.Errorf("%s: %v, %q", args, err, stderr.String())
		}
	}
}

// terminalPair is a terminal: what the person at it types, and what a program reads.
func terminalPair(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}
