package crash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// The program dies around the moment at which it learns that the holder has spent the fee.
func TestSpentFeeIsOwedOnce(t *testing.T) {
	t.Parallel()
	for _, point := range chosen([]string{"owe.before_commit"}, "owe.committed") {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := w.buyer(t)
			// Withdrawals arrive once the holder has spent everything.
			w.sandbox(t, http.MethodPost, "faults", `{"op":"move","mode":"error_before"}`)
			p := w.start(t, relayer, fault(point, "kill"))
			if err := b.challenge(t.Context()); err != nil {
				t.Fatal(err)
			}
			header := b.sign(t)
			b.insist(t, header)
			w.await(t, "the card is spent", func() error { return w.spendAll(t.Context()) })
			w.sandbox(t, http.MethodDelete, "faults", "")
			p.awaitKill(t)
			p = w.start(t, relayer, "")
			b.insist(t, header)
			w.waitIdle(t)
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
func (w *world) sandbox(t testing.TB, method, path, body string) {
	t.Helper()
	if err := w.control(t.Context(), method, path, body); err != nil {
		t.Fatal(err)
	}
}

func (w *world) control(ctx context.Context, method, path, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, w.books.SandboxURL+"/control/"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
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
func (w *world) spendAll(ctx context.Context) error {
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
	return w.control(ctx, http.MethodPost, "cards/"+books.Cards[0].ID, `{"spendCents":2500}`)
}
