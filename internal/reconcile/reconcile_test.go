package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/reconcile"
	kit "github.com/roamcard/roamcard/internal/reconcile/reconciletest"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

var (
	bob  = x402.Address{19: 2}
	noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
)

// world is a database with a chain and an issuer in memory.
type world struct {
	t     *testing.T
	db    *pgxpool.Pool
	books store.Treasury
	now   time.Time

	safe  uint64
	chain map[uint64][]reconcile.Transfer
	// refuses says which questions the nodes do not take.
	refuses func(from, to uint64) error
	asked   [][2]uint64
	down    error

	lines []card.Line
	// meanwhile happens when the issuer is read for the nth time.
	reads     int
	meanwhile map[int]func()
	reconcile *reconcile.Reconciler
}

func newWorld(t *testing.T) *world {
	url := storetest.URL(t)
	db, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	w := &world{t: t, db: db, now: noon, safe: 99, chain: map[uint64][]reconcile.Transfer{}, meanwhile: map[int]func(){}}
	w.books = storetest.Open(t, url).Treasury(kit.Asset, kit.PayTo)
	b := w.books
	w.reconcile = reconcile.New(reconcile.Config{
		Chain: w, Issuers: []card.NamedBook{{Book: w}}, Arrivals: b, Unread: b, Books: b, Reports: b, Unmatched: b,
		PayTo: kit.PayTo,
		Now:   func() time.Time { return w.now },
	})
	return w
}

func (w *world) Safe(context.Context) (uint64, error) { return w.safe, w.down }

func (w *world) Transfers(_ context.Context, _ x402.Address, from, to uint64) (found []reconcile.Transfer, err error) {
	w.asked = append(w.asked, [2]uint64{from, to})
	if w.refuses != nil {
		err = w.refuses(from, to)
	}
	if err != nil {
		return nil, err
	}
	for block := from; block <= to; block++ {
		found = append(found, w.chain[block]...)
	}
	return found, nil
}

// Changes shows the lines by their place in the list.
func (w *world) Changes(_ context.Context, after string) (card.Page, error) {
	w.reads++
	if do := w.meanwhile[w.reads]; do != nil {
		do()
	}
	from := 0
	_, _ = fmt.Sscan(after, &from)
	to := min(len(w.lines), from+500)
	return card.Page{Lines: w.lines[from:to], Next: fmt.Sprint(to), More: to < len(w.lines)}, nil
}

func (w *world) run() reconcile.Report {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	r, err := w.reconcile.Run(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) wants(what string, want ...reconcile.Code) reconcile.Report {
	w.t.Helper()
	r := w.run()
	var got []reconcile.Code
	for _, f := range r.Findings {
		got = append(got, f.Code)
	}
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		w.t.Errorf("%s: codes differ (-want +got):\n%s%+v", what, diff, r.Findings[:min(5, len(r.Findings))])
	}
	return r
}

