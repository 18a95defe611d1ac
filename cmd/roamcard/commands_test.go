package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/devserver"
)

// whole runs every case, for `make torture`.
var whole bool

// TestMain lets the test binary act as the external signer that ROAMCARD_SIGNER names.
func TestMain(m *testing.M) {
	standIn()
	if key := os.Getenv("TEST_SIGNER_KEY"); key != "" {
		err := sign(key, os.Stdin, os.Stdout)
		if os.Getenv("ROAMCARD_OPERATOR_TOKEN") != "" {
			err = errors.New("the signer was given a token that is not its own")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 1 {
		panic("a program that was started without its part would start all tests again")
	}
	whole = os.Getenv("ROAMCARD_TORTURE") != ""
	apptest.ForgetVariables()
	flag.Parse()
	// An agent's test mostly waits, for the chain and for programs.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.Exit(max(code, devserver.Stop()))
}

func sign(key string, in io.Reader, out io.Writer) error {
	signer, err := roamcard.NewKeySigner(key)
	if err != nil {
		return err
	}
	var asked struct {
		Method, Message string
		TypedData       roamcard.TypedData
	}
	if err := json.NewDecoder(in).Decode(&asked); err != nil {
		return err
	}
	var signature []byte
	if asked.Method == "personal_sign" {
		signature, err = signer.SignMessage(context.Background(), asked.Message)
	} else {
		signature, err = signer.SignTypedData(context.Background(), asked.TypedData)
	}
	if err == nil {
		_, err = fmt.Fprintf(out, "0x%x\n", signature)
	}
	return err
}

// runWith runs the program as main does, with what it prints and its exit code.
func runWith(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(""))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		errs.WriteString(err.Error())
		code = exitCode(err)
	}
	return out.String(), errs.String(), code
}

// home separates the test from the user's own wallet and journal, and from the environment.
func home(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for name, value := range map[string]string{
		"ROAMCARD_JOURNAL": filepath.Join(dir, "journal.json"), "ROAMCARD_WALLET_FILE": filepath.Join(dir, "wallet"),
		"ROAMCARD_URL": "", "ROAMCARD_READY_FILE": "", "ROAMCARD_SIGNER": "", "ROAMCARD_SIGNER_ENV": "",
		"ROAMCARD_WALLET_KEY":     "",
		"ROAMCARD_RPC_URL":        "",
		"ROAMCARD_OPERATOR_TOKEN": "", "ROAMCARD_MAX_PER_PAYMENT_USD": "", "ROAMCARD_MAX_PER_DAY_USD": "",
	} {
		t.Setenv(name, value)
	}
}

func TestExitCodes(t *testing.T) {
	for code, err := range map[int]error{
		exitUsage:      fmt.Errorf("%w: no", errUsage),
		exitDenied:     &roamcard.PaymentError{Kind: roamcard.ErrApprovalDenied},
		exitAmbiguous:  &roamcard.AmbiguousPaymentError{Err: &roamcard.APIError{Status: 503}},
		exitNotReady:   &roamcard.APIError{Status: 503},
		exitDifference: app.ErrDifference,
		exitFailure:    &roamcard.PaymentError{Kind: roamcard.ErrInsufficientFunds},
	} {
		if got := exitCode(fmt.Errorf("act: %w", err)); got != code {
			t.Errorf("%v ends with %d, want %d", err, got, code)
		}
	}
}

func TestMistakesOnTheCommandLineAreUsageErrors(t *testing.T) {
	home(t)
	for _, args := range [][]string{
		{"card", "topup"}, {"card", "topup", "ten"}, {"card", "topup", "10.123"}, {"orders", "show"},
		{"card", "buy", "--yes"},
		{"card", "buy", "--nonsense"}, {"card", "reveal", "--present", "paper", "id"}, {"wallet", "balance"},
		{"card", "buy", "extra"}, {"card", "freeze", "a", "b"}, {"card", "transactions", "a", "b"},
	} {
		if _, stderr, code := runWith(t, args...); code != exitUsage && args[0] != "wallet" || code == exitOK {
			t.Errorf("%v ended with %d: %s", args, code, stderr)
		}
	}
}

