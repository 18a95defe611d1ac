package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// issued stores a card in a status, past its delivery, and its fee job.
func issued(t *testing.T, s *store.Store, owner x402.Address, status card.Status) (card.Card, job.Row) {
	t.Helper()
	c := card.Card{
		ID: uuid.New(), Order: "ord_1", Owner: owner, Status: status, Ref: fulfilment.Ref(uuid.New()), Load: card.Price,
	}
	_, err := s.Pool().Exec(t.Context(),
		`INSERT INTO cards (id, order_id, owner, status, provider, reference, load_usd_cents, created_at, updated_at)
		VALUES ($1, $2, $3, $4, '', $5, $6, now(), now())`, c.ID, c.ID.String(), owner.Lower(), status,
		uuid.UUID(c.Ref), c.Load)
	if err != nil {
		t.Fatal(err)
	}
	fee := card.FeeArgs{Card: c.ID, Order: c.ID.String(), Account: "a", Amount: card.Fee, Version: 1}
	if err = store.EnqueueOf(t.Context(), s, job.New{Args: fee, UniqueKey: c.ID.String()}, owner.Lower()); err != nil {
		t.Fatal(err)
	}
	row, found, err := s.Jobs().Find(t.Context(), card.FeeJob, c.ID.String())
	if err != nil || !found {
		t.Fatalf("fee job: found %t, %v", found, err)
	}
	return c, row
}

func TestCardsTakeTheIssuersStateByLegalMoves(t *testing.T) {
	s := storetest.New(t)
	statuses := []card.Status{card.Pending, card.Active, card.Frozen, card.Closed, card.Failed}
	legal := map[[2]card.Status]bool{}
	for _, m := range card.Moves() {
		legal[m] = true
	}
	n := byte(0)
	for _, from := range statuses {
		for _, to := range []card.Status{card.Active, card.Frozen, card.Closed} {
			n++
			c, _ := issued(t, s, x402.Address{n}, from)
			stranger := card.Seen{Ref: fulfilment.Ref(uuid.New()), Status: to}
			changed, err := s.Cards().Observe(t.Context(), card.Seen{Ref: c.Ref, Status: to}, stranger)
			if err != nil {
				t.Fatal(err)
			}
			now, err := s.Cards().Card(t.Context(), c.ID, c.Owner)
			want := from
			if legal[[2]card.Status{from, to}] {
				want = to
			}
			if err != nil || now.Status != want || (len(changed) == 1) != (want != from) {
				t.Errorf("%s reported as %s is %s, %d changed, %v", from, to, now.Status, len(changed), err)
			}
		}
	}
	if changed, err := s.Cards().Observe(t.Context()); err != nil || len(changed) != 0 {
		t.Errorf("nothing seen: %v, %v", changed, err)
	}
}

// TestOwedFeeIsPostedOnceUntilItIsDecided follows one fee through every decision.
func TestOwedFeeIsPostedOnceUntilItIsDecided(t *testing.T) {
	for _, story := range []struct {
		name      string
		act       func(f *feeStory)
		owed      money.Cents
		accounts  map[string]money.Cents
		reference int
	}{
		{"owed", func(*feeStory) {}, 1000, map[string]money.Cents{"receivable:": 1000, "revenue:issue_fee": -1000}, 1},
		{"retried and refused again", func(f *feeStory) { f.retry("r1"); f.refuse() }, 1000,
			map[string]money.Cents{"receivable:": 1000, "revenue:issue_fee": -1000}, 2},
		{"retried and taken", func(f *feeStory) { f.retry("r1"); f.take() }, 0,
			map[string]money.Cents{"card:": -1000, "holder:": 1000, "issuer:float": 1000, "revenue:issue_fee": -1000}, 2},
		{"written off", func(f *feeStory) { f.writeOff("w1", nil) }, 0,
			map[string]money.Cents{"cost:issue_fee": 1000, "revenue:issue_fee": -1000}, 1},
		{"written off twice by one act", func(f *feeStory) { f.writeOff("w1", nil); f.writeOff("w1", nil) }, 0,
			map[string]money.Cents{"cost:issue_fee": 1000, "revenue:issue_fee": -1000}, 1},
		{"written off by two acts", func(f *feeStory) { f.writeOff("w1", nil); f.writeOff("w2", card.ErrNotFailed) }, 0,
			map[string]money.Cents{"cost:issue_fee": 1000, "revenue:issue_fee": -1000}, 1},
		{"written off, and taken after all", func(f *feeStory) { f.writeOff("w1", nil); f.retry("r1"); f.take() }, 0,
			map[string]money.Cents{"card:": -1000, "holder:": 1000, "issuer:float": 1000, "revenue:issue_fee": -1000}, 2},
		{"written off while it is retried", func(f *feeStory) { f.retry("r1"); f.writeOff("w1", card.ErrNotFailed) }, 1000,
			map[string]money.Cents{"receivable:": 1000, "revenue:issue_fee": -1000}, 2},
	} {
		t.Run(story.name, func(t *testing.T) {
			s := storetest.New(t)
			c, row := issued(t, s, payer, card.Active)
			f := &feeStory{T: t, s: s, row: row}
			f.refuse()
			story.act(f)
			if owed, err := s.Cards().Owes(t.Context(), payer); err != nil || owed != story.owed {
				t.Errorf("owed %s, %v", owed, err)
			}
			if owed, err := s.Cards().Owes(t.Context(), x402.Address{7}); err != nil || owed != 0 {
				t.Errorf("a stranger owes %s, %v", owed, err)
			}
			if all, err := s.Cards().Receivable(t.Context()); err != nil || all != story.owed {
				t.Errorf("receivable %s, %v", all, err)
			}
			if a := f.args(); a.Version != story.reference {
				t.Errorf("version %d", a.Version)
			}
			for account, want := range story.accounts {
				if account[len(account)-1] == ':' {
					account += c.ID.String()
				}
				var got int64
				if err := s.Pool().QueryRow(t.Context(), "SELECT coalesce(sum(amount), 0) FROM ledger_entries WHERE account = $1",
					account).Scan(&got); err != nil {
					t.Fatal(err)
				}
				if money.USDC(got) != want.USDC() {
					t.Errorf("%s has %d units, want %s", account, got, want)
				}
			}
		})
	}
}

