package crash_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/invariants"
)

// The program dies around the moment at which it learns that the holder has spent the fee.
func TestSpentFeeIsOwedOnce(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"owe.before_commit", "owe.committed"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := w.buyer(t)
			// The withdrawal arrives once the holder has spent everything.
			w.sandbox(t, "faults", `{"op":"move","mode":"slow","times":1,"delayMs":1500}`)
			p := w.start(t, relayer, fault(point, "kill"))
			if err := b.challenge(t.Context()); err != nil {
				t.Fatal(err)
			}
			header := b.sign(t)
			b.insist(t, header, recovery)
			apptest.Until(t, recovery, "the card is spent", func() error { return w.spendAll() })
			p.awaitKill(t, recovery)
			p = w.start(t, relayer, "")
			b.insist(t, header, recovery)
			if err := invariants.Await(t.Context(), w.books); err != nil {
				t.Fatal(err)
			}
			p.stop(t)
			w.checkBooks(t)
			conn, err := pgx.Connect(t.Context(), w.books.DatabaseURL)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			var owed int64
			err = conn.QueryRow(t.Context(),
				"SELECT coalesce(sum(amount), 0) FROM ledger_entries WHERE account LIKE 'receivable:%'").Scan(&owed)
			if err != nil || owed != 10_000_000 {
				t.Errorf("%d units are owed, %v", owed, err)
			}
		})
	}
}

// sandbox calls the sandbox's control API.
func (w *world) sandbox(t testing.TB, path, body string) {
	t.Helper()
	if err := w.control(path, body); err != nil {
		t.Fatal(err)
	}
}

func (w *world) control(path, body string) error {
	res, err := http.Post(w.books.SandboxURL+"/control/"+path, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("control %s: %s", path, res.Status)
	}
	return nil
}

// spendAll pays with everything that is on the one card.
func (w *world) spendAll() error {
	res, err := http.Get(w.books.SandboxURL + "/control/books")
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	var books struct {
		Cards []struct{ ID, Status string }
	}
	if err := json.NewDecoder(res.Body).Decode(&books); err != nil || len(books.Cards) != 1 {
		return fmt.Errorf("%d cards, %w", len(books.Cards), err)
	}
	return w.control("cards/"+books.Cards[0].ID, `{"spendCents":2500}`)
}