func (w *world) execute(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	if err := w.db.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (w *world) gives(block uint64, n int, value int64) {
	for i := range n {
		w.chain[block] = append(w.chain[block], reconcile.Transfer{
			Transaction: x402.Hash{1, byte(block >> 8), byte(block), byte(i >> 16), byte(i >> 8), byte(i)}, LogIndex: 1,
			Block: block, From: bob, Value: usdc(value),
		})
	}
}

var ids atomic.Int64

func ada(reason string) order.OperatorContext {
	return order.OperatorContext{Operator: "ada", Key: fmt.Sprint("key ", ids.Add(1)), Reason: reason}
}

// sells puts n fulfilled purchases of a card into the books, each with its payment, transfer, card, withdrawn fee,
// postings and the issuer's lines, and an account of its own. It is one statement for each table, whatever n is.
func (w *world) sells(n int) {
	w.t.Helper()
	if err := kit.Sell(w.t.Context(), w.db, 1, n); err != nil {
		w.t.Fatal(err)
	}
}

// TestWhatHappensBetweenTwoReadingsIsNoDifference: the issuer's books are read before ours, and an order is delivered
// in between.
func TestWhatHappensBetweenTwoReadingsIsNoDifference(t *testing.T) {
	w := newWorld(t)
	w.sells(1)
	w.wants("good books")
	// The issuer's line of the card is hidden from the first reading, and there for the second.
	line := card.Line{ID: "crd_1", Card: &card.StatedAccount{
		Account: card.Account{ID: "crd_1", Ref: kit.CardRef(1), State: card.AccountActive, Loaded: 2500}, Balance: 1500}}
	w.execute("DELETE FROM issuer_lines WHERE id = 'crd_1'")
	w.meanwhile[w.reads+3] = func() { w.lines = append(w.lines, line) }
	w.wants("a card that appears between two readings")
	w.execute("DELETE FROM issuer_lines WHERE id = 'crd_1'")
	w.lines = nil
	w.execute("UPDATE reconciliations SET progress = jsonb_set(progress, '{issuers,\"\",feed}', '\"0\"')")
	w.wants("a card that the issuer does not know", reconcile.ProviderRecordMissing)
}

func TestSecondRunFindsTheSameAndPostsNothing(t *testing.T) {
	w := newWorld(t)
	w.safe = 0
	w.run()
	w.safe = 99
	w.gives(50, 3, 7)
	w.chain[50][0].From = x402.Address{19: 3}
	first := w.wants("unmatched transfers", reconcile.TransferUnmatched)
	if n := w.count("SELECT count(*) FROM ledger_postings WHERE kind = 'unmatched'"); n != 3 {
		t.Errorf("%d postings", n)
	}
	second := w.run()
	if diff := cmp.Diff(first.Findings, second.Findings); diff != "" ||
		w.count("SELECT count(*) FROM ledger_postings") != 3 {
		t.Errorf("the second report differs (-first +second):\n%s", diff)
	}
	if first.Blocks() || first.Open() != 3 || first.CompleteAt != first.Began {
		t.Errorf("report %+v", first)
	}
}

func TestChainIsReadInStepsFromWhereItWasLeft(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		what string
		safe uint64
		want [][2]uint64
		next uint64
	}{
		{"the first time", 5000, [][2]uint64{{5000, 5000}}, 5001},
		{"later", 9100, [][2]uint64{{5000, 6999}, {7000, 8999}, {9000, 9100}}, 9101},
		{"soon after", 9101, [][2]uint64{{8801, 9101}}, 9102},
		{"a node far behind", 600, nil, 9102},
	} {
		w.safe, w.asked = tt.safe, nil
		r := w.run()
		if diff := cmp.Diff(tt.want, w.asked); diff != "" || r.FirstBlock != 5000 || r.LastBlock != tt.next-1 {
			t.Errorf("%s: blocks %d to %d (-want +got):\n%s", tt.what, r.FirstBlock, r.LastBlock, diff)
		}
	}
}

// TestRangeThatIsTooLargeIsHalved: the nodes show at most ten transfers at once, and one block has more than that.
func TestRangeThatIsTooLargeIsHalved(t *testing.T) {
	w := newWorld(t)
	w.safe = 0
	w.run()
	const most = 10
	full := uint64(777)
	w.gives(full, most+1, 5)
	for block := uint64(100); block < 200; block++ {
		w.gives(block, 1, 5)
	}
	w.gives(900, 1, 5)
	w.refuses = func(from, to uint64) error {
		n := 0
		for block := from; block <= to; block++ {
			n += len(w.chain[block])
		}
		if n > most {
			return errors.New("query returned more than 10 results")
		}
		return nil
	}
	w.safe = 1500
	r := w.wants("a block that no node shows", reconcile.BlockUnread, reconcile.TransferUnmatched)
	if r.LastBlock != 1500 || r.Blocks() || w.count("SELECT count(*) FROM transfers") != 101 || len(w.asked) > 150 {
		t.Errorf("up to block %d, %d questions, %d arrivals, blocks %t", r.LastBlock, len(w.asked),
			w.count("SELECT count(*) FROM transfers"), r.Blocks())
	}
	if f := r.Findings[0]; f.Subject != fmt.Sprint(full) {
		t.Errorf("finding %+v", f)
	}
	w.wants("it stays", reconcile.BlockUnread, reconcile.TransferUnmatched)
	w.refuses = nil
	w.wants("it is read after all", reconcile.TransferUnmatched)
	if n := w.count("SELECT count(*) FROM transfers"); n != 101+most+1 {
		t.Errorf("%d arrivals", n)
	}
	// Nodes that show nothing at all are not the blocks' fault.
	w.refuses = func(uint64, uint64) error { return errors.New("method not found") }
	w.safe = 1600
	if _, err := w.reconcile.Run(t.Context()); err == nil {
		t.Error("a comparison of what nobody reads")
	}
}