// feeStory is one fee job and what is done with it.
type feeStory struct {
	*testing.T
	s   *store.Store
	row job.Row
}

func (f *feeStory) args() card.FeeArgs {
	f.Helper()
	row, err := f.s.FeeJobs().FeeJob(f.Context(), f.row.ID)
	if err != nil {
		f.Fatal(err)
	}
	f.row = row
	a, err := job.Decode[card.FeeArgs](row)
	if err != nil {
		f.Fatal(err)
	}
	return a
}

// lease makes a worker take the job, unless one has it.
func (f *feeStory) lease() job.Fence {
	f.Helper()
	if f.row.Status == job.Processing {
		return f.row.Fence()
	}
	rows, err := f.s.Jobs().Claim(f.Context(), "w", job.Maintain, []job.Kind{card.FeeJob}, 1, time.Minute)
	if err != nil || len(rows) != 1 {
		f.Fatalf("%d jobs to lease, %v", len(rows), err)
	}
	return rows[0].Fence()
}

func (f *feeStory) refuse() {
	f.Helper()
	fence := f.lease()
	owed := concluded(f.T, f.row, job.Failed, card.RefusedFunds)
	if err := f.s.Cards().FeeOwed(f.Context(), fence, owed.Postings); err != nil {
		f.Fatal(err)
	}
	if a := f.args(); !a.Owed || f.row.Status != job.Failed || f.row.LastError != card.RefusedFunds {
		f.Errorf("refused: %+v, %s, %s", a, f.row.Status, f.row.LastError)
	}
}

func (f *feeStory) take() {
	f.Helper()
	fence := f.lease()
	if err := f.s.Cards().FeeTaken(f.Context(), fence, f.args().Postings(job.Succeeded)); err != nil {
		f.Fatal(err)
	}
}

func (f *feeStory) retry(key string) {
	f.Helper()
	next := f.args()
	next.Version++
	if err := f.s.FeeJobs().Retry(f.Context(), f.row, next,
		card.OperatorContext{Operator: "ann", Reason: "r", Key: key}); err != nil {
		f.Fatal(err)
	}
	f.args()
}

func (f *feeStory) writeOff(key string, want error) {
	f.Helper()
	f.args()
	act := card.OperatorContext{Operator: "ann", Reason: "w", Key: key}
	if err := f.s.FeeJobs().WriteOff(f.Context(), f.row, card.WriteOffFee, act); !errors.Is(err, want) {
		f.Errorf("write off: %v, want %v", err, want)
	}
}

// TestOperatorsReconciliationPostsTheOwedFee: the issuer's refusal may be learned by an operator first.
func TestOperatorsReconciliationPostsTheOwedFee(t *testing.T) {
	s := storetest.New(t)
	_, row := issued(t, s, payer, card.Active)
	refused := concluded(t, row, job.Failed, card.RefusedFunds)
	done, err := s.FeeJobs().Conclude(t.Context(), row, refused, card.OperatorContext{Operator: "ann"})
	if err != nil || !done {
		t.Fatalf("%t, %v", done, err)
	}
	if owed, err := s.Cards().Owes(t.Context(), payer); err != nil || owed != card.Fee {
		t.Errorf("owed %s, %v", owed, err)
	}
}

