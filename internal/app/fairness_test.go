package app_test

import (
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// onlyInACall is code whose isValidSignature says yes while the gas price is zero, as it is in a careless simulation:
// the magic value, times (GASPRICE == 0), in the upper four bytes of a word.
const onlyInACall = "0x3a15631626ba7e0260e01b5f5260205ff3"

// delegated gives a wallet the code of an EIP-7702 delegation.
func (w *world) delegated(wallet, to x402.Address) {
	w.t.Helper()
	w.rpc(nil, "anvil_setCode", wallet.String(), "0xef0100"+hex.EncodeToString(to[:]))
}

// delegate puts code where wallets can delegate to.
func (w *world) delegate(code string) x402.Address {
	w.t.Helper()
	at := addressOf(newKey(w.t))
	w.rpc(nil, "anvil_setCode", at.String(), code)
	return at
}

// relayed is how many transactions the relayer has had included, and how many of them moved nothing.
func (w *world) relayed() (sent, reverted int) {
	w.t.Helper()
	var nonce hexutil.Uint64
	w.rpc(&nonce, "eth_getTransactionCount", w.relayer.String(), "latest")
	return int(nonce), int(nonce) - w.count("SELECT count(*) FROM payments WHERE status = 'paid'")
}

// cardTimes buys cards one after the other and says how long the slowest took to be paid and to be there.
func (w *world) cardTimes(name string, cards int) (paid, delivered time.Duration) {
	w.t.Helper()
	for i := range cards {
		b := w.buyer()
		b.signIn()
		begun := time.Now()
		var o sold
		b.w.send(purchase(fmt.Sprint(name, "-", i), header(w.t, b.payment()))).into(w.t, 200, &o)
		paid = max(paid, time.Since(begun))
		eventually(w.t, 4*time.Minute, func() (bool, string) {
			b.get("/api/orders/"+o.OrderID).into(w.t, 200, &o)
			return o.Status == "fulfilled", o.Status
		})
		delivered = max(delivered, time.Since(begun))
	}
	w.t.Logf("%s: the slowest of %d cards was paid in %v and there in %v", name, cards, paid, delivered)
	return paid, delivered
}

// attack sends each wallet's purchases of eSIMs at once, and gives what was answered once all of them are.
func (w *world) attack(wallets []*buyer, each int) (answers func() []answer) {
	w.t.Helper()
	terms := w.esimTerms("terms")
	got := make([]answer, len(wallets)*each)
	var all sync.WaitGroup
	for i := range got {
		r := esimPurchase(nil, fmt.Sprint("hostile-", i), wallets[i%len(wallets)].esimHeader(terms))
		all.Go(func() { got[i] = w.send(r) })
	}
	return func() []answer { all.Wait(); return got }
}

// TestPayersWhoseCodeLiesToASimulationSlowNobody: 12 wallets with code that says yes in a call and no in a
// transaction, and 72 purchases of theirs, none of which costs them anything.
func TestPayersWhoseCodeLiesToASimulationSlowNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	w.awaitEsims(nil)
	quietPaid, quietThere := w.cardTimes("quiet", 3)
	wallets, liar := w.buyers(12), w.delegate(onlyInACall)
	for _, b := range wallets {
		w.delegated(b.address, liar)
	}
	w.rpc(nil, "anvil_mine", "0x1")

	answers := w.attack(wallets, 6)
	paid, there := w.cardTimes("attacked", 3)
	if most := 4*quietPaid + 2*time.Second; paid > most {
		t.Errorf("a card was paid in %v, want at most %v", paid, most)
	}
	if most := 4*quietThere + 3*time.Second; there > most {
		t.Errorf("a card was there in %v, want at most %v", there, most)
	}
	for _, a := range answers() {
		if a.status != 402 || a.problem.Code != string(fault.PaymentRejected) {
			t.Errorf("answered %d %s, want 402 %s", a.status, clipped(a.body), fault.PaymentRejected)
			break
		}
	}
	if sent, reverted := w.relayed(); reverted != 0 {
		t.Errorf("%d of the relayer's %d transactions moved nothing", reverted, sent)
	}
	if n := w.count("SELECT count(*) FROM payments WHERE status = 'claimed'"); n != 0 {
		t.Errorf("%d payments are claimed", n)
	}
}
