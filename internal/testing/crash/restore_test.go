package crash_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/invariants"
)

// bill is one purchase by the official client, which signs a new authorization whenever it asks.
type bill struct {
	buyer *buyer
	Path  string
	Body  map[string]any
	// tally is what the buyer had before the loss.
	tally invariants.Tally
	// order is what was answered.
	order paid
}

// paid is what a 200 tells.
type paid struct {
	OrderID  string
	Status   string
	Replayed bool
	Payment  struct{ Transaction, Amount string }
}

func (w *world) bill(t *testing.T, b *buyer, kind string) *bill {
	t.Helper()
	n := &bill{buyer: b}
	n.Path, n.Body = map[string]string{
		issue: "/api/card/purchase", topup: "/api/card/topup", esim: "/api/esim/purchase",
	}[kind], map[string]any{}
	n.Body["idempotencyKey"] = b.purchase
	if kind == topup {
		n.Body["amountUsdCents"] = 3333
	}
	return n
}

func (n *bill) privateKey() string { return "0x" + hex.EncodeToString(crypto.FromECDSA(n.buyer.key)) }

// moreData makes a bill of an eSIM one of more data for it, with a key of its own.
func (n *bill) moreData(t *testing.T) {
	t.Helper()
	if n.order.OrderID == "" {
		t.Fatalf("no eSIM is bought at %s", n.Path)
	}
	n.buyer.purchase += "-more"
	n.Path, n.Body["idempotencyKey"] = "/api/esim/orders/"+n.order.OrderID+"/topup", n.buyer.purchase
}

// The drill: a dump, 24 sales with top-ups of cards and eSIMs, the dump restored, the program started, `roamcard
// recover`. Some buyers repeat before the recovery and some after it, with the official client and their keys. Each
// ends with one purchase, and nobody pays twice.
func TestRestoredFromAnOlderDump(t *testing.T) {
	t.Parallel()
	tortures(t)
	w := newWorld(t)
	p := w.start(t, relayer, "")
	var owners, travellers []*bill
	for range 4 {
		owners = append(owners, w.bill(t, w.buyer(t), issue))
		travellers = append(travellers, w.bill(t, w.buyer(t), esim))
	}
	w.buys(t, slices.Concat(owners, travellers), http.StatusOK)
	w.waitIdle(t)
	p.stop(t)
	older, lostFrom := w.dump(t), w.sent(t)

	p = w.start(t, relayer, "")
	var lost []*bill
	for i := range 16 {
		lost = append(lost, w.bill(t, w.buyer(t), []string{issue, esim}[i%2]))
	}
	// Top-ups come last, for they wait for the recovery: a comparison may find the books in disorder meanwhile.
	for _, o := range owners {
		o.buyer.turnToTopup()
		lost = append(lost, w.bill(t, o.buyer, topup))
	}
	for _, o := range travellers {
		o.moreData(t)
		lost = append(lost, o)
	}
	w.buys(t, lost, http.StatusOK)
	w.waitIdle(t)
	for _, n := range lost {
		n.tally = w.tell(t, n.buyer)
	}
	p.Kill(t)
	w.restore(t, older)
	w.loses(lostFrom, w.sent(t))
	w.answers.all = nil // what was told of lost orders is not in the books any more

	p = w.start(t, relayer, "")
	early, late := lost[:len(lost)/2], lost[len(lost)/2:]
	w.repeats(t, early)
	w.waitIdle(t)

	plan, code := w.recovers(t)
	if n := plan.count("adopt", false); n != len(late) || code != 6 {
		t.Fatalf("the recovery would adopt %d of %d, and ended with %d:\n%+v", n, len(late), code, plan.Steps)
	}
	if again, _ := w.recovers(t); again.count("adopt", false) != len(late) {
		t.Fatalf("showing the plan changed it:\n%+v", again.Steps)
	}
	if plan, code = w.recovers(t, "--apply", "--operator", "ada", "--reason",
		"the drill"); plan.count("adopt", true) != len(late) || code != 0 {
		t.Fatalf("the recovery ended with %d:\n%+v", code, plan.Steps)
	}
	if plan, code = w.recovers(t, "--apply", "--operator", "ada", "--reason", "the drill"); len(plan.Steps) != 0 ||
		code != 0 {
		t.Fatalf("a second recovery ended with %d:\n%+v", code, plan.Steps)
	}
	w.waitIdle(t)
	for _, n := range late { // before they have asked again
		w.stillHas(t, n)
	}
	w.repeats(t, lost)
	w.buys(t, []*bill{w.bill(t, w.buyer(t), issue), w.bill(t, w.buyer(t), esim)}, http.StatusOK)
	w.waitIdle(t)
	p.stop(t)
	for _, n := range lost {
		w.stillHas(t, n)
	}
	w.checkBooks(t)
}

