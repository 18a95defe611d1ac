package endtoend_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

// onlyInACall is code whose isValidSignature says yes while the gas price is zero, as it is in a careless simulation:
// the magic value, times (GASPRICE == 0), in the upper four bytes of a word.
const onlyInACall = "0x3a15631626ba7e0260e01b5f5260205ff3"

// delegate gives a wallet the code of an EIP-7702 delegation.
func (w *world) delegate(wallet, to x402.Address) {
	w.t.Helper()
	w.rpc(nil, "anvil_setCode", wallet.String(), "0xef0100"+hex.EncodeToString(to[:]))
}

// deployCode puts code where wallets can delegate to.
func (w *world) deployCode(code string) x402.Address {
	w.t.Helper()
	at := addressOf(newKey(w.t))
	w.rpc(nil, "anvil_setCode", at.String(), code)
	return at
}

// relayerTransactions is how many transactions the relayer has had included, and how many of them moved nothing.
func (w *world) relayerTransactions() (sent, reverted int) {
	w.t.Helper()
	var nonce hexutil.Uint64
	w.rpc(&nonce, "eth_getTransactionCount", w.relayer.String(), "latest")
	return int(nonce), int(nonce) - w.count("SELECT count(*) FROM payments WHERE status = 'paid'")
}

// setBalance makes a wallet hold an amount.
func (w *world) setBalance(wallet x402.Address, amount money.USDC) {
	w.t.Helper()
	slot, value := balanceSlot(wallet, amount)
	w.rpc(nil, "anvil_setStorageAt", usdc().String(), slot, value)
}

// measureCards buys cards one after the other and says how long the slowest took to be paid and to be there.
func (w *world) measureCards(name string, cards int) (paid, delivered time.Duration) {
	w.t.Helper()
	for i := range cards {
		b := w.buyer()
		b.signIn()
		begun := time.Now()
		o, err := b.buyRetrying(fmt.Sprint(name, "-", i))
		if err != nil {
			w.t.Fatal(err)
		}
		paid = max(paid, time.Since(begun))
		eventually(w.t, func() (bool, string) {
			b.get("/api/orders/"+o.OrderID).into(w.t, 200, &o)
			return o.Status == "fulfilled", o.Status
		})
		delivered = max(delivered, time.Since(begun))
	}
	w.t.Logf("%s: the slowest of %d cards was paid in %v and there in %v", name, cards, paid, delivered)
	return paid, delivered
}

// buyEsimsAtOnce sends each wallet's purchases of eSIMs at once, and gives what was answered once all of them are.
func (w *world) buyEsimsAtOnce(wallets []*buyer, each int) (answers func() []answer) {
	w.t.Helper()
	terms := w.esimTerms("terms")
	got := make([]answer, len(wallets)*each)
	var all sync.WaitGroup
	for i := range got {
		r := esimPurchase(fmt.Sprint("hostile-", i), wallets[i%len(wallets)].esimPayment(terms))
		all.Go(func() { got[i] = w.send(r) })
	}
	return func() []answer { all.Wait(); return got }
}

// TestPayersDeceivingSimulationDelayNobody: 12 wallets with code that accepts in a call and refuses in a
// transaction, and 72 purchases of theirs, none of which costs them anything.
func TestPayersDeceivingSimulationDelayNobody(t *testing.T) {
	onlyTorture(t, "it measures time; chain TestSimulateRefusesCodeThatIsNotAllowed")
	t.Parallel()
	w := newWorld(t, plan{})
	w.awaitEsimReady(nil)
	quietPaid, quietThere := w.measureCards("quiet", 3)
	wallets, liar := w.buyers(12), w.deployCode(onlyInACall)
	for _, b := range wallets {
		w.delegate(b.address, liar)
	}
	w.mine(1)

	answers := w.buyEsimsAtOnce(wallets, 6)
	paid, there := w.measureCards("attacked", 3)
	if most := 4*quietPaid + 2*time.Second; paid > most {
		t.Errorf("a card was paid in %v, want at most %v", paid, most)
	}
	if most := 4*quietThere + 3*time.Second; there > most {
		t.Errorf("a card was there in %v, want at most %v", there, most)
	}
	told := answers()
	if paid, there := w.measureCards("afterwards", 3); paid > 4*quietPaid+2*time.Second ||
		there > 4*quietThere+3*time.Second {
		t.Errorf("once all were answered, a card was paid in %v and there in %v", paid, there)
	}
	for _, a := range told {
		if a.status != 402 || !a.is(fault.PaymentRejected) {
			t.Errorf("answered %d %s, want 402 %s", a.status, clipped(a.body), fault.PaymentRejected)
			break
		}
	}
	if sent, reverted := w.relayerTransactions(); reverted != 0 {
		t.Errorf("%d of the relayer's %d transactions moved nothing", reverted, sent)
	}
	if n := w.count("SELECT count(*) FROM payments WHERE status = 'claimed'"); n != 0 {
		t.Errorf("%d payments are claimed", n)
	}
}

