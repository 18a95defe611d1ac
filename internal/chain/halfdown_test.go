package chain_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/chain"
	"github.com/roamcard/roamcard/internal/payment"
)

// halfDown gives the bench three nodes, of which the preferred one is dead, and short ranges of logs.
func (b *bench) halfDown() {
	b.Helper()
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	c, err := chain.New(b.Context(), chain.Config{
		Endpoints: []chain.Endpoint{{URL: dead.URL}, {URL: b.url}, {URL: b.url}}, Domain: domain, LogRange: 4,
		Finality: chain.Finality{Paid: "latest", Dead: "safe"}, CallTimeout: 10 * time.Second, Now: b.now,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	b.chain = c
	b.relayer = b.newRelayer(b.attempts)
}

// TestVerdictFindsTransferWhileNodeIsDown puts the transfer many log ranges after the first one searched. In those
// before, one node has no events and the other is silent.
func TestVerdictFindsTransferWhileNodeIsDown(t *testing.T) {
	b := newBench(t)
	b.halfDown()
	b.mine(30)
	p := b.claim(buyer(0))
	b.submit(p)
	b.mine(10)
	if v := b.verdict(p); v.State != payment.Settled {
		t.Errorf("%+v, want settled", v)
	}
}

// TestRelayerResendsDroppedTransactionWhileNodeIsDown drops a transaction while no quorum can tell that it is not
// included.
func TestRelayerResendsDroppedTransactionWhileNodeIsDown(t *testing.T) {
	for name, again := range map[string]func(*bench, payment.Payment){
		"by its job":     func(b *bench, p payment.Payment) { b.submit(p) },
		"by the relayer": func(b *bench, _ payment.Payment) { b.maintain() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.halfDown()
			p := b.claim(buyer(0))
			b.control("evm_setAutomine", false)
			b.submit(p)
			b.control("anvil_dropAllTransactions")
			b.mine(1)
			again(b, p)
			b.mine(1)
			b.settles(p)
			if n := len(b.wantAttempts(p, payment.TransactionOpen)[0].Variants); n != 1 {
				t.Errorf("%d variants, want the same bytes", n)
			}
		})
	}
}