// A variable that is not set must not make a new purchase of a repeated one: --key "$UNSET".
func TestEmptyIdentitiesAreUsageErrors(t *testing.T) {
	home(t)
	found := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.Flags().Lookup("key") == nil {
			return
		}
		found++
		path := strings.Fields(cmd.CommandPath())[1:]
		for _, arg := range strings.Fields(cmd.Use)[1:] {
			of, _, _ := strings.Cut(arg, "|") // the first one that may be chosen
			path = append(path, map[bool]string{true: of, false: "25"}[of != arg])
		}
		for flag, value := range map[string]string{
			"transaction": "0x1", "expires": "12h", "name": "ada", "role": "viewer",
		} {
			if cmd.Flags().Lookup(flag) != nil {
				path = append(path, "--"+flag, value)
			}
		}
		for _, flag := range []string{"key", "reason"} {
			if cmd.Flags().Lookup(flag) == nil {
				continue
			}
			for _, empty := range []string{"", " "} {
				_, stderr, code := runWith(t, append(path, "--url", "http://127.0.0.1:9", "--"+flag, empty)...)
				if code != exitUsage || !strings.Contains(stderr, "--"+flag+" is given and empty") {
					t.Errorf("%s --%s %q: %d %s", cmd.CommandPath(), flag, empty, code, stderr)
				}
			}
		}
	}
	walk(root())
	if found < 10 {
		t.Errorf("only %d commands have a key", found)
	}
	if _, stderr, code := runWith(t, "orders", "resume", ""); code != exitUsage ||
		!strings.Contains(stderr, "argument 1 is empty") {
		t.Errorf("an empty argument: %d %s", code, stderr)
	}
}

func TestWalletNewReplacesNoWallet(t *testing.T) {
	home(t)
	address, _, code := runWith(t, "wallet", "new")
	if code != exitOK || !strings.HasPrefix(address, "0x") {
		t.Fatalf("new: %q, %d", address, code)
	}
	if again, _, code := runWith(t, "wallet", "address"); code != exitOK || again != address {
		t.Errorf("address: %q, %d; expected %q", again, code, address)
	}
	if _, stderr, code := runWith(t, "wallet", "new"); code != exitFailure {
		t.Errorf("a second wallet over the first: %d %s", code, stderr)
	}
}

func TestJSONOutputIsJSON(t *testing.T) {
	home(t)
	for _, args := range [][]string{
		{"version", "--json"}, {"openapi"}, {"doctor", "--json"}, {"config", "show", "--json"},
	} {
		if out, stderr, code := runWith(t, args...); code != exitOK || !json.Valid([]byte(out)) {
			t.Errorf("%v ended with %d, printed %.80q and %s", args, code, out, stderr)
		}
	}
}

