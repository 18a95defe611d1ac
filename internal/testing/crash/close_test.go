package crash_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// The program dies at every step of closing a card: the remainder is withdrawn once and refunded once, or nothing is.
func TestCardIsClosedOnce(t *testing.T) {
	t.Parallel()
	for _, point := range chosen([]string{"close.after_withdraw", "return.stored"},
		"close.before_order", "close.leased", "close.locked", "close.before_withdraw", "close.withdrawn",
		"close.before_commit", "close.before_commit@2", "close.committed", "close.committed@2", "refund.before_send",
		"refund.sent", "return.seen", "return.before_commit", "return.committed", "close.before_end", "close.ended",
		"close.before_commit@3", "close.committed@3") {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := w.buyer(t)
			p := w.start(t, relayer, "")
			if err := b.challenge(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.insist(t, b.sign(t))
			w.waitIdle(t)
			p.stop(t)

			p = w.start(t, relayer, fault(point, "kill"))
			card := w.onlyCard(t)
			_ = w.closeCard(t, card) // the program may die before it answers
			p.awaitKill(t)
			p = w.start(t, relayer, "")
			w.await(t, "the card is closed", func() error { return w.closeCard(t, card) })
			w.waitIdle(t)
			p.stop(t)
			w.checkBooks(t)
		})
	}
}

// onlyCard is the one card that was sold.
func (w *world) onlyCard(t testing.TB) (id string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.books.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), "SELECT id FROM cards").Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// closeCard orders the closing of a card, again and again. It fails until the card is closed.
func (w *world) closeCard(t testing.TB, card string) error {
	var ready struct{ OperatorToken string }
	readJSON(t, w.readyFile(), &ready)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+w.addr+"/api/admin/cards/"+card+"/close", strings.NewReader(`{"reason":"the drill"}`))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+ready.OperatorToken)
	req.Header.Set("Idempotency-Key", "the-drill")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	var c struct {
		Status, Stage     string
		RemainderUsdCents int
	}
	if err := json.NewDecoder(res.Body).Decode(&c); err != nil || res.StatusCode != http.StatusOK ||
		c.Status != "succeeded" || c.RemainderUsdCents != 1500 {
		return fmt.Errorf("%s: the closing is %+v, %w", res.Status, c, err)
	}
	return nil
}
