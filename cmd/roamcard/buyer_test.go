package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/devtools/dev"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// TestBuyerOnTheCommandLine does from the command line what a buyer and an operator do, at a running service. Each
// chapter finds what the ones before it have left.
func TestBuyerOnTheCommandLine(t *testing.T) {
	ready := startShop(t)
	c := customer{t}
	c.buysACard()
	c.topsItUp()
	c.staysBelowItsCaps()

	later := c.orders(command{"orders create --topup 30 --key later", exitOK, "/pay/ord_", ""})
	c.listsOrders()
	c.paysAnOrder(later)
	c.resumes(later)
	c.completes()

	c.paysForAnEsim(c.orders(command{"orders create --esim= --key later-esim", exitOK, "esim", ""}))
	c.looksForAPlan()
	travel := c.orders(command{"esim buy --key travel --yes --max 130", exitOK, "esim", "Install it with: roamcard esim"})
	c.usesItsEsim(travel)
	back := c.orders(command{"esim buy --key back --yes --max 130", exitOK, "esim", ""})
	c.runs([]command{{"esim cancel " + back + " --yes", exitOK, "cancellation", ""}})
	more := c.orders(command{
		"esim topup " + travel + " --key more-data --yes --max 130", exitOK, "esim_topup", "Settled in 0x",
	})

	c.setsSwitches()
	c.mintsTokens()
	c.asksForApprovals()
	c.readsOrders()
	c.decides(more)
	c.readsTheAuditTrail()
	c.readsFigures()
	c.worksOnJobs()
	c.resolves()
	c.prunes()
	c.servesAgents()
	c.comparesTheBooks()

	c.setsLimits()
	c.freezesItsCard()
	c.runs([]command{
		{"card buy --key one --yes --max 60 --no-such-flag", exitUsage, "", ""},
		{"wallet balance --json", exitOK, `"usdc": "991`, ""},
	})
	if _, stderr, _ := runWith(t, "esim", "buy", "--key", "refused~002", "--yes", "--max", "140"); !strings.Contains(
		stderr, "Settled in 0x") || strings.Contains(stderr, "Install it") {
		t.Errorf("an eSIM that is refused, once it is paid: %s", stderr)
	}
	out, stderr, code := runWith(t, "esim", "buy", "--key", "refused~002", "--yes", "--max", "140", "--wait", "--json")
	if code != exitFailure || !strings.Contains(out, `"status": "refunded"`) ||
		!strings.Contains(stderr, `bought under the key "refused~002", is refunded`) {
		t.Errorf("an eSIM that is refused, once it is refunded: %d\n%s\n%s", code, out, stderr)
	}
	c.paysWithAnExternalSigner(ready)
}

// startShop starts a development server, which the commands find, and returns the path of its ready file.
func startShop(t *testing.T) (ready string) {
	t.Helper()
	home(t)
	ready = filepath.Join(t.TempDir(), "ready.json")
	_, stop, err := dev.Start(context.Background(), dev.Config{
		Addr: "127.0.0.1:0", ReadyFile: ready, Log: dev.Logger(io.Discard, ""), Out: io.Discard,
	})
	if err != nil {
		t.Fatalf("start the development server: %v", err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("the development server: %v", err)
		}
	})
	t.Setenv("ROAMCARD_READY_FILE", ready)
	return ready
}

// customer runs commands one after the other.
type customer struct{ t *testing.T }

// command is a call of the program, and what it has to end with and to say. An argument of two quotes is empty.
type command struct {
	args   string
	code   int
	stdout string
	stderr string
}

func (c customer) runs(steps []command) {
	c.t.Helper()
	for _, s := range steps {
		c.run(s)
	}
}

// orders runs a command that creates an order, or pays one, and returns the order's id.
func (c customer) orders(s command) (id string) {
	c.t.Helper()
	found := regexp.MustCompile(`(?m)(?:/pay/|^order +)(ord_\w+)`).FindStringSubmatch(c.run(s))
	if found == nil {
		c.t.Fatalf("roamcard %s names no order", s.args)
	}
	return found[1]
}