// TestManyClaimsOnOneBalanceDelayNobody: wallets without code claim as often as they may, and then have the money for
// one claim only. Unpaid claims stay undecided until they expire. They occupy no slot that others need, and cost few
// transactions.
func TestManyClaimsOnOneBalanceDelayNobody(t *testing.T) {
	onlyTorture(t, "it measures time; store TestOrdersPassTheKit/UndecidedPaymentsPerPayerAreBounded, job "+
		"TestClassUsesOnlyItsOwnSlots")
	t.Parallel()
	w := newWorld(t, plan{chain: ownChain(t), change: func(c *app.Config) {
		c.Limits = limit.Rates{limit.Undecided: {Count: 4}}
		c.Slots, c.Fairness.SettleSlots, c.Fairness.MaintainSlots, c.Wait = 2, 2, 2, 3*time.Second
	}})
	w.awaitEsimReady(nil)
	quietPaid, quietThere := w.measureCards("quiet", 3)
	terms := w.esimTerms("terms")
	var cost int64
	if _, err := fmt.Sscan(terms.Accepts[0].Amount, &cost); err != nil {
		t.Fatal(err)
	}
	wallets := w.buyers(12)
	for _, b := range wallets {
		w.fund(b.address, moneyOf(6*cost))
	}
	w.pauseMining()
	answers := w.buyEsimsAtOnce(wallets, 6)
	eventually(t, func() (bool, string) {
		n := w.count("SELECT count(*) FROM payments WHERE status = 'claimed'")
		return n == 4*len(wallets), fmt.Sprint(n, " payments are undecided")
	})
	for _, b := range wallets {
		w.setBalance(b.address, moneyOf(cost))
	}
	w.resumeMining()
	refused := 0
	for _, a := range answers() {
		if a.status == 429 && a.is(fault.PaymentsUndecided) &&
			a.problem.NextAction == "retry_same_request" {
			refused++
		}
	}
	if refused != 2*len(wallets) {
		t.Errorf("%d of %d requests were refused for a wallet's undecided payments, want %d", refused, 6*len(wallets),
			2*len(wallets))
	}
	// A wallet's first transaction takes its balance; what was sent at the same time reverted, and nothing more is sent.
	eventually(t, func() (bool, string) {
		n := w.count(
			"SELECT count(*) FROM payments p JOIN orders o ON o.id = p.order_id WHERE p.status = 'paid' AND o.kind = 'esim'")
		return n == len(wallets), fmt.Sprint(n, " eSIMs are paid")
	})
	paid, there := w.measureCards("attacked", 5)
	// On a busy machine five cards at once take longer than three; without slots of their own they took minutes.
	if most := 4*quietPaid + 8*time.Second; paid > most {
		t.Errorf("a card was paid in %v, want at most %v", paid, most)
	}
	if most := 4*quietThere + 10*time.Second; there > most {
		t.Errorf("a card was there in %v, want at most %v", there, most)
	}
	if n := w.count("SELECT count(*) FROM payments WHERE status = 'claimed'"); n != 3*len(wallets) {
		t.Errorf("%d payments are undecided, want %d", n, 3*len(wallets))
	}
	if n := w.count(
		"SELECT max(n) FROM (SELECT count(*) AS n FROM transaction_members WHERE status = 'reverted' GROUP BY payment_id) t",
	); n > 2 {
		t.Errorf("a payment was sent %d times in vain", n)
	}
	if n := w.count(
		"SELECT count(*) FROM jobs WHERE kind = 'relayer_maintain' AND status IN ('queued', 'processing')"); n > 1 {
		t.Errorf("%d jobs of one periodic kind are open", n)
	}
}