func TestBookThatCannotBeReadLeavesTheLastReport(t *testing.T) {
	w := newWorld(t)
	if _, err := w.reconcile.LastFor(t.Context(), "ada"); codeOf(err) != fault.ReportNotFound {
		t.Errorf("before the first report: %v", err)
	}
	w.run()
	last := w.now
	w.down = errors.New("no answer")
	if _, err := w.reconcile.RunFor(t.Context(), "ada"); codeOf(err) != fault.DependencyDown {
		t.Errorf("%v", err)
	}
	if r, err := w.reconcile.LastFor(t.Context(), "ada"); err != nil || !r.At.Equal(last) {
		t.Errorf("%+v, %v", r, err)
	}
	if n := w.count("SELECT count(*) FROM audit WHERE actor = 'ada'"); n != 3 {
		t.Errorf("%d acts", n)
	}
}

func codeOf(err error) fault.Code {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f.Code
	}
	return ""
}

// fickle is an issuer without cards, which may be silent.
type fickle struct {
	silent error
	reads  int
}

func (f *fickle) Changes(context.Context, string) (card.Page, error) {
	f.reads++
	return card.Page{Next: "0"}, f.silent
}

// TestSilentIssuerHoldsUpNobodyElse: the books of the others are compared, and what its own were when they were read
// last is no difference.
func TestSilentIssuerHoldsUpNobodyElse(t *testing.T) {
	w := newWorld(t)
	b, other := w.books, &fickle{}
	w.reconcile = reconcile.New(reconcile.Config{
		Chain: w, Issuers: []card.NamedBook{{Provider: "other", Book: other}, {Book: w}}, Arrivals: b, Unread: b, Books: b,
		Reports: b, Unmatched: b, PayTo: kit.PayTo, Now: func() time.Time { return w.now },
	})
	gate := availability.NewBooks(availability.BooksConfig{
		Standings: b, MaxAge: 30 * time.Minute, Now: func() time.Time { return w.now },
	})
	w.sells(2)
	w.execute("UPDATE cards SET provider = 'other' WHERE order_id = $1", kit.OrderID(2))
	w.execute("UPDATE issuer_lines SET provider = 'other' WHERE order_id = $1", kit.OrderID(2))
	w.execute(`UPDATE jobs SET payload = payload || '{"provider": "other"}' WHERE payload::text LIKE $1`,
		"%"+string(kit.OrderID(2))+"%")
	whole := w.wants("good books").CompleteAt
	read := w.now

	other.silent, other.reads = errors.New("no answer"), 0
	w.execute("DELETE FROM issuer_lines WHERE id = 'crd_1'")
	r := w.wants("a silent issuer, and a difference of another one's", reconcile.ProviderRecordMissing,
		reconcile.ProviderSilent)
	if other.reads != 1 {
		t.Errorf("the silent issuer was asked %d times", other.reads)
	}
	silent := r.Findings[len(r.Findings)-1]
	if silent.Subject != "other" || silent.Blocks || !strings.Contains(silent.Detail, read.UTC().Format(time.RFC3339)) {
		t.Errorf("told as %+v", silent)
	}
	if !r.CompleteAt.Equal(whole) {
		t.Errorf("complete at %v while one issuer is silent, was %v", r.CompleteAt, whole)
	}
	w.execute("DELETE FROM issuer_lines WHERE id = 'crd_2'")
	r = w.wants("a line that a silent issuer may have by now", reconcile.ProviderRecordMissing, reconcile.ProviderSilent)
	if len(r.Findings) != 2 || r.Findings[0].Order != string(kit.OrderID(1)) {
		t.Errorf("found %+v", r.Findings)
	}

	for provider, closed := range map[string]fault.Code{"other": fault.TreasuryUnreconciled, "": "", "unknown": ""} {
		if got := codeOf(gate.OpenFor(t.Context(), provider)); got != "" {
			t.Errorf("the books of %q close it at once: %s", provider, got)
		}
		w.now = read.Add(30*time.Minute + time.Second)
		w.run()
		if got := codeOf(gate.OpenFor(t.Context(), provider)); got != closed {
			t.Errorf("after half an hour, the books of %q: %q, want %q", provider, got, closed)
		}
		w.now = read
	}
	w.now = read.Add(time.Hour)
	other.silent = nil
	r = w.wants("it answers again", reconcile.ProviderRecordMissing)
	if len(r.Findings) != 2 {
		t.Errorf("found %+v", r.Findings)
	}
	if got := codeOf(gate.OpenFor(t.Context(), "other")); got != "" {
		t.Errorf("its books are read: %q", got)
	}
}