func (c customer) run(s command) (stdout string) {
	c.t.Helper()
	args := strings.Fields(s.args)
	if last := len(args) - 1; args[last] == "''" {
		args[last] = ""
	}
	stdout, stderr, code := runWith(c.t, args...)
	// Until its issue fee is withdrawn, a card is not frozen.
	if s.code == exitOK && strings.Contains(stderr, "card_not_active") {
		apptest.Await(c.t, "the card may be frozen", func() error {
			if stdout, stderr, code = runWith(c.t, args...); strings.Contains(stderr, "card_not_active") {
				return errors.New(stderr)
			}
			return nil
		})
	}
	if code != s.code || !strings.Contains(stdout, s.stdout) || !strings.Contains(stderr, s.stderr) {
		c.t.Errorf("roamcard %s\nended with %d, expected %d\nstdout %s\nstderr %s", s.args, code, s.code, stdout, stderr)
	}
	return stdout
}

// buysACard agrees to the price within its cap, pays, and repeats the purchase.
func (c customer) buysACard() {
	c.t.Helper()
	c.runs([]command{
		{"wallet balance", exitOK, "10000.000000 USDC", ""},
		{"card buy --key one", exitDenied, "", "--yes"},
		{"card buy --key one --yes --max 24.99", exitDenied, "", "above the cap"},
		{"card buy --key one --yes --max 60 --wait", exitOK, "active", "Settled in 0x"},
		{"card buy --key one --yes --max 60", exitOK, "key          one\n", ""},
		{"card buy --key one --yes --max 60 --json", exitOK, `"replayed": true`, ""},
		{"card buy --key one --yes --max 60 --json --wait", exitOK, `"idempotencyKey": "one"`, ""},
		{"wallet balance", exitOK, "9975.000000 USDC", ""},
		{"card list --json", exitOK, `"ACTIVE"`, ""},
	})
}

// topsItUp puts more on the card.
func (c customer) topsItUp() {
	c.t.Helper()
	c.runs([]command{
		{"card topup 25 --key two --yes --max 60", exitOK, "24.50 USD", "Settled in 0x"},
		{"orders list", exitOK, "card_topup", ""},
		{"orders show ord_none", exitFailure, "", "order_not_found"},
	})
}

// staysBelowItsCaps is refused before anything is signed for, and by the service for a second card.
func (c customer) staysBelowItsCaps() {
	c.t.Helper()
	c.runs([]command{
		{"card buy --key three --yes --max 60", exitDenied, "", "would be signed for in a day"},
		{"card buy --key three --yes --max 25 --max-day 60", exitDenied, "", "the cap is 60.00"},
		{"card buy --key three --yes --max 100", exitFailure, "", "card_already_exists"},
	})
}

// listsOrders finds the order that it has created and not paid.
func (c customer) listsOrders() {
	c.t.Helper()
	c.runs([]command{
		{"orders list --active", exitOK, "payment_required", ""},
		{"orders list --active --kind card_topup", exitOK, "payment_required", ""},
		{"orders list --active --kind card_issue --json", exitOK, `"orders": []`, ""},
		{"orders list --kind card_issue", exitOK, "card_issue", ""},
		{"orders list --kind " + strings.Repeat("k", 65), exitUsage, "", "--kind is "},
		{"__complete orders list --kind esim", exitOK, "esim_topup", ""},
	})
}

// paysAnOrder pays it once, and none of another shop.
func (c customer) paysAnOrder(order string) {
	c.t.Helper()
	c.runs([]command{
		{"orders pay " + order + " --yes --max 130", exitOK, "30.00 USD", "Settled in 0x"},
		{"orders pay " + order + " --yes --max 130", exitOK, "30.00 USD", ""},
		{"orders pay https://elsewhere.example/pay/ord_1 --yes --max 100", exitDenied, "", "no payable_url"},
		{"orders pay ord_none --yes --max 100", exitFailure, "", "order_not_found"},
	})
}

// resumes asks what became of what was paid.
func (c customer) resumes(order string) {
	c.t.Helper()
	c.runs([]command{
		{"orders resume", exitOK, "", ""},
		{"orders resume none", exitFailure, "", "no such thing"},
		{"orders show " + order + " --wait", exitOK, "fulfilled", ""},
		{"__complete orders show ord_", exitOK, order + "\tcard_topup, fulfilled, 30.00 USD", ""},
		{"orders resume one", exitOK, "ord_", ""},
	})
}