// TestAuthorizationValidForTooLongIsRefused: an authorization that could hold something for longer is not taken.
func TestAuthorizationValidForTooLongIsRefused(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b := w.buyer()
	ending := func(in time.Duration) string {
		return header(t, b.payment(func(p *x402.Payment) { p.Authorization.ValidBefore = uint64(time.Now().Add(in).Unix()) }))
	}
	a := w.send(purchase("late", ending(71*time.Minute)))
	if a.status != 402 || !a.is(fault.PaymentRejected) ||
		!strings.Contains(a.problem.Detail, "at most 4200 s ahead") {
		t.Errorf("71 minutes: %d %s", a.status, clipped(a.body))
	}
	wantStatus(t, "69 minutes", w.send(purchase("late", ending(69*time.Minute))), 200)
}

// TestUnpaidOrdersLeaveFloatToOthers: beyond what there is a claim is refused before anything is stored, and the
// refusal, the terms and the status say that it is reserved for payments that are not settled. It is taken once others
// have given it back.
func TestUnpaidOrdersLeaveFloatToOthers(t *testing.T) {
	onlyTorture(t, "store TestOrdersPassTheKit/UnpaidOrdersReserveABoundedShareOfTheFloat")
	t.Parallel()
	w := newWorld(t, plan{chain: ownChain(t), change: func(c *app.Config) {
		c.Fairness.UnsettledPercent, c.Wait = 20, 2*time.Second
	}})
	for _, cards := range []int{0, 6} { // once the service has seen the change
		w.setFloat(cards)
		eventually(t, func() (bool, string) {
			a := w.send(purchase("look", ""))
			return (a.status == 402) == (cards > 0), string(a.body)
		})
	}
	buyers := w.buyers(8)
	headers := make([]string, len(buyers))
	for i, b := range buyers {
		headers[i] = header(t, b.payment())
	}
	w.pauseMining()
	claimed, reserved := map[int]bool{}, -1
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range buyers {
		all.Go(func() {
			a := w.send(purchase(fmt.Sprint("unpaid-", i), headers[i]))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case a.is(fault.SettlementUnknown):
				claimed[i] = true
			case a.status == 503 && a.is(fault.FloatReserved) &&
				a.problem.NextAction == "retry_same_request":
				reserved = i
			default:
				t.Errorf("answered %d %s", a.status, clipped(a.body))
			}
		})
	}
	all.Wait()
	if len(claimed) != 6 || reserved < 0 {
		t.Fatalf("%d claimed, want 6 of %d", len(claimed), len(buyers))
	}
	eventually(t, func() (bool, string) {
		a := w.send(purchase("look", ""))
		return a.status == 503 && a.is(fault.FloatReserved), string(a.body)
	})
	eventually(t, func() (bool, string) {
		a := w.send(get("/api/status"))
		return strings.Contains(string(a.body), "reserved for payments that are not settled yet"), string(a.body)
	})
	if a := w.send(get("/ready")); a.status != 200 || !strings.Contains(string(a.body), "failing") {
		t.Errorf("ready: %d %s", a.status, a.body)
	}
	for i := range claimed {
		w.setBalance(buyers[i].address, 0)
	}
	w.resumeMining()
	eventually(t, func() (bool, string) {
		a := w.send(purchase(fmt.Sprint("unpaid-", reserved), headers[reserved]))
		return a.status == 200, string(a.body)
	})
}