// TestAllIssuersSilent: the comparison goes on without them, names them, and says nothing about what they have.
func TestAllIssuersSilent(t *testing.T) {
	w := newWorld(t)
	b := w.books
	one, two := &fickle{}, &fickle{}
	w.reconcile = reconcile.New(reconcile.Config{
		Chain: w, Issuers: []card.NamedBook{{Provider: "one", Book: one}, {Provider: "two", Book: two}}, Arrivals: b,
		Unread: b, Books: b, Reports: b, Unmatched: b, PayTo: kit.PayTo, Now: func() time.Time { return w.now },
	})
	whole := w.wants("good books").CompleteAt
	one.silent, two.silent = errors.New("no answer"), errors.New("no answer either")
	w.sells(1)
	w.execute("DELETE FROM issuer_lines")
	w.execute("UPDATE cards SET provider = 'one'")
	w.execute(`UPDATE jobs SET payload = payload || '{"provider": "one"}'`)
	w.safe = 199
	w.gives(150, 1, 7)
	r := w.wants("what the chain has is compared", reconcile.ProviderSilent, reconcile.TransferUnmatched)
	if got := r.Silent(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("%q are silent", got)
	}
	if !r.CompleteAt.Equal(whole) {
		t.Errorf("complete at %v without an issuer, was %v", r.CompleteAt, whole)
	}
	if last, err := w.reconcile.LastFor(t.Context(), "ada"); err != nil || !last.At.Equal(r.At) {
		t.Errorf("the report of %v is stored, %v", last.At, err)
	}
	one.silent, two.silent = nil, nil
	r = w.wants("they answer again, and lack what was sold", reconcile.ProviderRecordMissing, reconcile.TransferUnmatched)
	if got := r.Silent(); len(got) > 0 {
		t.Errorf("%q are silent", got)
	}
}

// TestGateFollowsTheStandings: who is kept from topping up by what, and for how long.
func TestGateFollowsTheStandings(t *testing.T) {
	w := newWorld(t)
	w.sells(2)
	now := noon
	gate := availability.NewBooks(availability.BooksConfig{
		Standings: w.books, MaxAge: 30 * time.Minute, Now: func() time.Time { return now },
	})
	is := func(what string, all, first, second fault.Code) {
		t.Helper()
		now = now.Add(time.Second)
		got := []fault.Code{codeOf(gate.Open(t.Context())), codeOf(gate.OpenTo(t.Context(), kit.Owner(1))),
			codeOf(gate.OpenTo(t.Context(), kit.Owner(2)))}
		if diff := cmp.Diff([]fault.Code{all, first, second}, got); diff != "" {
			t.Errorf("%s: everybody, the first owner, the second (-want +got):\n%s", what, diff)
		}
	}
	const closed = fault.TreasuryUnreconciled
	is("before the first comparison", "", "", "")
	w.gives(90, 1, 7)
	w.wants("an unmatched transfer", reconcile.TransferUnmatched)
	is("an unmatched transfer", "", "", "")
	w.execute("UPDATE payments SET value = value + 1 WHERE order_id = $1", kit.OrderID(1))
	w.run()
	is("a payment of the first owner's", "", closed, "")
	w.execute("UPDATE payments SET value = value - 1 WHERE order_id = $1", kit.OrderID(1))
	w.run()
	is("fixed books", "", "", "")
	// A posting without an owner blocks everybody.
	w.execute("INSERT INTO ledger_postings (id, order_id, owner, kind, at) VALUES ('unmatched/x', '', '', 'unmatched', " +
		"now())")
	r := w.wants("a posting that nobody can explain", reconcile.LedgerUnbalanced, reconcile.PostingUnexpected,
		reconcile.TransferUnmatched)
	is("a posting that nobody can explain", closed, "", "")
	for _, f := range r.Findings {
		if f.Code != reconcile.TransferUnmatched {
			if _, err := w.reconcile.ResolveFindingFor(t.Context(), f.ID, ada("a test's")); err != nil {
				t.Fatal(err)
			}
		}
	}
	is("explained by an operator", "", "", "")
	now = w.now.Add(30*time.Minute - time.Second)
	is("a comparison as old as may be", "", "", "")
	now = w.now.Add(30 * time.Minute)
	is("a comparison that is too old", closed, "", "")
}

