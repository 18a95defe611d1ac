package crash_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/roamcard/roamcard/internal/x402"
)

// The program dies at every step of adding data to an eSIM: the supplier adds it once, and the order is fulfilled.
func TestEsimIsToppedUpOnce(t *testing.T) {
	t.Parallel()
	for _, point := range chosen([]string{"extend.after_send"}, "extend.reserved", "extend.before_send",
		"extend.before_commit", "extend.stored") {
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
			b.extends, b.purchase, b.offer = w.onlyEsim(t), b.purchase+"-more", x402.Requirements{}
			if err := b.challenge(t.Context()); err != nil {
				t.Fatal(err)
			}
			payment := b.sign(t)
			_, _, _, _ = b.ask(t.Context(), payment) // the program may die before it answers
			p.awaitKill(t)
			p = w.start(t, relayer, "")
			b.insist(t, payment)
			session, err := b.signIn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			w.await(t, "the data is added", func() error { return w.toppedUp(t, session) })
			w.waitIdle(t)
			p.stop(t)
			w.checkBooks(t)
		})
	}
}

// toppedUp fails until an order for data is fulfilled.
func (w *world) toppedUp(t testing.TB, session string) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.addr+"/api/orders", http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+session)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	var all struct {
		Orders []struct{ Kind, Status string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return err
	}
	for _, o := range all.Orders {
		if o.Kind == "esim_topup" && o.Status == "fulfilled" {
			return nil
		}
	}
	return fmt.Errorf("the orders are %+v", all.Orders)
}