// TestUnfundedClaimsReleaseReservations: payers move their money away between our last check and our transaction, as
// many as there is float for. With the next block others can buy, and a payer who has the money again gets the card.
func TestUnfundedClaimsReleaseReservations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{chain: ownChain(t), change: func(c *app.Config) {
		c.Fairness.UnsettledPercent, c.Wait = 20, 2*time.Second
	}})
	for _, cards := range []int{0, 6} { // once the service has seen the change
		w.setFloat(cards)
		eventually(t, func() (bool, string) {
			a := w.send(purchase("look", ""))
			return (a.status == 402) == (cards > 0), string(a.body)
		})
	}
	w.pauseMining()
	payers, honest := w.buyers(6), w.buyer()
	var all sync.WaitGroup
	for i, b := range payers {
		all.Go(func() {
			if a := w.send(purchase(fmt.Sprint("poor-", i),
				header(t, b.payment()))); !a.is(fault.SettlementUnknown) {
				t.Errorf("answered %d %s", a.status, clipped(a.body))
			}
		})
	}
	all.Wait()
	payment := header(t, honest.payment())
	if a := w.send(purchase("honest", payment)); !a.is(fault.FloatReserved) {
		t.Fatalf("answered %d %s, want %s", a.status, clipped(a.body), fault.FloatReserved)
	}
	for _, b := range payers {
		w.setBalance(b.address, 0)
	}
	w.resumeMining()
	eventually(t, func() (bool, string) {
		a := w.send(purchase("honest", payment))
		return a.status == 200, string(a.body)
	})
	if n := w.count("SELECT count(*) FROM payments WHERE status = 'claimed'"); n != len(payers) {
		t.Errorf("%d payments are undecided, want %d", n, len(payers))
	}
	late := payers[0]
	w.fund(late.address, price())
	eventually(t, func() (bool, string) {
		n := w.count("SELECT count(*) FROM orders WHERE owner = $1 AND status = 'fulfilled'", late.address.Lower())
		return n == 1, fmt.Sprint(n, " orders of who has the money again are fulfilled")
	})
	if n := w.count(
		"SELECT count(*) FROM reservations WHERE suspended_at IS NOT NULL AND settled_at IS NULL"); n != len(payers)-1 {
		t.Errorf("%d shares are given back for now, want %d", n, len(payers)-1)
	}
	if n := w.transferCount(late); n != 1 || len(w.issuer.books().Cards) != 2 {
		t.Errorf("%d transfers, %d cards", n, len(w.issuer.books().Cards))
	}
}

// TestUndecidedPaymentEndsAfterItsJobRunsOutOfAttempts: what it holds ends with it, however often its job has failed.
func TestUndecidedPaymentEndsAfterItsJobRunsOutOfAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{chain: ownChain(t), change: func(c *app.Config) { c.Wait = time.Second }})
	w.pauseMining()
	paid, void := w.buyer(), w.buyer()
	if a := paid.buy("paid"); !a.is(fault.SettlementUnknown) {
		t.Fatalf("answered %d %s", a.status, clipped(a.body))
	}
	short := header(t,
		void.payment(func(p *x402.Payment) { p.Authorization.ValidBefore = uint64(time.Now().Add(25 * time.Second).Unix()) }))
	if a := w.send(purchase("void", short)); !a.is(fault.SettlementUnknown) {
		t.Fatalf("answered %d %s", a.status, clipped(a.body))
	}
	// The second one's transaction will find nothing, and its job has no attempt left; nor has the first one's.
	w.exec("UPDATE jobs SET uncounted_attempts = 0, attempt = attempt + 2000 WHERE kind = 'order_fulfill' AND status " +
		"= 'queued'")
	w.fund(void.address, 0)
	w.resumeMining()
	status := func(key string) (status string) {
		t.Helper()
		if err := w.db.QueryRow(t.Context(), "SELECT status FROM orders WHERE idempotency_key = $1",
			key).Scan(&status); err != nil {
			t.Fatal(err)
		}
		return status
	}
	eventually(t, func() (bool, string) {
		now := status("paid")
		return now == "operator_review" || now == "fulfilled", "paid and " + now
	})
	eventually(t, func() (bool, string) { now := status("void"); return now == "payment_required", "void and " + now })
	if n := w.count("SELECT count(*) FROM reservations h JOIN orders o ON o.id = h.order_id WHERE o.idempotency_key = " +
		"'void' AND h.released_at IS NULL"); n != 0 {
		t.Errorf("a void authorization holds %d things", n)
	}
}