// TestNobodyClosesTheGateForOthers: what strangers, merchants and the issuer's staff can cause concerns one wallet, or
// none.
func TestNobodyClosesTheGateForOthers(t *testing.T) {
	w := newWorld(t)
	w.sells(3)
	w.wants("good books")
	gate := availability.NewBooks(availability.BooksConfig{Standings: w.books, MaxAge: time.Hour,
		Now: func() time.Time { return w.now }})
	shut := func() (all []int) {
		t.Helper()
		if err := gate.Open(t.Context()); err != nil {
			all = append(all, 0)
		}
		for i := range 3 {
			if err := gate.OpenTo(t.Context(), kit.Owner(i+1)); err != nil {
				all = append(all, i+1)
			}
		}
		return all
	}
	// The first owner uses a claimed nonce for one unit, and the claim dies.
	w.execute("UPDATE payments SET status = 'dead', transaction = NULL, block = NULL, log_index = NULL, settled_at = "+
		"NULL WHERE order_id = $1", kit.OrderID(
		1))
	w.execute("UPDATE orders SET status = 'payment_required', updated_at = $2 WHERE id = $1", kit.OrderID(1), w.now)
	w.clear(1)
	var nonce string
	if err := w.db.QueryRow(t.Context(), "SELECT nonce FROM payments WHERE order_id = $1",
		kit.OrderID(1)).Scan(&nonce); err != nil {
		t.Fatal(err)
	}
	hash, err := x402.ParseHash(nonce)
	if err != nil {
		t.Fatal(err)
	}
	w.chain[95] = []reconcile.Transfer{{Transaction: x402.Hash{7}, Block: 95, From: kit.Owner(1), Value: 1, Nonce: hash}}
	if r := w.wants("a nonce used for one unit", reconcile.TransferUnmatched); r.Blocks() || shut() != nil {
		t.Errorf("closed for %v", shut())
	}
	// An unowned card, and an unowned movement on the second owner's card.
	w.line(card.Line{ID: "crd_x",
		Card: &card.StatedAccount{Account: card.Account{ID: "crd_x", Ref: fulfilment.Ref(uuid.New()),
			State: card.AccountActive, Loaded: 1}, Balance: 1}})
	if r := w.wants("an unowned card", reconcile.ProviderUnknown, reconcile.TransferUnmatched); r.Blocks() ||
		shut() != nil {
		t.Errorf("closed for %v", shut())
	}
	w.line(card.Line{ID: "mov_x",
		Movement: &card.MovementRecord{Ref: fulfilment.Ref(uuid.New()), Account: kit.Account(2), Direction: card.Load,
			Amount: 5, State: card.MoveSucceeded}})
	w.wants("an unowned movement", reconcile.ProviderUnknown, reconcile.TransferUnmatched)
	if diff := cmp.Diff([]int{2}, shut()); diff != "" {
		t.Errorf("closed for (-want +got):\n%s", diff)
	}
	// A merchant's credit on the third owner's card.
	w.line(card.Line{ID: kit.Account(3),
		Card: &card.StatedAccount{Account: card.Account{ID: kit.Account(3), Ref: kit.CardRef(3), State: card.AccountActive,
			Loaded: 2500}, Balance: 1700}})
	w.wants("a merchant's credit", reconcile.CardBalanceHigh, reconcile.ProviderUnknown, reconcile.TransferUnmatched)
	if diff := cmp.Diff([]int{2}, shut()); diff != "" {
		t.Errorf("closed for (-want +got):\n%s", diff)
	}
}