func TestManualHasEveryCommand(t *testing.T) {
	dir := t.TempDir()
	if _, stderr, code := runWith(t, "man", dir); code != exitOK {
		t.Fatalf("%d: %s", code, stderr)
	}
	for _, page := range []string{"roamcard", "roamcard-serve", "roamcard-config-check", "roamcard-admin-orders-refund"} {
		text, err := os.ReadFile(filepath.Join(dir, page+".1"))
		if err != nil || !strings.Contains(string(text), ".SH SYNOPSIS") || strings.Contains(string(text), "\ufffd") {
			t.Errorf("%s: %v", page, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "roamcard-man.1")); err == nil {
		t.Error("the manual has the command that writes it")
	}
}

func TestEmptyConfigurationNamesEverySetting(t *testing.T) {
	home(t)
	out, _, code := runWith(t, "config", "init")
	path := filepath.Join(t.TempDir(), "roamcard.yaml")
	if err := os.WriteFile(path, []byte(out), 0o600); err != nil || code != exitOK {
		t.Fatalf("%d, %v", code, err)
	}
	shown, _, code := runWith(t, "config", "show", "--config", path)
	if code != exitOK || strings.Contains(shown, "error") || !strings.Contains(out, "rpc_url:") ||
		!strings.Contains(out, "# the address that is paid") {
		t.Errorf("%d\n%s\n%s", code, out, shown)
	}
}

func TestConfigCheckSaysEveryMistakeAtOnce(t *testing.T) {
	home(t)
	dir := t.TempDir()
	check := func(name, content string) (string, int) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _, code := runWith(t, "config", "check", path, "--json")
		var told struct {
			OK       bool
			Mistakes []string
		}
		if err := json.Unmarshal([]byte(out), &told); err != nil || told.OK != (code == exitOK) || told.Mistakes == nil {
			t.Fatalf("%v, %d: %s", err, code, out)
		}
		return strings.Join(told.Mistakes, "\n"), code
	}
	// Nothing listens at any of these addresses: whoever connects fails.
	for name, value := range map[string]string{
		"DATABASE__URL": "postgres://roamcard:hunter2@127.0.0.1:1/roamcard", "RELAYER__KEYS": strings.Repeat("11", 32),
		"ISSUER__KEY": "k", "SUPPLIER__KEY": "k", "ESIM__KEYS": "k1:" + strings.Repeat("c4", 32),
		"ESIM__TOKEN_KEY": strings.Repeat("7e", 32), "QUOTE__KEY": strings.Repeat("5a", 32),
	} {
		t.Setenv("ROAMCARD_"+name, value)
	}
	const right = "environment: sandbox\nbase_url: https://cards.example\nchain.rpc_url: http://127.0.0.1:1\n" +
		"payment.pay_to: \"0x209693Bc6afc0C5328bA36FaF03C514EF312287C\"\nissuer.url: http://127.0.0.1:1\n" +
		"supplier.url: http://127.0.0.1:1\n"
	if told, code := check("right.yaml", right); code != exitOK {
		t.Errorf("a right file ends with %d: %s", code, told)
	}
	out, _, code := runWith(t, "config", "check", filepath.Join(dir, "right.yaml"))
	if code != exitOK || !strings.HasPrefix(out, "no mistakes") {
		t.Errorf("%d, %s", code, out)
	}
	t.Setenv("ROAMCARD_DATABASE__URL", "postgres://roamcard:hunter2@127.0.0.1:port/roamcard")
	t.Setenv("ROAMCARD_TREASURY__KEY", "hunter2")
	told, code := check("wrong.yaml", right+"addr: nowhere\npayment.wiat: 20s\nworker.slots: many\n")
	for _, want := range []string{"database.url: ", "treasury.key: ", "addr: ", "payment.wiat ", "worker.slots "} {
		if !strings.Contains("\n"+told, "\n"+want) {
			t.Errorf("%q is not told:\n%s", want, told)
		}
	}
	if code != exitNotReady || strings.Contains(told, "hunter2") {
		t.Errorf("ended with %d:\n%s", code, told)
	}
	_, stderr, code := runWith(t, "config", "check", filepath.Join(dir, "none.yaml"))
	if code != exitNotReady || !strings.HasSuffix(strings.TrimSpace(stderr), "the configuration has 1 mistake") {
		t.Errorf("a missing file ended with %d: %s", code, stderr)
	}
	_, stderr, _ = runWith(t, "config", "check", filepath.Join(dir, "wrong.yaml"))
	if !strings.Contains(stderr, "the configuration has 5 mistakes") {
		t.Errorf("five mistakes are told as %s", stderr)
	}
}

func TestConfigShowsSourcesAndNoSecrets(t *testing.T) {
	home(t)
	t.Setenv("ROAMCARD_QUOTE__KEY", strings.Repeat("5a", 32))
	t.Setenv("ROAMCARD_ADDR", "127.0.0.1:9")
	out, _, code := runWith(t, "config", "show", "--json")
	var all []struct{ Key, Value, Source string }
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != exitOK {
		t.Fatalf("%v, %d", err, code)
	}
	found := map[string]string{}
	for _, s := range all {
		found[s.Key] = s.Value + " from " + s.Source
	}
	if found["addr"] != "127.0.0.1:9 from environment" || found["quote.key"] != "[redacted] from environment" ||
		strings.Contains(out, "5a5a") {
		t.Errorf("addr %q, quote.key %q", found["addr"], found["quote.key"])
	}
}
