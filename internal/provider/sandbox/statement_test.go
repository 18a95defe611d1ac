package sandbox_test

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
)

// There are more rows than an answer holds.
func TestStatementHasEverythingOverSeveralPages(t *testing.T) {
	b := start(t, sandbox.Config{Float: 100_000_000})
	opened := map[fulfilment.Ref]bool{}
	var account card.Account
	for range 3 {
		ref := fulfilmenttest.NewRef()
		var err error
		if account, err = b.Open(t.Context(), card.Opening{Ref: ref, Load: 2500}); err != nil {
			t.Fatal(err)
		}
		opened[ref] = true
	}
	b.clock.pass(time.Hour)
	moved := map[fulfilment.Ref]bool{}
	for i := range 1100 {
		if i%20 == 0 {
			b.clock.pass(time.Hour) // what is due is done in small parts, within the client's timeout
		}
		m := card.Movement{Ref: fulfilmenttest.NewRef(), Account: account.ID, Direction: card.Load, Amount: 10}
		if _, err := b.Move(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		moved[m.Ref] = true
	}
	b.clock.pass(time.Hour)
	s, last := stated(t, b, "")
	for _, a := range s.accounts {
		want := card.Account{ID: a.ID, Ref: a.Ref, State: card.AccountActive, Last4: a.Last4, Loaded: 2500}
		if a.Account != want || !opened[a.Ref] || (a.ID == account.ID) != (a.Balance == 2500+11_000) {
			t.Errorf("account %+v", a)
		}
		delete(opened, a.Ref)
	}
	for _, m := range s.movements {
		want := card.MovementRecord{
			Ref: m.Ref, Account: account.ID, Direction: card.Load, Amount: 10, State: card.MoveSucceeded,
		}
		if m != want || !moved[m.Ref] {
			t.Errorf("movement %+v", m)
		}
		delete(moved, m.Ref)
	}
	if len(opened) > 0 || len(moved) > 0 {
		t.Errorf("%d cards and %d movements are not in it", len(opened), len(moved))
	}
	if s, again := stated(t, b, last); len(s.accounts)+len(s.movements) > 0 || again != last {
		t.Errorf("after the last change %q there is %+v, up to %q", last, s, again)
	}
	// What changes comes again, alone.
	m := card.Movement{Ref: fulfilmenttest.NewRef(), Account: account.ID, Direction: card.Load, Amount: 10}
	if _, err := b.Move(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s, last = stated(t, b, last)
	if len(s.accounts) != 0 || len(s.movements) != 1 || s.movements[0].Ref != m.Ref ||
		s.movements[0].State != card.MovePending {
		t.Errorf("a movement that began: %+v", s)
	}
	b.clock.pass(time.Hour)
	s, _ = stated(t, b, last)
	if len(s.accounts) != 1 || s.accounts[0].Balance != 2500+11_010 || len(s.movements) != 1 ||
		s.movements[0].State != card.MoveSucceeded {
		t.Errorf("a movement that ended: %+v", s)
	}
}

// A reader of changes was past the hidden movement when it appeared.
func TestStatementHasWhatAppearsLate(t *testing.T) {
	b := start(t, sandbox.Config{Float: 100_000})
	b.fault("open", "late", 10*time.Second)
	ref := fulfilmenttest.NewRef()
	_, _ = b.Open(t.Context(), card.Opening{Ref: ref, Load: 2500})
	seen, err := b.Open(t.Context(), card.Opening{Ref: fulfilmenttest.NewRef(), Load: 2500})
	if err != nil {
		t.Fatal(err)
	}
	s, last := stated(t, b, "")
	if len(s.accounts) != 1 || s.accounts[0].ID != seen.ID {
		t.Fatalf("while it is hidden: %+v", s)
	}
	b.clock.pass(time.Hour)
	s, _ = stated(t, b, last)
	if !slices.ContainsFunc(s.accounts, func(a card.StatedAccount) bool { return a.Ref == ref }) {
		t.Errorf("once it appeared: %+v", s)
	}
}

// statement is what an issuer showed.
type statement struct {
	accounts  []card.StatedAccount
	movements []card.MovementRecord
}

// stated reads the changes after a cursor to their end.
func stated(t *testing.T, i card.Book, after string) (s statement, last string) {
	t.Helper()
	last, ended, err := card.EachLine(t.Context(), i, after, 100, func(lines []card.Line) error {
		for _, l := range lines {
			if l.Card != nil {
				s.accounts = append(s.accounts, *l.Card)
			} else {
				s.movements = append(s.movements, *l.Movement)
			}
		}
		return nil
	})
	if err != nil || !ended {
		t.Fatalf("ended: %t, %v", ended, err)
	}
	return s, last
}

func TestUnreadableStatementIsAnError(t *testing.T) {
	line := func(s string) string { return `{"ok":true,"data":{"items":[` + s + `]}}` }
	const good = `{"id":"crd_1","reference":"00000000-0000-5000-8000-000000000001","status":"live","loadCents":1,` +
		`"currency":"USD"}`
	for name, body := range map[string]string{
		"no items":         `{"ok":true,"data":{}}`,
		"more of nothing":  `{"ok":true,"data":{"items":[],"more":true}}`,
		"neither":          line(`{"seq":1}`),
		"both":             line(`{"seq":1,"card":` + good + `,"movement":{},"balanceCents":1}`),
		"no balance":       line(`{"seq":1,"card":` + good + `}`),
		"negative balance": line(`{"seq":1,"card":` + good + `,"balanceCents":-1}`),
		"the same line": line(`{"seq":1,"card":` + good + `,"balanceCents":1},{"seq":1,"card":` + good +
			`,"balanceCents":1}`),
		"no seq": line(`{"card":` + good + `,"balanceCents":1}`),
		"reference": line(
			`{"seq":1,"card":{"id":"crd_1","reference":"x","status":"live","loadCents":1,"currency":"USD"},"balanceCents":1}`),
		"movement without a name": line(`{"seq":1,"movement":{"reference":"` + uuid.NewString() +
			`","cardId":"crd_1","direction":"in","amountCents":1,"currency":"USD","status":"done"}}`),
		"movement": line(`{"seq":1,"movement":{"reference":"` + uuid.NewString() + `"}}`),
		"half":     `{"ok":true,"data":{"items":[`,
	} {
		i := against(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		if s, err := i.Changes(t.Context(), ""); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
	i := against(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, line(`{"seq":1,"card":`+good+`,"balanceCents":1}`))
	})
	if s, err := i.Changes(t.Context(), ""); err != nil || len(s.Lines) != 1 || s.Lines[0].Card == nil {
		t.Errorf("a good one: %+v, %v", s, err)
	}
}