// TestWhatIsResolvedStaysSoUntilThereIsMore resolves a merchant's credit; only a larger one is news.
func TestWhatIsResolvedStaysSoUntilThereIsMore(t *testing.T) {
	w := newWorld(t)
	w.sells(1)
	credit := func(balance int64) {
		w.line(card.Line{ID: kit.Account(1), Card: &card.StatedAccount{
			Account: card.Account{ID: kit.Account(1), Ref: kit.CardRef(1), State: card.AccountActive, Loaded: 2500},
			Balance: cents(balance)}})
	}
	w.wants("good books")
	credit(1700)
	f := w.wants("a merchant's credit", reconcile.CardBalanceHigh).Findings[0]
	act := ada("a refund by the merchant, ticket 12")
	for range 2 {
		got, err := w.reconcile.ResolveFindingFor(t.Context(), f.ID, act)
		if err != nil || got.Resolved == nil || got.Resolved.As != reconcile.Explained || got.Resolved.Reason != act.Reason ||
			got.Resolved.Operator != "ada" {
			t.Errorf("resolved %+v, %v", got, err)
		}
	}
	other := act
	other.Reason = "something else"
	if _, err := w.reconcile.ResolveFindingFor(t.Context(), f.ID, other); codeOf(err) != fault.IdempotencyKeyReused {
		t.Errorf("the key for another reason: %v", err)
	}
	if _, err := w.reconcile.ResolveFindingFor(t.Context(), f.ID, ada("again")); codeOf(err) != fault.FindingResolved {
		t.Errorf("resolved again: %v", err)
	}
	if _, err := w.reconcile.ResolveFindingFor(t.Context(), f.ID+1000, ada("what")); codeOf(err) != fault.FindingNotFound {
		t.Errorf("resolved what is not: %v", err)
	}
	r := w.wants("resolved")
	if len(r.Resolved) != 1 || r.Resolved[0].Resolution != reconcile.Explained || r.Open() != 0 {
		t.Errorf("report %+v", r)
	}
	credit(1600)
	w.wants("some of it is spent")
	credit(1500)
	w.wants("all of it is spent")
	credit(1700)
	w.wants("the same again")
	credit(1701)
	if r := w.wants("one more cent", reconcile.CardBalanceHigh); r.Findings[0].ID != f.ID || r.Resolved != nil {
		t.Errorf("report %+v", r)
	}
	if n := w.count("SELECT count(*) FROM audit WHERE action = 'finding.resolve' AND reason = $1 AND before->>'code' = "+
		"'card_balance_high'", act.Reason); n != 1 {
		t.Errorf("%d audit rows", n)
	}
}

