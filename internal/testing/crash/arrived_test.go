package crash_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/x402"
)

// A third party has sent the authorization before the program sees it. The program dies while it records the money, and
// while the payer's next signature claims it. That signature is never sent.
func TestKilledWhileArrivedMoneyIsRecorded(t *testing.T) {
	t.Parallel()
	worlds := pool(t)
	for _, point := range chosen([]string{"arrive.before_commit"}, "arrive.committed", "claim.before_commit",
		"claim.committed", "settle.seen", "settle.before_commit", "settle.committed") {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := <-worlds
			defer func() { worlds <- w }()
			w.survivesArrived(t, point)
		})
	}
}

func (w *world) survivesArrived(t *testing.T, point string) {
	note := record{Flow: issue + ", sent by a third party", Settler: relayer, Mode: "kill", First: point, Failed: true}
	defer func() { note.write(t) }()
	b := w.buyer(t)
	p := w.start(t, relayer, fault(point, "kill"))
	if err := b.challenge(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := b.sign(t)
	b.preempt(t, first)
	kept := func() {
		w.await(t, "the money is kept as arrived", func() error {
			status, header, _, err := b.ask(t.Context(), first)
			if err == nil && (status != http.StatusPaymentRequired || header.Get(x402.HeaderRequired) == "") {
				err = fmt.Errorf("status %d", status)
			}
			return err
		})
	}
	second := b.sign(t)
	if point == "arrive.before_commit" || point == "arrive.committed" {
		b.press(t, p, first, false)
	} else {
		kept()
		b.press(t, p, second, false)
	}
	p.awaitKill(t)
	p = w.start(t, relayer, "")
	began := time.Now()
	if point == "arrive.before_commit" || point == "arrive.committed" {
		kept()
	}
	w.ends(t, b, second, began)
	note.Recovery = time.Since(began).Seconds()
	p.stop(t)
	note.Violations = len(w.checkBooks(t))
	note.Failed = t.Failed()
}

// preempt brings a payment to the chain past the service.
func (b *buyer) preempt(t testing.TB, payment string) {
	t.Helper()
	pay, err := x402.DecodePayment(payment)
	if err != nil {
		t.Fatal(err)
	}
	b.send(t, x402.TransferCall(pay.Authorization, pay.Signature))
	state := map[string]string{
		"to": b.world.books.USDC, "data": fmt.Sprintf("0x%x", x402.StateCall(b.address, pay.Authorization.Nonce)),
	}
	b.world.await(t, "the authorization is used", func() error {
		if used := string(b.world.rpc(t, "eth_call", state, "latest")); !strings.HasSuffix(used, `1"`) {
			return fmt.Errorf("its state is %s", used)
		}
		return nil
	})
}