// atATime is how many purchases one test makes at once.
const atATime = 5

// buys lets the official client buy, each with a new authorization.
func (w *world) buys(t *testing.T, bills []*bill, status int) []apptest.Told {
	t.Helper()
	answers := make([]apptest.Told, len(bills))
	official, next := apptest.Official(t, apptest.TypeScript), atomic.Int64{}
	var all sync.WaitGroup
	for range atATime {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(bills)); i = next.Add(1) - 1 {
				told, err := official.Buy(t.Context(), apptest.Wanted{
					BaseURL: "http://" + w.addr, PrivateKey: bills[i].privateKey(), Path: bills[i].Path, Body: bills[i].Body,
				})
				if answers[i] = told; err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i, a := range answers {
		if a.Status != status {
			if status != 0 {
				t.Errorf("%s by %s: %d %s", bills[i].Path, bills[i].buyer.address, a.Status, a.Body)
			}
			continue
		}
		if err := json.Unmarshal([]byte(a.Body), &bills[i].order); err != nil {
			t.Errorf("read the order: %v", err)
		}
	}
	return answers
}

// repeats lets buyers ask again, with the same keys, until all are answered: as people do, they wait while the service
// says so.
func (w *world) repeats(t *testing.T, bills []*bill) {
	t.Helper()
	w.asksUntilPaid(t, bills)
	for _, n := range bills {
		if !n.order.Replayed {
			t.Errorf("%s by %s is not answered as a repeat: %+v", n.Path, n.buyer.address, n.order)
		}
	}
}

// asksUntilPaid lets buyers ask until all are answered with an order.
func (w *world) asksUntilPaid(t *testing.T, bills []*bill) {
	t.Helper()
	left := slices.Clone(bills)
	w.await(t, "every repeat is answered", func() error {
		answers := w.buys(t, left, 0)
		var open []*bill
		var why string
		for i, a := range answers {
			switch a.Status {
			case http.StatusOK:
				if err := json.Unmarshal([]byte(a.Body), &left[i].order); err != nil {
					t.Errorf("read the order: %v", err)
				}
			case http.StatusServiceUnavailable, 0:
				open, why = append(open, left[i]), a.Body
			default:
				t.Errorf("%s by %s again: %d %s", left[i].Path, left[i].buyer.address, a.Status, a.Body)
			}
		}
		if left = open; len(open) > 0 {
			return fmt.Errorf("%d are told to wait: %s", len(open), why)
		}
		return nil
	})
}

// stillHas checks that a buyer has what it had before the loss, in all books.
func (w *world) stillHas(t *testing.T, n *bill) {
	t.Helper()
	if got := w.tell(t, n.buyer); got != n.tally {
		t.Errorf("%s by %s: has %+v, had %+v", n.Path, n.buyer.address, got, n.tally)
	}
}

func (w *world) tell(t *testing.T, b *buyer) invariants.Tally {
	t.Helper()
	got, err := invariants.Tell(t.Context(), w.books, b.address.String())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// sent counts the relayer's transactions.
func (w *world) sent(t *testing.T) int64 { t.Helper(); return w.nonce(t, "latest") }

// loses says that the database knows no more of the relayer's account nonces from one on, and below another.
func (w *world) loses(from, to int64) {
	w.books.Lost = append(w.books.Lost, invariants.Gap{Relayer: w.books.Relayers[0], From: from, To: to})
}

// nonce is that of the relayer's next transaction, by the blocks up to a tag.
func (w *world) nonce(t *testing.T, tag string) int64 {
	t.Helper()
	var count string
	if err := json.Unmarshal(w.rpc(t, "eth_getTransactionCount", w.books.Relayers[0], tag), &count); err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(count, "0x"), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// waitIdle waits until no order is in progress.
func (w *world) waitIdle(t *testing.T) {
	t.Helper()
	if err := invariants.Await(apptest.Context(t), w.books); err != nil {
		t.Fatal(err)
	}
}

// plan is what the command writes as JSON.
type plan struct {
	Steps []struct {
		Act, Detail, Transfer, Payer, Kind, Reference string
		Done                                          bool
	}
}

func (p plan) count(act string, done bool) (n int) {
	for _, s := range p.Steps {
		if s.Act == act && s.Done == done {
			n++
		}
	}
	return n
}

// recovers runs the command while the world's service runs.
func (w *world) recovers(t *testing.T, args ...string) (p plan, code int) {
	t.Helper()
	cmd := w.command(t, append([]string{"recover", "--json"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if _, ended := errors.AsType[*exec.ExitError](err); !ended {
			t.Fatalf("run the command: %v", err)
		}
	}
	if err := json.Unmarshal(stdout.Bytes(), &p); err != nil {
		t.Fatalf("the command wrote %v: %s\n%s", err, stdout.String(), stderr.String())
	}
	return p, cmd.ProcessState.ExitCode()
}

// command is the program with the world's settings.
func (w *world) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), apptest.Binary(t), args...)
	cmd.Env = append(apptest.Environ(), w.settings()...)
	return cmd
}

// settings are the world's, as the environment of the program.
func (w *world) settings() []string {
	return []string{
		"ROAMCARD_ENVIRONMENT=sandbox", "ROAMCARD_BASE_URL=http://" + w.addr, "ROAMCARD_DATABASE__URL=" + w.books.DatabaseURL,
		"ROAMCARD_CHAIN__RPC_URL=" + w.books.RPCURL, "ROAMCARD_PAYMENT__PAY_TO=" + w.books.PayTo,
		"ROAMCARD_RELAYER__KEYS=" + devnet.WalletsOf(devnet.RoleRelayer)[0].PrivateKey,
		"ROAMCARD_TREASURY__KEY=" + devnet.WalletsOf(devnet.RoleTreasury)[0].PrivateKey,
		"ROAMCARD_ISSUER__URL=" + w.books.SandboxURL, "ROAMCARD_ISSUER__KEY=" + sandbox.DevKey,
		"ROAMCARD_SUPPLIER__URL=" + w.books.SandboxURL, "ROAMCARD_SUPPLIER__KEY=" + sandbox.DevKey,
		"ROAMCARD_ESIM__KEYS=k1:" + strings.Repeat("5a", 32), "ROAMCARD_ESIM__TOKEN_KEY=" + strings.Repeat("5a", 32),
		"ROAMCARD_QUOTE__KEY=" + strings.Repeat("5a", 32),
	}
}

// dump copies the world's database, which nothing may be connected to, and returns the copy's name.
func (w *world) dump(t *testing.T) string {
	t.Helper()
	name := w.database(t)
	w.administer(t, "CREATE DATABASE "+name+"_older TEMPLATE "+name)
	return name + "_older"
}

// restore puts an older state in the place of the world's database.
func (w *world) restore(t *testing.T, older string) {
	t.Helper()
	name := w.database(t)
	w.administer(t,
		"ALTER DATABASE "+name+" WITH ALLOW_CONNECTIONS false",
		"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '"+name+"'",
		"ALTER DATABASE "+name+" RENAME TO "+name+"_lost",
		"ALTER DATABASE "+older+" RENAME TO "+name,
	)
	t.Cleanup(func() { w.administer(t, "DROP DATABASE "+name+"_lost WITH (FORCE)") })
}

func (w *world) database(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(w.books.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

// administer runs statements on the world's server, outside its database.
func (w *world) administer(t *testing.T, statements ...string) {
	t.Helper()
	u, err := url.Parse(w.books.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/postgres"
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// Orders were lost before their delivery, after their refund, or were created before the dump. The recovery itself is
// killed between its steps.
func TestRecoveryOfOrdersLostInEveryState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start(t, relayer, "")
	opener := w.buyer(t)
	opener.later = true
	if err := opener.challenge(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.stop(t)
	older, lostFrom := w.dump(t), w.sent(t)

	p = w.start(t, relayer, "")
	opener.insist(t, opener.sign(t))
	refused, cards, travelling := w.buyer(t), w.bill(t, w.buyer(t), issue), w.bill(t, w.buyer(t), esim)
	refused.turnToRefusal()
	if err := refused.challenge(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused.insist(t, refused.sign(t))
	w.buys(t, []*bill{cards, travelling}, http.StatusOK)
	w.waitIdle(t)
	p.stop(t)
	// Paid and not delivered: the program dies when the payment is recorded.
	p = w.start(t, relayer, fault("settle.committed", "kill"))
	unlucky := w.buyer(t)
	if err := unlucky.challenge(t.Context()); err != nil {
		t.Fatal(err)
	}
	unlucky.press(t, p, "", false)
	p.awaitKill(t)
	had := map[*buyer]invariants.Tally{}
	for _, b := range []*buyer{opener, refused, cards.buyer, travelling.buyer} {
		had[b] = w.tell(t, b)
	}
	w.restore(t, older)
	w.loses(lostFrom, w.sent(t))
	w.answers.all = nil

	p = w.start(t, relayer, "")
	shown, _ := w.recovers(t)
	if shown.count("adopt", false) != 3 || shown.count("leave", false) != 1 || len(shown.Steps) != 4 {
		t.Fatalf("the plan is %+v", shown.Steps)
	}
	apply := []string{"--apply", "--operator", "ada", "--reason", "the drill"}
	for _, point := range []string{"recover.before_commit", "recover.committed"} {
		cmd := w.command(t, append([]string{"recover"}, apply...)...)
		cmd.Env = append(cmd.Env, "ROAMCARD_FAULT="+point+":kill")
		if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != -1 {
			t.Fatalf("the recovery was not killed at %s: %v\n%s", point, err, out)
		}
	}
	if plan, _ := w.recovers(t, apply...); plan.count("adopt", true) != 2 {
		t.Fatalf("after it was killed, the recovery did %+v", plan.Steps)
	}
	w.waitIdle(t)
	for b, tally := range had {
		want := tally
		if b == refused {
			// the order, and the card that the issuer declined; its money is back, and nothing is left to do
			want.Orders, want.Cards = 0, 0
		}
		if got := w.tell(t, b); got != want {
			t.Errorf("%s has %+v, had %+v", b.address, got, want)
		}
	}
	// Returned money pays for nothing: the same wallet buys, and pays.
	again := w.bill(t, refused, issue)
	again.Body["idempotencyKey"] = refused.purchase + "-again"
	w.buys(t, []*bill{again}, http.StatusOK)
	w.waitIdle(t)
	if got := w.tell(t, refused); got.Transfers != 2 || got.Refunds != 1 || got.Cards != 1 {
		t.Errorf("after a refund that was lost, the buyer's next card came to %+v", got)
	}
	// A buyer who paid for nothing gets the money back as soon as an operator decides so.
	if plan, code := w.recovers(t, append(apply, "--return-after", "1ms")...); plan.count("return", true) != 1 ||
		code != 0 {
		t.Fatalf("returning ended with %d: %+v", code, plan.Steps)
	}
	w.waitIdle(t)
	if got := w.tell(t, unlucky); got.Transfers != 1 || got.Refunds != 1 || got.Cards != 0 {
		t.Errorf("who paid in vain has %+v", got)
	}
	p.stop(t)
}
