package store_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// posted are the entries of the ledger, by posting.
func posted(t *testing.T, s *store.Store) map[ledger.ID][]ledger.Entry {
	t.Helper()
	sql := `
		SELECT p.id, p.kind, p.order_id, e.account, e.amount, p.owner = coalesce(o.owner, '') AND e.owner = p.owner
		FROM ledger_postings p LEFT JOIN ledger_entries e ON e.posting_id = p.id LEFT JOIN orders o ON o.id = p.order_id
		ORDER BY e.id`
	if storetest.Distributed() { // shards are joined by the owner only
		sql = strings.NewReplacer("e.posting_id = p.id", "e.posting_id = p.id AND e.owner = p.owner",
			"o.id = p.order_id", "o.id = p.order_id AND o.owner = p.owner").Replace(sql)
	}
	rows, err := s.Pool().Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	found := map[ledger.ID][]ledger.Entry{}
	var p ledger.Posting
	var e ledger.Entry
	var owned bool
	_, err = pgx.ForEachRow(rows, []any{&p.ID, &p.Kind, &p.Order, &e.Account, &e.Amount, &owned}, func() error {
		if !owned {
			t.Errorf("posting %s or its entry in %s has another owner than order %q", p.ID, e.Account, p.Order)
		}
		if want := ledger.ID(string(p.Kind) + "/" + p.Order); p.ID != want {
			t.Errorf("posting %s of order %s is a %s", p.ID, p.Order, p.Kind)
		}
		found[p.ID] = append(found[p.ID], e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func wantPosted(t *testing.T, s *store.Store, want ...ledger.Posting) {
	t.Helper()
	all := map[ledger.ID][]ledger.Entry{}
	for _, p := range want {
		all[p.ID] = p.Entries
	}
	if diff := cmp.Diff(all, posted(t, s)); diff != "" {
		t.Errorf("the ledger differs (-want +got):\n%s", diff)
	}
}

// atOnce calls a function ten times concurrently, and counts the successes.
func atOnce(do func() error) (well int) {
	var group sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		group.Go(func() { errs[i] = do() })
	}
	group.Wait()
	for _, err := range errs {
		if err == nil {
			well++
		}
	}
	return well
}

func TestTopupIsPostedOnceHoweverOftenItIsMoved(t *testing.T) {
	s := storetest.New(t)
	item := topup.SplitOf(2599)
	item.Card = uuid.New()
	p := claimRequest("k", func(p *checkout.ClaimRequest) {
		text, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		p.Order.Kind, p.Order.Item, p.Order.Price = topup.Kind, text, 2599
		p.Payment.Authorization.Value = 25_990_000
	})
	fence := claim(t, s, p).Job.Fence()
	wantPosted(t, s)
	paid := settled(p)
	if n := atOnce(func() error {
		return errOf(s.Orders().Settle(t.Context(), fence, paid, move(p, order.Settling, order.Settled), watchJob(p)))
	}); n != 1 {
		t.Errorf("settled %d times", n)
	}
	wantPosted(t, s, ledger.Settled(string(p.Order.ID), 25_990_000))
	if err := errOf(s.Orders().Move(t.Context(), fence, move(p, order.Settled, order.Provisioning))); err != nil {
		t.Fatal(err)
	}
	if n := atOnce(func() error {
		return errOf(s.Orders().Move(t.Context(), fence, move(p, order.Provisioning, order.Fulfilled)))
	}); n != 1 {
		t.Errorf("fulfilled %d times", n)
	}
	id := string(p.Order.ID)
	wantPosted(t, s, ledger.Settled(id, 25_990_000), ledger.Loaded(id, item.Card.String(), 2548), ledger.LoadFee(id, 51))
}

// boughtEsim is an eSIM for 5.00 that was paid for and that this test delivers. The supplier charges cost.
func boughtEsim(t *testing.T, s *store.Store, cost money.USDC) (p checkout.ClaimRequest, fence job.Fence) {
	t.Helper()
	p = claimRequest(uuid.NewString(), func(p *checkout.ClaimRequest) {
		p.Order.Kind, p.Order.Price, p.Payment.Authorization.Value = esim.Kind, 500, 5_000_000
		p.Order.Owner[5] = byte(time.Now().UnixNano())
	})
	fence = claim(t, s, p).Job.Fence()
	if err := errOf(s.Orders().Settle(t.Context(), fence, settled(p), move(p, order.Settling, order.Settled),
		watchJob(p))); err != nil {
		t.Fatal(err)
	}
	if err := errOf(s.Orders().Move(t.Context(), fence, move(p, order.Settled, order.Provisioning))); err != nil {
		t.Fatal(err)
	}
	made, err := s.Esims().Reserve(t.Context(), fence, esim.Profile{
		ID: uuid.New(), Order: p.Order.ID, Plan: "pln_1", Status: esim.Ordered, Ref: fulfilmenttest.NewRef(),
		CreatedAt: time.Now(), UpdatedAt: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	made.Account, made.Cost, made.ActivationData = "acc", cost, esim.Sealed{Key: "k", Box: []byte("box")}
	if n := atOnce(func() error { return s.Esims().Install(t.Context(), fence, made, made.Postings()) }); n != 10 {
		t.Errorf("installed %d times without an error, want all", n)
	}
	return p, fence
}

func TestEsimIsPostedOnceWithItsCost(t *testing.T) {
	for name, cost := range map[string]money.USDC{"a known cost": 4_000_001, "a cost nobody knows": 0} {
		t.Run(name, func(t *testing.T) {
			s := storetest.New(t)
			p, fence := boughtEsim(t, s, cost)
			id := string(p.Order.ID)
			want := []ledger.Posting{ledger.Settled(id, 5_000_000)}
			if cost > 0 {
				want = append(want, ledger.Supplied(id, cost))
			}
			wantPosted(t, s, want...)
			if n := atOnce(func() error {
				return errOf(s.Orders().Move(t.Context(), fence, move(p, order.Provisioning, order.Fulfilled)))
			}); n != 1 {
				t.Errorf("fulfilled %d times", n)
			}
			wantPosted(t, s, append(want, ledger.Sold(id, 500, ledger.EsimRevenue))...)
		})
	}
}

func TestFailedEsimCostsNothing(t *testing.T) {
	s := storetest.New(t)
	row := claimed(t, s)
	if err := storeOrder(t.Context(), s, "ord_1"); err != nil {
		t.Fatal(err)
	}
	p := esim.Profile{
		ID: uuid.New(), Order: "ord_1", Plan: "pln_1", Status: esim.Ordered, Ref: fulfilmenttest.NewRef(),
		CreatedAt: time.Now(), UpdatedAt: time.Now(),
	}
	if _, err := s.Esims().Reserve(t.Context(), row.Fence(), p); err != nil {
		t.Fatal(err)
	}
	if err := s.Esims().Fail(t.Context(), row.Fence(), p.ID); err != nil {
		t.Fatal(err)
	}
	p.Account, p.Cost, p.ActivationData = "acc", 1, esim.Sealed{Key: "k", Box: []byte("box")}
	if err := s.Esims().Install(t.Context(), row.Fence(), p, p.Postings()); err != nil {
		t.Fatal(err)
	}
	wantPosted(t, s)
}

func TestDeadPaymentIsNeverPosted(t *testing.T) {
	s := storetest.New(t)
	p := claimRequest("k")
	fence := claim(t, s, p).Job.Fence()
	if err := errOf(s.Orders().MarkDead(t.Context(), fence, p.Payment,
		move(p, order.Settling, order.PaymentRequired))); err != nil {
		t.Fatal(err)
	}
	wantPosted(t, s)
}

// activated is a card whose fee job this test has claimed.
func activated(t *testing.T, s *store.Store) (card.Card, card.FeeArgs, job.Row) {
	t.Helper()
	p := claimRequest(uuid.NewString(), func(p *checkout.ClaimRequest) {
		any := nonce()
		copy(p.Order.Owner[:], any[:])
	})
	fence := claim(t, s, p).Job.Fence()
	c, err := s.Cards().Reserve(t.Context(), fence, card.Card{
		ID: uuid.New(), Order: p.Order.ID, Owner: p.Order.Owner, Status: card.Pending, Ref: fulfilment.Ref(uuid.New()),
		Load: card.Price, CreatedAt: time.Now().UTC(), UpdatedAt: time.Now().UTC(),
	})
	if err != nil {
		t.Fatal(err)
	}
	a := card.FeeArgs{Card: c.ID, Order: string(c.Order), Account: "acc", Amount: card.Fee, Version: 1}
	fee := job.New{Args: a, UniqueKey: c.ID.String()}
	if n := atOnce(func() error { return s.Cards().Activate(t.Context(), fence, c, c.Postings(), fee) }); n != 10 {
		t.Errorf("activated %d times without an error, want all", n)
	}
	rows, err := s.Jobs().Claim(t.Context(), "me", job.Maintain, []job.Kind{card.FeeJob}, 1, time.Minute)
	if err != nil || len(rows) != 1 {
		t.Fatalf("claimed %d, %v", len(rows), err)
	}
	return c, a, rows[0]
}

func TestFeeIsPostedOnceWhoeverReportsIt(t *testing.T) {
	s := storetest.New(t)
	var want []ledger.Posting
	for round := range 4 {
		c, a, row := activated(t, s)
		loaded := ledger.Loaded(a.Order, c.ID.String(), card.Price)
		want = append(want, loaded, ledger.FeeWithdrawn(a.Order, c.ID.String(), card.Fee))
		byWorker := func() error { return s.Cards().FeeTaken(t.Context(), row.Fence(), a.Postings(job.Succeeded)) }
		byOperator := func() error {
			taken := a.Conclusion(row.Status, job.Succeeded, "")
			done, err := s.FeeJobs().Conclude(t.Context(), row, taken, card.OperatorContext{Operator: "ada"})
			if err == nil && !done {
				err = errors.New("a worker was quicker")
			}
			return err
		}
		var group sync.WaitGroup
		well := make([]int, 2)
		if round != 1 {
			group.Go(func() { well[0] = atOnce(byWorker) })
		}
		if round != 0 {
			group.Go(func() { well[1] = atOnce(byOperator) })
		}
		group.Wait()
		if well[0]+well[1] != 1 {
			t.Errorf("round %d: the fee was recorded by %v", round, well)
		}
		wantPosted(t, s, want...)
	}
	// One that failed, or of which nothing is known, is not posted.
	_, a, row := activated(t, s)
	before := len(posted(t, s))
	failed := a.Conclusion(row.Status, job.Failed, "no")
	if _, err := s.FeeJobs().Conclude(t.Context(), row, failed, card.OperatorContext{Operator: "ada"}); err != nil {
		t.Fatal(err)
	}
	if got := len(posted(t, s)); got != before {
		t.Errorf("%d postings, want %d", got, before)
	}
}

func TestDatabaseKeepsTheLedgerBalancedAndUnchanged(t *testing.T) {
	storetest.NeedsTriggers(t)
	s := storetest.Open(t, storetest.URL(t)) // as the owner, whom triggers hold back, too
	post := func(p ledger.Posting) error { return store.Post(t.Context(), s, p) }
	good := ledger.Unmatched("0xaa", 1, 5)
	good.Order = "0xaa/1" // posted() reads an order's
	good.ID = "unmatched/0xaa/1"
	if n := atOnce(func() error { return post(good) }); n != 10 {
		t.Errorf("posted %d times without an error, want all", n)
	}
	changed := good
	changed.Entries = []ledger.Entry{{Account: ledger.Treasury, Amount: 6}, {Account: ledger.UnmatchedFunds, Amount: -6}}
	if err := post(changed); err != nil {
		t.Errorf("a posting that is there: %v", err)
	}
	for name, entries := range map[string][]ledger.Entry{
		"one-sided":  {{Account: ledger.Treasury, Amount: 5}},
		"unbalanced": {{Account: ledger.Treasury, Amount: 5}, {Account: ledger.UnmatchedFunds, Amount: -4}},
		"zero":       {{Account: ledger.Treasury}, {Account: ledger.UnmatchedFunds}},
	} {
		if err := post(ledger.Posting{ID: ledger.ID(name), Kind: ledger.KindUnmatched,
			Entries: entries}); !refusedBy(err, "23514") {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	for _, sql := range []string{
		"INSERT INTO ledger_entries (posting_id, owner, account, amount) VALUES ('unmatched/0xaa/1', '', 'issuer:float', 1)",
		"UPDATE ledger_entries SET amount = amount * 2", "DELETE FROM ledger_entries", "TRUNCATE ledger_entries",
		"UPDATE ledger_postings SET kind = 'settled'", "DELETE FROM ledger_postings", "TRUNCATE ledger_postings",
	} {
		if _, err := s.Pool().Exec(t.Context(), sql); err == nil {
			t.Errorf("done: %s", sql)
		}
	}
	wantPosted(t, s, good)
}

func refusedBy(err error, code string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == code
}