func TestFreezingByTheOwnerIsForgottenOnceTheCardIsActive(t *testing.T) {
	s := storetest.New(t)
	c, row := issued(t, s, payer, card.Active)
	frozen := func(want bool, when string) {
		t.Helper()
		got, err := s.Cards().Card(t.Context(), c.ID, payer)
		if err != nil || got.OwnerFrozen != want {
			t.Errorf("%s: frozen by the owner is %t, %v", when, got.OwnerFrozen, err)
		}
	}
	set := func(by x402.Address) {
		t.Helper()
		if err := s.Cards().SetOwnerFrozen(t.Context(), c.ID, by, true); err != nil {
			t.Fatal(err)
		}
	}
	observe := func(status card.Status) {
		t.Helper()
		if _, err := s.Cards().Observe(t.Context(), card.Seen{Ref: c.Ref, Status: status}); err != nil {
			t.Fatal(err)
		}
	}
	set(x402.Address{9})
	frozen(false, "asked by a stranger")
	set(payer)
	observe(card.Active)
	frozen(true, "not yet frozen at the issuer")
	observe(card.Frozen)
	frozen(true, "frozen")
	observe(card.Active)
	frozen(false, "active again")

	open, err := s.Cards().FeeOpen(t.Context(), c.ID)
	if err != nil || !open {
		t.Errorf("a queued fee job is open: %t, %v", open, err)
	}
	if _, err := s.Pool().Exec(t.Context(), "UPDATE jobs SET status = 'succeeded' WHERE id = $1", row.ID); err != nil {
		t.Fatal(err)
	}
	if open, err = s.Cards().FeeOpen(t.Context(), c.ID); err != nil || open {
		t.Errorf("a done fee job is open: %t, %v", open, err)
	}
}

// TestOwnersFreezingKeepsItsRecord while it is under way or may still take effect, whoever reports the card meanwhile.
func TestOwnersFreezingKeepsItsRecord(t *testing.T) {
	s := storetest.New(t)
	c, _ := issued(t, s, payer, card.Active)
	cards := s.Cards()
	begin := func(change uuid.UUID, most time.Duration, wantOpen bool, want error) {
		t.Helper()
		open, err := cards.BeginFreezing(t.Context(), c.ID, change, most)
		if !errors.Is(err, want) || open.After(time.Now()) != wantOpen {
			t.Errorf("begun: open until %s, %v; want %t, %v", open, err, wantOpen, want)
		}
	}
	end := func(change uuid.UUID, e card.Freezing) {
		t.Helper()
		if err := cards.EndFreezing(t.Context(), c.ID, change, e); err != nil {
			t.Error(err)
		}
	}
	observe := func(status card.Status, asOf time.Time, want card.Status, recorded bool) {
		t.Helper()
		if _, err := cards.Observe(t.Context(), card.Seen{Ref: c.Ref, Status: status, AsOf: asOf}); err != nil {
			t.Fatal(err)
		}
		got, err := cards.Card(t.Context(), c.ID, payer)
		if err != nil || got.Status != want || got.OwnerFrozen != recorded {
			t.Errorf("reported %s: %s, recorded %t, %v; want %s, %t", status, got.Status, got.OwnerFrozen, err, want,
				recorded)
		}
	}
	record := func() {
		t.Helper()
		if err := cards.SetOwnerFrozen(t.Context(), c.ID, payer, true); err != nil {
			t.Fatal(err)
		}
	}
	first, second := uuid.New(), uuid.New()
	before := time.Now()
	begin(first, time.Hour, false, nil)
	begin(second, time.Hour, false, card.ErrBusy)
	record()
	observe(card.Frozen, time.Time{}, card.Frozen, true)
	observe(card.Active, time.Time{}, card.Active, true)
	observe(card.Frozen, time.Time{}, card.Frozen, true)
	end(second, card.Freezing{Undone: true}) // not its own
	end(first, card.Freezing{})
	observe(card.Active, before, card.Frozen, true) // read before it was frozen

	begin(second, time.Hour, false, nil)
	end(second, card.Freezing{Unknown: true})
	begin(first, time.Hour, true, nil)
	observe(card.Active, time.Time{}, card.Active, true)
	end(first, card.Freezing{Undone: true, Open: time.Now().Add(time.Hour)})
	observe(card.Frozen, time.Time{}, card.Frozen, true)
	observe(card.Active, time.Time{}, card.Active, true)

	begin(first, time.Hour, true, nil)
	end(first, card.Freezing{Open: before}) // its time is over
	observe(card.Active, time.Now().Add(time.Second), card.Active, false)

	begin(first, time.Hour, false, nil)
	record()
	observe(card.Frozen, time.Time{}, card.Frozen, true)
	end(first, card.Freezing{Undone: true})
	observe(card.Frozen, time.Time{}, card.Frozen, false)
}