// completes has words offered while it types.
func (c customer) completes() {
	c.t.Helper()
	c.runs([]command{
		{"__complete esim plans --country j", exitOK, "jp", ""},
		{"__complete esim plans --country J", exitOK, "JP", ""},
		{"__complete esim plans --type r", exitOK, "region", ""},
		{"__complete esim buy ''", exitOK, " USD\n", ""},
		{"__complete card balance ''", exitOK, "\tACTIVE ", ""},
		{"__complete orders resume ''", exitOK, ":4", ""},
	})
}

// paysForAnEsim pays an order for an eSIM.
func (c customer) paysForAnEsim(order string) {
	c.t.Helper()
	c.runs([]command{
		{"orders pay " + order + " --yes --max 130 --wait", exitOK, "fulfilled", "Settled in 0x"},
	})
}

// looksForAPlan looks at what is sold.
func (c customer) looksForAPlan() {
	c.t.Helper()
	c.runs([]command{
		{"orders create", exitFailure, "", "card_already_exists"},
		{"esim plans --country jp", exitOK, "Japan", ""},
		{"esim plans --country japan", exitFailure, "", "schema_invalid"},
	})
}

// usesItsEsim installs an eSIM, and gets a new token for it.
func (c customer) usesItsEsim(order string) {
	c.t.Helper()
	c.runs([]command{
		{"esim status " + order + " --json", exitOK, `"delivery"`, ""},
		{"esim topups " + order, exitOK, "MB", ""},
		{"esim install " + order, exitUsage, "", "no terminal"},
		{"esim install " + order + " --json", exitOK, `"lpa": "LPA:1$`, ""},
		{"esim rotate-token " + order, exitUsage, "", "no terminal"},
		{"esim cancel " + order, exitUsage, "", "say --yes"},
		{"esim rotate-token ord_none --json", exitFailure, "", "order_not_found"},
		{"esim rotate-token " + order + " --json", exitOK, `"token": "edt_`, ""},
	})
}

// setsSwitches closes and opens a sale, as an operator.
func (c customer) setsSwitches() {
	c.t.Helper()
	c.runs([]command{
		{"admin switches pause card_topup --reason test", exitOK, "yes", ""},
		{"admin switches list", exitOK, "card_topup", ""},
		{"admin switches resume card_topup --reason test", exitOK, "no", ""},
		{"admin switches pause nonsense --reason test", exitFailure, "", "schema_invalid"},
	})
}

// mintsTokens gives others tokens with a role and an end.
func (c customer) mintsTokens() {
	c.t.Helper()
	c.runs([]command{
		{"admin whoami", exitOK, "dev", ""},
		{"admin tokens mint --name carol --role treasurer --expires 1h --reason test", exitOK, "rco_", ""},
		{"admin tokens mint --name carol --role treasurer --expires 1h --reason test --json", exitOK, `"secret": "rco_`, ""},
		{"admin tokens mint --name dev --role viewer --expires 1h --reason test", exitFailure, "", "schema_invalid"},
		{"admin tokens mint --name carol --role root --expires 1h --reason test", exitUsage, "", "--role is "},
		{"admin tokens mint --name carol --role viewer --expires 0s --reason test", exitUsage, "", "--expires"},
		{"admin orders list --limit -1", exitUsage, "", "no number that fits here"},
		{"admin tokens list --status active", exitOK, "carol", ""},
		{"admin tokens revoke " + nobody + " --yes --reason test", exitFailure, "", "token_not_found"},
	})
}

// asksForApprovals looks at what waits for a second operator.
func (c customer) asksForApprovals() {
	c.t.Helper()
	c.runs([]command{
		{"admin approvals list --status expired", exitOK, "REQUESTED BY", ""},
		{"admin approvals show " + nobody, exitFailure, "", "approval_not_found"},
		{"admin approvals approve " + nobody + " --yes --reason test", exitFailure, "", "approval_not_found"},
		{"admin approvals reject " + nobody + " --reason test", exitFailure, "", "approval_not_found"},
	})
}

// nobody is an id that nothing has.
const nobody = "00000000-0000-4000-8000-000000000000"

