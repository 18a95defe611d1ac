package crash_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
)

// The program dies at every step of giving an eSIM back: the supplier credits it once and it is refunded once, or
// nothing is.
func TestEsimIsCancelledOnce(t *testing.T) {
	t.Parallel()
	for _, point := range chosen([]string{"cancel.after_send"},
		"cancel.before_begin", "cancel.leased", "cancel.before_send", "cancel.confirmed", "cancel.before_commit",
		"cancel.committed", "return.stored", "refund.before_send", "refund.sent", "return.seen", "return.before_commit",
		"return.committed") {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := w.buyer(t)
			b.travelling = true
			p := w.start(t, relayer, "")
			if err := b.challenge(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.insist(t, b.sign(t))
			w.waitIdle(t)
			p.stop(t)

			p = w.start(t, relayer, fault(point, "kill"))
			order := w.onlyEsim(t)
			session, err := b.signIn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_ = w.cancelEsim(t, session, order) // the program may die before it answers
			p.awaitKill(t)
			p = w.start(t, relayer, "")
			w.await(t, "the eSIM is cancelled", func() error { return w.cancelEsim(t, session, order) })
			w.waitIdle(t)
			p.stop(t)
			w.checkBooks(t)
		})
	}
}

// onlyEsim is the order of the one eSIM that was sold.
func (w *world) onlyEsim(t testing.TB) (order string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.books.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), "SELECT order_id FROM esim_profiles").Scan(&order); err != nil {
		t.Fatal(err)
	}
	return order
}

// cancelEsim asks for the cancellation of an eSIM, again and again. It fails until the refund is paid.
func (w *world) cancelEsim(t testing.TB, session, order string) error {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+w.addr+"/api/esim/orders/"+order+"/cancel", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+session)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	var c struct{ Status, RefundAmount string }
	if err := json.NewDecoder(res.Body).Decode(&c); err != nil || res.StatusCode != http.StatusOK ||
		c.Status != "refunded" || c.RefundAmount == "" {
		return fmt.Errorf("%s: the cancellation is %+v, %w", res.Status, c, err)
	}
	return nil
}
