package sandbox_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/provider/sandbox/scenario"
)

func TestBooksSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	first := start(t, sandbox.Config{Dir: dir})
	account := first.active("")
	ref := first.withdraw(account, 1000, "")
	before, err := first.Credentials(t.Context(), account.ID)
	if err != nil {
		t.Fatal(err)
	}
	pending := first.open("")
	first.stop()

	second := start(t, sandbox.Config{Dir: dir, Now: first.clock.now})
	second.clock = first.clock
	second.want(pending.Ref, card.AccountPending)
	second.wantMoved(account, ref, card.MovePending, "")
	// Changes that came due meanwhile are made on the first read.
	second.clock.pass(time.Second)
	second.want(pending.Ref, card.AccountActive)
	second.wantMoved(account, ref, card.MoveSucceeded, "")
	second.wantBalance(account, 1500)
	after, err := second.Credentials(t.Context(), account.ID)
	if err != nil || !after.Number.Equal(before.Number) || !after.SecurityCode.Equal(before.SecurityCode) {
		t.Errorf("the card has another number after the restart: %v", err)
	}
	if n := second.books().Executed[ref.String()]; n != 1 {
		t.Errorf("the withdrawal is in the books %d times", n)
	}
}

func TestTornLastLineIsCutOff(t *testing.T) {
	dir := t.TempDir()
	first := start(t, sandbox.Config{Dir: dir})
	kept := first.open("")
	first.open("")
	first.stop()
	path := filepath.Join(dir, "cards.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	for _, cut := range []int{last + 1, last + (len(whole)-last)/2, len(whole) - 1} {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		again := start(t, sandbox.Config{Dir: dir, Now: first.clock.now})
		if n := len(again.books().Cards); n != 1 {
			t.Errorf("%d cards are left of one whole line and a torn one", n)
		}
		again.want(kept.Ref, card.AccountPending)
		again.open("")
		again.stop()
		reread := start(t, sandbox.Config{Dir: dir, Now: first.clock.now})
		if n := len(reread.books().Cards); n != 2 {
			t.Errorf("%d cards after writing on behind a torn line, want 2", n)
		}
		reread.stop()
	}
}

func TestDamagedBooksAreNotOpened(t *testing.T) {
	dir := t.TempDir()
	first := start(t, sandbox.Config{Dir: dir})
	first.open("")
	first.stop()
	path := filepath.Join(dir, "cards.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole[0] = 'x'
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sandbox.NewServer(sandbox.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("NewServer = %v, want the damaged line", err)
	}
}

func TestJournalHoldsNoCardNumber(t *testing.T) {
	dir := t.TempDir()
	b := start(t, sandbox.Config{Dir: dir})
	account := b.active("")
	secrets, err := b.Credentials(t.Context(), account.ID)
	if err != nil {
		t.Fatal(err)
	}
	held, err := os.ReadFile(filepath.Join(dir, "cards.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(held, []byte(secrets.Number.Reveal())) {
		t.Error("the journal holds a card number")
	}
	shown := b.books().Cards[0].Number
	if shown == secrets.Number.Reveal() || !strings.HasSuffix(shown, account.Last4) || !strings.Contains(shown, "******") {
		t.Errorf("the books show the number as %s", shown)
	}
}

// The test mixes everything that moves money, in parallel, and adds up the balances.
func TestBooksKeepEveryCent(t *testing.T) {
	const float money.Cents = 30_000
	b := start(t, sandbox.Config{
		Float: float, Now: time.Now, SettleAfter: time.Millisecond, ReverseAfter: time.Millisecond,
		SlowAfter: 2 * time.Millisecond,
	})
	patient, err := sandbox.Dial(sandbox.ClientConfig{URL: b.url, HTTP: b.web.Client()})
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	for n := range 8 {
		done.Go(func() {
			played := []string{"", "002", "003", "005", "006", "", "", "001"}[n]
			ref := fulfilmenttest.NewRef()
			account, err := patient.Open(scenario.With(t.Context(), played), card.Opening{Ref: ref, Load: 2500})
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			for step := range 6 {
				direction := card.Load
				if step%2 == 1 {
					direction = card.Withdrawal
				}
				// A refusal is as good an end as a success here.
				_, _ = patient.Move(scenario.With(t.Context(), []string{"", "006"}[step%2]), card.Movement{
					Ref: fulfilmenttest.NewRef(), Account: account.ID, Direction: direction, Amount: 1100,
				})
			}
		})
	}
	done.Wait()
	// Twice: a finished change may be reversed.
	b.control(http.MethodPost, "settle", nil, nil)
	b.control(http.MethodPost, "settle", nil, nil)
	shown := b.books()
	total := shown.Float
	for _, one := range shown.Cards {
		total += one.Balance
		if one.Status == "preparing" {
			total += 2500
		}
		if one.Balance < 0 {
			t.Errorf("card %s holds %v", one.ID, one.Balance)
		}
	}
	if total != float || shown.Float < 0 {
		t.Errorf("float and cards add up to %v, want %v: %+v", total, float, shown)
	}
}
