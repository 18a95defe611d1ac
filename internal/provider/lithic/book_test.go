package lithic_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// books are the lines that a reader has, each as it came last.
type books map[string]card.Line

// read reads on from a cursor to the end, and returns the cursor there.
func (b *bench) read(into books, after string) (next string) {
	b.Helper()
	for range 1000 {
		page, err := b.Changes(b.Context(), after)
		if err != nil {
			b.Fatalf("read the books after %q: %v", after, err)
		}
		for _, l := range page.Lines {
			into[l.ID] = l
		}
		if after = page.Next; !page.More {
			return after
		}
	}
	b.Fatal("the books do not end")
	return ""
}

// want compares the lines with what the vendor has.
func (b *bench) want(got books) {
	b.Helper()
	lines := 0
	for _, c := range b.fake.Cards() {
		line := got[c.Token]
		lines++
		if line.Card == nil || int64(line.Card.Balance) != c.Balance || line.Card.Last4 != c.Number[12:] {
			b.Errorf("the card %+v is in the books as %+v", c, line.Card)
		}
	}
	for _, t := range b.fake.Transfers() {
		if t.Memo != "roamcard load" && t.Memo != "roamcard withdrawal" {
			continue
		}
		line := got[t.Token]
		lines++
		if line.Movement == nil || int64(line.Movement.Amount) != t.Amount ||
			(line.Movement.State == card.MoveSucceeded) != (t.Status == "SETTLED") {
			b.Errorf("the transfer %+v is in the books as %+v", t, line.Movement)
		}
	}
	if len(got) != lines {
		b.Errorf("%d lines, want %d: %v", len(got), lines, slices.Collect(maps.Keys(got)))
	}
}

func TestBooksAreReadWholeAndThenByEvents(t *testing.T) {
	b := start(t, lithicfake.Config{PageSize: 2}, false)
	move := func(on card.Account, direction card.Direction) {
		t.Helper()
		_, err := b.Move(t.Context(), card.Movement{
			Ref: fulfilmenttest.NewRef(), Account: on.ID, Direction: direction, Amount: 1000,
		})
		if err != nil {
			t.Fatal(err)
		}
		b.clock.pass(time.Second)
	}
	var all []card.Account
	for range 5 {
		all = append(all, b.opened(2500))
		move(all[len(all)-1], card.Load)
	}
	b.fake.Donate(all[0].ID, 7, "a gift")
	got := books{}
	next := b.read(got, "")
	b.want(got)

	// What happens later comes by events, in whatever order and however often.
	b.clock.pass(time.Hour)
	opened := b.opened(2500)
	all = append(all, opened)
	move(all[1], card.Withdrawal)
	move(opened, card.Load)
	b.fake.Spend(all[2].ID, 300)
	b.fake.Donate(all[4].ID, 7, "another gift")
	b.fake.SetState(all[3].ID, "CLOSED")
	b.clock.pass(time.Second)
	b.fake.Fault("events", vendorfake.Reordered)
	b.fake.Fault("events", vendorfake.Duplicate)
	next = b.read(got, next)
	b.want(got)
	if got[all[3].ID].Card.State != card.AccountClosed {
		t.Errorf("a closed card is in the books as %s", got[all[3].ID].Card.State)
	}

	// What the vendor lists late is read, too.
	b.clock.pass(time.Second)
	later := books{}
	b.read(later, next)
	for id, line := range later {
		if known := got[id]; known.Card != nil && *known.Card != *line.Card {
			t.Errorf("%s came again as %+v", id, line.Card)
		}
	}
	// And the whole again shows the same.
	whole := books{}
	b.read(whole, "")
	b.want(whole)
}

func TestCardWithoutItsLoadIsPendingInTheBooks(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	b.fake.Fault("move", vendorfake.TimeoutBefore)
	if _, err := b.Open(t.Context(), opening(2500)); err == nil {
		t.Fatal("opened without its load")
	}
	got := books{}
	b.read(got, "")
	for _, line := range got {
		if line.Card.State != card.AccountPending || line.Card.Balance != 0 {
			t.Errorf("in the books as %+v", line.Card)
		}
	}
	if len(got) != 1 {
		t.Errorf("%d lines", len(got))
	}
}

// Cards and transfers that people made are none of ours, and stop nothing.
func TestWhatPeopleMadeIsLeftOut(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	ours, theirs := b.opened(2500), b.opened(2500)
	b.fake.SetMemo(theirs.ID, "roamcard of the boss")
	b.fake.Donate(theirs.ID, 100, "pocket money")
	got := books{}
	next := b.read(got, "")
	b.clock.pass(time.Hour)
	b.fake.SetState(theirs.ID, "PAUSED")
	b.fake.Donate(theirs.ID, 100, "pocket money")
	b.clock.pass(time.Second)
	b.read(got, next)
	if len(got) != 1 || got[ours.ID].Card == nil {
		t.Errorf("the books are %v", got)
	}
	if page, _, err := b.Accounts(t.Context(), ""); err != nil || len(page) != 1 || page[0].ID != ours.ID {
		t.Errorf("listed: %+v, %v", page, err)
	}
}

func TestFailedPagesAndCursorsThatAreNoneReadNothing(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	b.opened(2500)
	got := books{}
	next := b.read(got, "")
	for _, op := range []string{"accounts", "balance", "moved", "transfers"} {
		b.fake.Fault(op, vendorfake.ErrorBefore)
		after := ""
		for range 2 {
			page, err := b.Changes(t.Context(), after)
			if err != nil {
				after = "failed"
				break
			}
			after = page.Next
		}
		if after != "failed" {
			t.Errorf("the books were read without %s", op)
		}
	}
	b.fake.Fault("events", vendorfake.Malformed)
	if page, err := b.Changes(t.Context(), next); err == nil {
		t.Errorf("a page was read as %+v", page)
	}
	for _, cursor := range []string{"12", "cards/0/0/..", "bins/0/0/", "events/x/0/", "events/0/0/" + "a/b"} {
		if _, err := b.Changes(t.Context(), cursor); err == nil {
			t.Errorf("read after %q", cursor)
		}
	}
}