// TestEveryFindingCanBeResolved by the one route, also an unowned transfer and a block that nobody shows.
func TestEveryFindingCanBeResolved(t *testing.T) {
	w := newWorld(t)
	w.run()
	w.gives(105, 1, 7)
	w.gives(106, 1, 7)
	w.refuses = func(from, to uint64) error {
		if from <= 106 && to >= 106 {
			return errors.New("response size exceeded")
		}
		return nil
	}
	w.safe = 110
	for _, f := range w.wants("two findings", reconcile.BlockUnread, reconcile.TransferUnmatched).Findings {
		if _, err := w.reconcile.ResolveFindingFor(t.Context(), f.ID, ada("understood")); err != nil {
			t.Errorf("%s: %v", f.Code, err)
		}
	}
	r := w.wants("both are resolved")
	if len(r.Resolved) != 2 || w.count("SELECT count(*) FROM transfer_resolutions WHERE resolution = 'known'") != 1 {
		t.Errorf("report %+v", r)
	}
	page, next, err := w.reconcile.FindingsFor(t.Context(), reconcile.FindingQuery{Resolved: true, Limit: 1}, ada(""))
	if err != nil || len(page) != 1 || next == 0 {
		t.Errorf("%+v, %d, %v", page, next, err)
	}
	for code, want := range map[reconcile.Code]fault.Code{"transfer": fault.SchemaInvalid, reconcile.OrderAmount: ""} {
		_, _, err := w.reconcile.FindingsFor(t.Context(), reconcile.FindingQuery{Code: code, Limit: 1}, ada(""))
		if fault.Of(err) != want || want != "" && !strings.Contains(err.Error(), "transfer_unmatched") {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// TestOldRowsAreFoundByTheRounds changes rows that nothing had changed for a long time.
func TestOldRowsAreFoundByTheRounds(t *testing.T) {
	w := newWorld(t)
	w.sells(5)
	w.wants("good books")
	w.now = w.now.Add(24 * time.Hour)
	w.wants("a day later")
	for what, tt := range map[string]struct {
		change, fix string
		want        []reconcile.Code
	}{
		"an entry": {"UPDATE ledger_entries SET amount = amount - 1 WHERE account = 'customer:" + kit.OrderID(4) +
			"' AND posting_id LIKE 'settled/%'",
			"UPDATE ledger_entries SET amount = amount + 1 WHERE account = 'customer:" + kit.OrderID(4) +
				"' AND posting_id LIKE 'settled/%'",
			[]reconcile.Code{reconcile.LedgerUnbalanced, reconcile.PostingDiffers}},
		"an order": {"UPDATE orders SET price_usd_cents = 2501 WHERE id = '" + kit.OrderID(2) + "'",
			"UPDATE orders SET price_usd_cents = 2500", []reconcile.Code{reconcile.OrderAmount}},
		"a card": {"UPDATE cards SET load_usd_cents = 2501 WHERE order_id = '" + kit.OrderID(2) + "'",
			"UPDATE cards SET load_usd_cents = 2500",
			[]reconcile.Code{reconcile.PostingDiffers, reconcile.ProviderDiffers}},
		"an arrival": {"DELETE FROM transfers WHERE id = 3", "", []reconcile.Code{reconcile.PaymentWithoutTransfer}},
	} {
		w.unlocked(tt.change)
		w.wants(what, tt.want...)
		if tt.fix != "" {
			w.unlocked(tt.fix)
			w.wants(what + ", fixed")
		} else {
			if err := kit.Sell(t.Context(), w.db, 3, 3, "transfers"); err != nil {
				t.Fatal(err)
			}
			w.run()
		}
	}
}

// TestManyUnmatchedTransfersAreSummed: a report takes the same room however many unowned transfers there are.
// TestBalancesAreThoseOfTheLedger compares for longer than entries may come late, from before the first of them on.
func TestBalancesAreThoseOfTheLedger(t *testing.T) {
	w := newWorld(t)
	for minute := range 40 {
		if first := map[int]int{1: 1, 25: 3}[minute]; first > 0 {
			if err := kit.Sell(t.Context(), w.db, first, first+1); err != nil {
				t.Fatal(err)
			}
		}
		for _, b := range w.run().Balances {
			if sum := w.count("SELECT sum(amount) FROM ledger_entries WHERE account = $1 OR account LIKE $1 || ':%'",
				b.Account); int64(b.Units) != int64(sum) {
				t.Errorf("after %d minutes %s has %d, want %d", minute, b.Account, b.Units, sum)
			}
		}
	}
}

func TestManyUnmatchedTransfersAreSummed(t *testing.T) {
	w := newWorld(t)
	w.run()
	const n = 2_500
	w.gives(105, n, 1)
	w.safe = 110
	r := w.run()
	if len(r.Findings) != 100 || r.Open() != n || w.count("SELECT count(*) FROM ledger_postings") != n {
		t.Errorf("%d listed, %d open", len(r.Findings), r.Open())
	}
	if size := w.count("SELECT length(report::text) FROM reconciliations"); size > 100_000 {
		t.Errorf("a report of %d bytes", size)
	}
	if _, err := w.reconcile.ResolveFor(t.Context(), w.chain[105][0].Place(), reconcile.Donation,
		ada("thanks")); err != nil {
		t.Fatal(err)
	}
	r = w.run()
	if r.Open() != n-1 || len(r.Resolved) != 1 || r.Resolved[0].Resolution != reconcile.Donation {
		t.Errorf("%d open, resolved %+v", r.Open(), r.Resolved)
	}
}
