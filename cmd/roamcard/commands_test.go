package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/dev"
	"github.com/roamcard/roamcard/internal/testing/devserver"
)

// TestMain lets the test binary act as the external signer that ROAMCARD_SIGNER names.
func TestMain(m *testing.M) {
	standIn()
	if key := os.Getenv("TEST_SIGNER_KEY"); key != "" {
		if err := sign(key, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	// An agent's test mostly waits, for the chain and for programs.
	if err := flag.Set("test.parallel", "6"); err != nil {
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
		"ROAMCARD_URL": "", "ROAMCARD_READY_FILE": "", "ROAMCARD_SIGNER": "", "ROAMCARD_WALLET_KEY": "",
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
	for _, page := range []string{"roamcard", "roamcard-serve", "roamcard-config-check", "roamcard-admin-orders-decide"} {
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
	if _, stderr, code := runWith(t, "config", "check", filepath.Join(dir, "none.yaml")); code != exitNotReady {
		t.Errorf("a missing file ended with %d: %s", code, stderr)
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

// The test does from the command line what a buyer does, at a running service.
func TestBuyerOnTheCommandLine(t *testing.T) {
	home(t)
	ready := filepath.Join(t.TempDir(), "ready.json")
	_, stop, err := dev.Start(context.Background(), dev.Config{
		Addr: "127.0.0.1:0", ReadyFile: ready, Log: dev.Logger(io.Discard, ""), Out: io.Discard,
	})
	if err != nil {
		t.Fatalf("start the development server: %v", err)
	}
	defer func() {
		if err := stop(); err != nil {
			t.Errorf("the development server: %v", err)
		}
	}()
	t.Setenv("ROAMCARD_READY_FILE", ready)
	steps := []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"wallet balance", exitOK, "10000.000000 USDC", ""},
		{"card buy --key one", exitDenied, "", "nobody to ask"},
		{"card buy --key one --yes --max 24.99", exitDenied, "", "above the cap"},
		{"card buy --key one --yes --max 60 --wait", exitOK, "active", "Settled in 0x"},
		{"card buy --key one --yes --max 60", exitOK, "key          one\n", ""},
		{"card buy --key one --yes --max 60 --json", exitOK, `"replayed": true`, ""},
		{"card buy --key one --yes --max 60 --json --wait", exitOK, `"idempotencyKey": "one"`, ""},
		{"wallet balance", exitOK, "9975.000000 USDC", ""},
		{"card list --json", exitOK, `"ACTIVE"`, ""},
		{"card topup 25 --key two --yes --max 60", exitOK, "24.50 USD", "Settled in 0x"},
		{"orders list", exitOK, "card_topup", ""},
		{"orders show ord_none", exitFailure, "", "order_not_found"},
		{"card buy --key three --yes --max 60", exitDenied, "", "would be signed for in a day"},
		{"card buy --key three --yes --max 25 --max-day 60", exitDenied, "", "the cap is 60.00"},
		{"card buy --key three --yes --max 100", exitFailure, "", "card_already_exists"},
		{"orders create --topup 30 --key later", exitOK, "/pay/ord_", ""},
		{"orders list --active", exitOK, "payment_required", ""},
		{"orders list --active --kind card_topup", exitOK, "payment_required", ""},
		{"orders list --active --kind card_issue --json", exitOK, `"orders": []`, ""},
		{"orders list --kind card_issue", exitOK, "card_issue", ""},
		{"orders list --kind " + strings.Repeat("k", 65), exitFailure, "", "schema_invalid"},
		{"__complete orders list --kind esim", exitOK, "esim_topup", ""},
		{"orders pay $ORDER --yes --max 130", exitOK, "30.00 USD", "Settled in 0x"},
		{"orders pay $ORDER --yes --max 130", exitOK, "30.00 USD", ""},
		{"orders pay https://elsewhere.example/pay/ord_1 --yes --max 100", exitDenied, "", "no payable_url"},
		{"orders pay ord_none --yes --max 100", exitFailure, "", "order_not_found"},
		{"orders resume", exitOK, "", ""},
		{"orders resume none", exitFailure, "", "no such thing"},
		{"orders show $ORDER --wait", exitOK, "fulfilled", ""},
		{"__complete orders show ord_", exitOK, "$ORDER\tcard_topup, fulfilled, 30.00 USD", ""},
		{"orders resume one", exitOK, "ord_", ""},
		{"__complete esim plans --country j", exitOK, "JP", ""},
		{"__complete esim plans --type r", exitOK, "region", ""},
		{"__complete esim buy ''", exitOK, " USD\n", ""},
		{"__complete card balance ''", exitOK, "\tACTIVE ", ""},
		{"__complete orders resume ''", exitOK, ":4", ""},
		{"orders create --esim= --key later-esim", exitOK, "esim", ""},
		{"orders pay $ORDER --yes --max 130 --wait", exitOK, "fulfilled", "Settled in 0x"},
		{"orders create", exitFailure, "", "card_already_exists"},
		{"esim plans --country jp", exitOK, "Japan", ""},
		{"esim plans --country japan", exitFailure, "", "schema_invalid"},
		{"esim buy --key travel --yes --max 130", exitOK, "esim", "Settled in 0x"},
		{"esim status $ORDER --json", exitOK, `"delivery"`, ""},
		{"esim topups $ORDER", exitOK, "MB", ""},
		{"esim install $ORDER", exitUsage, "", "no terminal"},
		{"esim install $ORDER --json", exitOK, `"lpa": "LPA:1$`, ""},
		{"esim rotate-token $ORDER", exitUsage, "", "no terminal"},
		{"esim rotate-token ord_none --json", exitFailure, "", "order_not_found"},
		{"esim rotate-token $ORDER --json", exitOK, `"token": "edt_`, ""},
		{"esim topup $ORDER --key more-data --yes --max 130", exitOK, "esim_topup", "Settled in 0x"},
		{"admin switches pause card_topup --reason test", exitOK, "true", ""},
		{"admin switches list", exitOK, "card_topup", ""},
		{"admin switches resume card_topup --reason test", exitOK, "false", ""},
		{"admin switches pause nonsense --reason test", exitFailure, "", "schema_invalid"},
		{"admin whoami", exitOK, "dev", ""},
		{"admin tokens mint --name carol --role treasurer --expires 1h --reason test", exitOK, "rco_", ""},
		{"admin tokens mint --name carol --role treasurer --expires 1h --reason test --json", exitOK, `"secret": "rco_`, ""},
		{"admin tokens mint --name dev --role viewer --expires 1h --reason test", exitFailure, "", "schema_invalid"},
		{"admin tokens mint --name carol --role root --expires 1h --reason test", exitFailure, "", "schema_invalid"},
		{"admin tokens mint --name carol --role viewer --expires 0s --reason test", exitUsage, "", "--expires"},
		{"admin tokens list --status active", exitOK, "carol", ""},
		{"admin tokens revoke 00000000-0000-4000-8000-000000000000 --reason test", exitFailure, "", "token_not_found"},
		{"admin approvals list --status expired", exitOK, "ASKED BY", ""},
		{"admin approvals show 00000000-0000-4000-8000-000000000000", exitFailure, "", "approval_not_found"},
		{"admin approvals approve 00000000-0000-4000-8000-000000000000 --reason test", exitFailure, "", "approval_not_found"},
		{"admin approvals reject 00000000-0000-4000-8000-000000000000 --reason test", exitFailure, "", "approval_not_found"},
		{"admin orders queue", exitOK, "REASON", ""},
		{"admin orders queue --status fulfilled --kind esim_topup --sort newest", exitOK, "esim_topup", ""},
		{"admin orders queue --sort sideways", exitFailure, "", "schema_invalid"},
		{"admin orders queue --request nobody-4.2", exitOK, "REASON", ""},
		{"admin orders queue --request no'body", exitFailure, "", "schema_invalid"},
		{"admin orders count", exitOK, "STATUS", ""},
		{"admin orders show $ORDER", exitOK, "payment_required -> settling by buyer", ""},
		{"admin orders show $ORDER", exitOK, "request ", ""},
		{"admin orders review $ORDER", exitOK, "no: Only an order in operator_review can be decided.", ""},
		{"admin orders decide $ORDER refund --reason test", exitFailure, "", "order_not_in_review"},
		{"admin orders decide $ORDER retry --version 1 --reason test", exitFailure, "", "version_changed"},
		{"admin audit list --action switch.set --most 1", exitOK, "switch.set", ""},
		{"admin audit list --since yesterday", exitFailure, "", "schema_invalid"},
		{"admin audit export --action switch.set", exitOK, `"after":"{`, ""},
		{"admin audit export --action switch.set --format csv", exitOK, "id,at,actor,action,subject", ""},
		{"admin audit export --format xml", exitUsage, "", "ndjson or csv"},
		{"admin gauges", exitOK, "USDC units", ""},
		{"admin summary", exitOK, "open, 0 blocking", ""},
		{"admin cards retry 00000000-0000-4000-8000-000000000000 --revision 1 --reason test", exitFailure, "", "_not_found"},
		{"admin cards closings", exitOK, "STAGE", ""},
		{"admin esims cancellations --status succeeded", exitOK, "STAGE", ""},
		{"admin jobs list", exitOK, "ATTEMPTS", ""},
		{"admin jobs list --status succeeded --kind order_fulfill", exitOK, "order_fulfill", ""},
		{"admin jobs show 00000000-0000-4000-8000-000000000000", exitFailure, "", "job_not_found"},
		{"admin jobs retry 00000000-0000-4000-8000-000000000000 --reason test", exitFailure, "", "job_not_found"},
		{"admin jobs drop 00000000-0000-4000-8000-000000000000 --reason test", exitFailure, "", "job_not_found"},
		{"admin findings list", exitOK, "RESOLUTION", ""},
		{"admin findings resolve 4711 --reason test", exitFailure, "", "finding_not_found"},
		{"admin transfers list", exitOK, "RESOLUTION", ""},
		{"admin transfers resolve 0x1 --as donation --reason test", exitUsage, "", "log index"},
		{
			"admin transfers resolve 0x" + strings.Repeat("1", 64) + "#5 --as refunded-by-hand --reason test", exitFailure, "",
			"transfer_not_found",
		},
		{"admin challenges retention", exitOK, "stale", ""},
		{"admin challenges prune --json", exitOK, `"deleted"`, ""},
		{"admin activity show --days 1", exitOK, "1 days", ""},
		{"admin activity prune", exitOK, "0 deleted", ""},
		{"mcp tools", exitOK, "get_payable_url", ""},
		{"mcp call no_such_tool", exitFailure, "", ""},
		{"card reveal --present tty", exitFailure, "", ""},
		{"admin fee-jobs list --json", exitOK, `"version": 1`, ""},
		{"admin orders stuck", exitOK, "REASON", ""},
		{"admin books compare", exitOK, "checked", ""},
		{"admin books show --json", exitOK, `"findings": []`, ""},
		{"admin reconciliations list --outcome agreed --most 1", exitOK, "agreed", ""},
		{"admin reconciliations list --outcome lost", exitFailure, "", "schema_invalid"},
		{"card details", exitOK, "3-D Secure   automatic", ""},
		{"card details --json", exitOK, `"postalCode": "19901"`, ""},
		{"card limits", exitOK, "blocked categories  none", ""},
		{"card limits --per-transaction 20 --per-month 100.50 --block 7995,5813", exitOK, "5813 7995", ""},
		{"card limits --per-month none --json", exitOK, `"perTransactionUsdCents": 2000`, ""},
		{"card limits --allow 5411", exitOK, "allowed categories  5411", ""},
		{"card limits --allow none --per-transaction none --json", exitOK, `"blockedCategories": []`, ""},
		{"card limits --allow 5411 --block 7995", exitUsage, "", "exclude each other"},
		{"card limits --per-month much", exitUsage, "", "not an amount of dollars"},
		{"card limits --allow 54111", exitFailure, "", "schema_invalid"},
		{"card transactions", exitOK, "MERCHANT", ""},
		{"card transactions --json", exitOK, `"currency": "USD"`, ""},
		{"card freeze", exitOK, "FROZEN", ""},
		{"card freeze", exitOK, "FROZEN", ""},
		{"card balance", exitUsage, "", "has 0 that are ACTIVE"},
		{"card topup 25 --key frozen --yes --max 300", exitFailure, "", "active_card_missing"},
		{"card transactions", exitOK, "MERCHANT", ""},
		{"__complete card unfreeze ''", exitOK, "\tFROZEN ", ""},
		{"card unfreeze --json", exitOK, `"ACTIVE"`, ""},
		{"card unfreeze 00000000-0000-4000-8000-000000000000", exitFailure, "", "card_not_found"},
		{"card buy --key one --yes --max 60 --no-such-flag", exitUsage, "", ""},
		{"wallet balance --json", exitOK, `"usdc": "991`, ""},
	}
	opened := ""
	for _, s := range steps {
		s.stdout = strings.ReplaceAll(s.stdout, "$ORDER", opened)
		args := strings.Fields(strings.ReplaceAll(s.args, "$ORDER", opened))
		if last := len(args) - 1; args[last] == "''" {
			args[last] = ""
		}
		stdout, stderr, code := runWith(t, args...)
		// Until its issue fee is withdrawn, a card is not frozen.
		for end := time.Now().Add(30 * time.Second); s.code == exitOK && strings.Contains(stderr, "card_not_active") &&
			time.Now().Before(end); {
			stdout, stderr, code = runWith(t, args...)
		}
		if id := regexp.MustCompile(`(?m)(?:/pay/|^order +)(ord_\w+)`).FindStringSubmatch(stdout); id != nil {
			opened = id[1]
		}
		if code != s.code || !strings.Contains(stdout, s.stdout) || !strings.Contains(stderr, s.stderr) {
			t.Errorf("roamcard %s\nended with %d, expected %d\nstdout %s\nstderr %s", s.args, code, s.code, stdout, stderr)
		}
	}
	r, err := dev.ReadReady(ready)
	if err != nil {
		t.Fatal(err)
	}
	// A wallet with an external signer pays, and signs in.
	t.Setenv("ROAMCARD_JOURNAL", filepath.Join(t.TempDir(), "journal.json"))
	t.Setenv("ROAMCARD_SIGNER", os.Args[0])
	t.Setenv("ROAMCARD_SIGNER_ADDRESS", r.Wallets[5].Address)
	t.Setenv("TEST_SIGNER_KEY", r.Wallets[5].PrivateKey)
	if stdout, stderr, code := runWith(t, "card", "buy", "--yes", "--max", "25", "--wait", "--json"); code != exitOK ||
		stderr != "" || !json.Valid([]byte(stdout)) {
		t.Errorf("an external signer: %d\n%s\n%s", code, stdout, stderr)
	}
	t.Setenv("TEST_SIGNER_KEY", r.Wallets[6].PrivateKey)
	if _, stderr, code := runWith(t, "esim", "buy", "--yes", "--max", "30"); code != exitFailure ||
		!strings.Contains(stderr, "signed something else") {
		t.Errorf("a signer with another key: %d\n%s", code, stderr)
	}
}