// readsOrders lists orders, as an operator.
func (c customer) readsOrders() {
	c.t.Helper()
	c.runs([]command{
		{"admin orders list", exitOK, "REASON", ""},
		{"admin orders list --status fulfilled --kind esim_topup --sort newest", exitOK, "esim_topup", ""},
		{"admin orders list --sort sideways", exitUsage, "", "--sort is newest or oldest"},
		{"admin orders list --request nobody-4.2", exitOK, "REASON", ""},
		{"admin orders list --request no'body", exitFailure, "", "schema_invalid"},
		{"admin orders count", exitOK, "STATUS", ""},
	})
}

// decides looks at one order, which nobody has to decide about.
func (c customer) decides(order string) {
	c.t.Helper()
	c.runs([]command{
		{"admin orders show " + order, exitOK, "payment_required -> settling by buyer", ""},
		{"admin orders show " + order, exitOK, "request ", ""},
		{"admin orders review " + order, exitOK, "no: Only an order in operator_review can be decided.", ""},
		{"admin orders refund " + order + " --yes --reason test", exitFailure, "", "order_not_in_review"},
		{"admin orders retry " + order + " --version 1 --reason test", exitFailure, "", "version_changed"},
	})
}

// readsTheAuditTrail reads what operators have done.
func (c customer) readsTheAuditTrail() {
	c.t.Helper()
	c.runs([]command{
		{"admin audit list --action switch.set --limit 1", exitOK, "switch.set", ""},
		{"admin audit list --since yesterday", exitFailure, "", "schema_invalid"},
		{"admin audit export --action switch.set", exitOK, `"after":"{`, ""},
		{"admin audit export --action switch.set --format csv", exitOK, "id,at,actor,action,subject", ""},
		{"admin audit export --format xml", exitUsage, "", "ndjson or csv"},
	})
}

// readsFigures reads gauges and the summary.
func (c customer) readsFigures() {
	c.t.Helper()
	c.runs([]command{
		{"admin gauges", exitOK, "000 USDC", ""},
		{"admin summary", exitOK, "open, 0 blocking", ""},
	})
}

// worksOnJobs looks for jobs that stopped.
func (c customer) worksOnJobs() {
	c.t.Helper()
	c.runs([]command{
		{"admin closings retry " + nobody + " --revision 1 --reason test", exitFailure, "", "_not_found"},
		{"admin cards show " + nobody, exitFailure, "", "card_not_found"},
		{"admin closings list", exitOK, "STAGE", ""},
		{"admin cancellations list --status succeeded", exitOK, "STAGE", ""},
		{"admin jobs list", exitOK, "ATTEMPTS", ""},
		{"admin jobs list --status succeeded --kind order_fulfill", exitOK, "order_fulfill", ""},
		{"admin jobs list --kind order_fulfil", exitFailure, "", "order_fulfill"},
		{"admin orders list --kind cards", exitFailure, "", "card_issue"},
		{"admin findings list --code transfer", exitFailure, "", "transfer_unmatched"},
		{"admin jobs show " + nobody, exitFailure, "", "job_not_found"},
		{"admin jobs retry " + nobody + " --reason test", exitFailure, "", "job_not_found"},
		{"admin jobs drop " + nobody + " --yes --reason test", exitFailure, "", "job_not_found"},
	})
}

// resolves resolves findings and transfers, of which there are none.
func (c customer) resolves() {
	c.t.Helper()
	c.runs([]command{
		{"admin findings list", exitOK, "RESOLUTION", ""},
		{"admin findings resolve 4711 --reason test", exitFailure, "", "finding_not_found"},
		{"admin transfers list", exitOK, "RESOLUTION", ""},
		{"admin transfers resolve 0x1 --as donation --yes --reason test", exitUsage, "", "with a slash"},
		{
			"admin transfers resolve 0x" + strings.Repeat("1", 64) + "#5 --as donation --yes --reason test", exitFailure, "",
			"transfer_not_found",
		},
	})
}

// prunes looks at what is deleted by itself, and deletes it now.
func (c customer) prunes() {
	c.t.Helper()
	c.runs([]command{
		{"admin challenges retention", exitOK, "stale", ""},
		{"admin challenges prune --json", exitOK, `"deleted"`, ""},
		{"admin activity show --days 1", exitOK, "1 days", ""},
		{"admin activity prune", exitOK, "0 deleted", ""},
	})
}

