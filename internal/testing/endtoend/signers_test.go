package endtoend_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/signer/web3signer/web3signerfake"
)

// newSignedWorld is an admin's world whose relayer and treasury keys only a Web3Signer has.
func newSignedWorld(t *testing.T, p plan) (*world, *web3signerfake.Signer) {
	t.Helper()
	fake := web3signerfake.New()
	server := httptest.NewServer(fake)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	p.change = func(c *app.Config) {
		relayer, err := crypto.HexToECDSA(c.RelayerKeys[0].Reveal()[2:])
		if err != nil {
			t.Fatal(err)
		}
		treasury, err := crypto.HexToECDSA(c.TreasuryKey.Reveal()[2:])
		if err != nil {
			t.Fatal(err)
		}
		fake.Load(relayer, treasury)
		at := "web3signer:" + server.URL + "#"
		c.RelayerKeys = []secret.Text{secret.New(at + addressOf(relayer).String())}
		c.TreasuryKey = secret.New(at + addressOf(treasury).String())
	}
	return newAdminWorld(t, 1_000_000_000, p), fake
}

// awaitClosed waits until nothing is sold for want of signatures.
func (w *world) awaitClosed() {
	w.t.Helper()
	eventually(w.t, func() (bool, string) {
		a := w.send(get("/ready"))
		return a.status == 503 && strings.Contains(a.problem.Detail, "relayer, treasury"), "ready: " + string(a.body)
	})
}

// TestSalesPauseWhileTheSignerIsDown: what was claimed before goes on when it is back, and is settled once.
func TestSalesPauseWhileTheSignerIsDown(t *testing.T) {
	onlyTorture(t, "chain TestPaymentGoesToAKeyThatSigns and TestNothingOfALyingSignerIsStoredOrSent")
	t.Parallel()
	for name, fails := range map[string]web3signerfake.Fault{
		"it fails": web3signerfake.Fail, "it signs with another key": web3signerfake.Lie,
		"it does not answer": web3signerfake.Hang,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, signer := newSignedWorld(t, plan{})
			b := w.buyer()
			b.buyCard("before")
			stored := w.count("SELECT count(*) FROM transactions")
			signer.Misbehave(fails)
			late := w.buyer()
			pay := header(t, late.payment())
			// Nobody knows yet. The order is claimed, and nothing is signed for it.
			first := w.send(purchase("claimed", pay))
			if first.status == 200 {
				t.Fatalf("sold without a signature: %s", clipped(first.body))
			}
			if n := w.count("SELECT count(*) FROM orders WHERE idempotency_key = 'claimed'"); n != 1 {
				t.Fatalf("%d orders were claimed: %d %s", n, first.status, clipped(first.body))
			}
			w.awaitClosed()
			wantProblem(t, "a new payment", w.send(purchase("refused", header(t, w.buyer().payment()))), 503,
				fault.DependencyDown)
			if n := w.count("SELECT count(*) FROM transactions"); n != stored {
				t.Errorf("%d transactions are stored that nobody signed", n-stored)
			}
			if n := w.count("SELECT count(*) FROM orders WHERE idempotency_key = 'refused'"); n != 0 {
				t.Error("an order was claimed while nothing could be signed")
			}
			signer.Misbehave(web3signerfake.None)
			w.awaitReady(w.instances[0])
			if o, err := late.retry("claimed", pay); err != nil || o.Payment.Transaction == "" {
				t.Errorf("the claimed order: %+v, %v", o, err)
			}
			w.checkBooks()
		})
	}
}

// TestRefundIsSignedElsewhere, and waits while it cannot be: nothing is stored that the treasury has not signed.
func TestRefundIsSignedElsewhere(t *testing.T) {
	t.Parallel()
	w, signer := newSignedWorld(t, plan{chain: ownChain(t)})
	b := w.buyer()
	b.signIn()
	w.pauseMining()
	bought := make(chan answer, 1)
	go func() { bought <- b.buy("refused~002") }()
	eventually(t, func() (bool, string) {
		return w.count("SELECT count(*) FROM transactions") == 1, "the payment is not sent"
	})
	signer.Misbehave(web3signerfake.Lie)
	w.resumeMining()
	<-bought // with whatever is known by then
	order := queryOne[string](w, "SELECT id FROM orders WHERE idempotency_key = 'refused~002'")
	b.awaitStatus(order, "refund_pending")
	w.awaitClosed()
	if n := w.count("SELECT count(*) FROM refunds"); n != 0 {
		t.Errorf("%d refunds are stored that the treasury has not signed", n)
	}
	signer.Misbehave(web3signerfake.None)
	b.awaitStatus(order, "refunded")
	if got := w.payouts(b.address); len(got) != 1 {
		t.Errorf("the treasury paid in %v", got)
	}
	w.checkBooks()
}