// servesAgents calls tools as an agent does.
func (c customer) servesAgents() {
	c.t.Helper()
	c.runs([]command{
		{"mcp tools", exitOK, "get_payable_url", ""},
		{"mcp call no_such_tool", exitFailure, "", ""},
		{"card reveal --present tty", exitFailure, "", ""},
	})
}

// comparesTheBooks compares the books, which agree.
func (c customer) comparesTheBooks() {
	c.t.Helper()
	c.runs([]command{
		{"admin fee-jobs list --json", exitOK, `"version": 1`, ""},
		{"admin fee-jobs retry " + nobody + " --reason test", exitFailure, "", "job_not_found"},
		{"admin fee-jobs write-off " + nobody + " --yes --reason test", exitFailure, "", "job_not_found"},
		{"admin fee-jobs list --output csv", exitOK, "ID,ORDER,STATUS,VERSION,REVISION,REASON", ""},
		{"admin fee-jobs retry " + nobody, exitUsage, "", "\"reason\" not set"},
		{"admin jobs drop " + nobody + " --reason test", exitUsage, "", "say --yes"},
		{"admin books compare", exitOK, "checked", ""},
		{"admin books show --json", exitOK, `"findings": []`, ""},
		{"admin reconciliations list --outcome agreed --limit 1", exitOK, "agreed", ""},
		{"admin reconciliations list --outcome lost", exitUsage, "", "--outcome is agreed"},
	})
}

// setsLimits limits what its card pays for.
func (c customer) setsLimits() {
	c.t.Helper()
	c.runs([]command{
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
	})
}

// freezesItsCard freezes its card and unfreezes it.
func (c customer) freezesItsCard() {
	c.t.Helper()
	c.runs([]command{
		{"card transactions", exitOK, "MERCHANT", ""},
		{"card transactions --json", exitOK, `"currency": "USD"`, ""},
		{"card freeze", exitOK, "FROZEN", ""},
		{"card freeze", exitOK, "FROZEN", ""},
		{"card balance", exitFailure, "", "has no card that is ACTIVE"},
		{"card topup 25 --key frozen --yes --max 300", exitFailure, "", "active_card_missing"},
		{"card transactions", exitOK, "MERCHANT", ""},
		{"__complete card unfreeze ''", exitOK, "\tFROZEN ", ""},
		{"card unfreeze --json", exitOK, `"ACTIVE"`, ""},
		{"card unfreeze " + nobody, exitFailure, "", "card_not_found"},
	})
}

// paysWithAnExternalSigner pays from a wallet whose key is in another program, which has to sign what it was asked for.
func (c customer) paysWithAnExternalSigner(ready string) {
	c.t.Helper()
	r, err := dev.ReadReady(ready)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Setenv("ROAMCARD_JOURNAL", filepath.Join(c.t.TempDir(), "journal.json"))
	c.t.Setenv("ROAMCARD_SIGNER", os.Args[0])
	c.t.Setenv("ROAMCARD_SIGNER_ENV", "TEST_SIGNER_KEY")
	c.t.Setenv("ROAMCARD_OPERATOR_TOKEN", "not-the-signers")
	c.t.Setenv("ROAMCARD_SIGNER_ADDRESS", r.Wallets[5].Address)
	c.t.Setenv("TEST_SIGNER_KEY", r.Wallets[5].PrivateKey)
	stdout, stderr, code := runWith(c.t, "card", "buy", "--yes", "--max", "25", "--wait", "--json")
	if code != exitOK || stderr != "" || !json.Valid([]byte(stdout)) {
		c.t.Errorf("an external signer: %d\n%s\n%s", code, stdout, stderr)
	}
	c.t.Setenv("TEST_SIGNER_KEY", r.Wallets[6].PrivateKey)
	_, stderr, code = runWith(c.t, "esim", "buy", "--yes", "--max", "30")
	if code != exitFailure || !strings.Contains(stderr, "signed something else") {
		c.t.Errorf("a signer with another key: %d\n%s", code, stderr)
	}
}
