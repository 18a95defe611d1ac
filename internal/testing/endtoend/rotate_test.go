package endtoend_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

// newSecretKey is a new key as a setting has it, and its account.
func newSecretKey(t *testing.T) (secret.Text, x402.Address) {
	t.Helper()
	key := newKey(t)
	return secret.New(hexutil.Encode(crypto.FromECDSA(key))), addressOf(key)
}

// crowd buys cards, one after the other for each of its buyers, until it is told to stop. Its requests go to whichever
// process serves now.
type crowd struct {
	w     *world
	at    atomic.Pointer[instance]
	stop  context.CancelFunc
	done  sync.WaitGroup
	sold  atomic.Int64
	wrong chan error
}

func (w *world) buyMeanwhile(buyers int) *crowd {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	c := &crowd{w: w, stop: stop, wrong: make(chan error, buyers)}
	c.at.Store(w.instances[0])
	for i, b := range w.buyers(buyers) {
		c.done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				pause(100 * time.Millisecond) // clock: spaces out the purchases
				if err := c.buy(b, fmt.Sprintf("crowd-%d-%d", i, n)); err != nil {
					c.wrong <- err
					return
				}
			}
		})
	}
	w.t.Cleanup(stop)
	return c
}

// buy buys one eSIM, and repeats the request with the same payment until it is sold.
func (c *crowd) buy(b *buyer, key string) error {
	var pay string
	ctx, cancel := waitContext(c.w.t)
	defer cancel()
	for ctx.Err() == nil {
		a := c.w.send(esimPurchase(key, pay).on(c.at.Load()))
		switch {
		case a.err == nil && a.status == 402 && pay == "":
			required, err := x402.DecodeRequired(a.header.Get(x402.HeaderRequired))
			if err != nil {
				return err
			}
			pay = b.esimPayment(required)
			continue
		case a.err == nil && a.status == 200:
			c.sold.Add(1)
			return nil
		case a.err == nil && (a.problem.Retryable == nil || !*a.problem.Retryable):
			return fmt.Errorf("%s: %d %s", key, a.status, clipped(a.body))
		}
		pause(50 * time.Millisecond) // clock: spaces out the tries
	}
	return fmt.Errorf("%s was not sold: %w", key, context.Cause(ctx))
}

// sells waits until so many more are sold.
func (c *crowd) sells(more int64) {
	c.w.t.Helper()
	aim := c.sold.Load() + more
	eventually(c.w.t, func() (bool, string) {
		return c.sold.Load() >= aim || len(c.wrong) > 0, fmt.Sprintf("%d sold, want %d", c.sold.Load(), aim)
	})
}

// ends stops the crowd, whose requests are all answered.
func (c *crowd) ends() {
	c.w.t.Helper()
	c.stop()
	c.done.Wait()
	close(c.wrong)
	for err := range c.wrong {
		c.w.t.Error(err)
	}
}

// succeeded replaces the process that serves by one with another configuration. Both run side by side while the new one
// starts, and between is called while they do.
func (c *crowd) succeeded(by app.Config, between func()) {
	c.w.t.Helper()
	next := c.w.start(by)
	c.w.awaitReady(next)
	c.w.awaitEsimReady(next)
	before := c.at.Swap(next)
	if between != nil {
		between()
	}
	before.stop()
	c.w.instances = []*instance{next}
}

// sentBy counts the transactions of a relayer that are stored with a status; an empty one is any.
func (w *world) sentBy(relayer x402.Address, status string) int {
	w.t.Helper()
	return w.count("SELECT count(*) FROM transactions WHERE relayer = $1 AND ($2 = '' OR status = $2)",
		relayer.Lower(), status)
}

// TestRelayerKeyIsRotatedUnderLoad in its three steps: known, used, retired. No buyer notices, and the transactions
// that the former key has begun are finished by the process that sends no new ones with it.
func TestRelayerKeyIsRotatedUnderLoad(t *testing.T) {
	onlyTorture(t, "chain TestRetiredKeyFinishesWhatItBegan and TestCheckKeysNamesMissingKey, and "+
		"TestStartFailsWithoutKeyOfPendingTransaction here")
	t.Parallel()
	w := newWorld(t, plan{chain: ownChain(t)})
	w.awaitEsimReady(w.instances[0])
	former := w.config.RelayerKeys[0]
	next, account := newSecretKey(t)
	w.giveGas(account)
	c := w.buyMeanwhile(3)
	c.sells(2)

	known := w.config
	known.RelayerRetired = []secret.Text{next}
	c.succeeded(known, nil)
	c.sells(2)
	if n := w.sentBy(account, ""); n != 0 {
		t.Errorf("the new key sent %d transactions before it was used", n)
	}

	retired := w.config
	retired.RelayerKeys, retired.RelayerRetired = []secret.Text{next}, nil
	w.wantKeyMissed(retired, w.relayer) // while it sends, so that something is open

	used := w.config
	used.RelayerKeys, used.RelayerRetired = []secret.Text{next}, []secret.Text{former}
	c.succeeded(used, func() { c.sells(3) }) // both processes send, each with its key
	sent := w.sentBy(w.relayer, "")
	c.sells(3)
	if n := w.sentBy(w.relayer, ""); n != sent {
		t.Errorf("the retired key sent %d more transactions", n-sent)
	}
	if w.sentBy(account, "") == 0 || sent == 0 {
		t.Errorf("the keys sent %d and %d transactions", sent, w.sentBy(account, ""))
	}

	eventually(t, func() (bool, string) {
		w.mine(70) // until the safe block is past them
		return w.sentBy(w.relayer, "open") == 0, "transactions of the former key are open"
	})
	c.succeeded(retired, nil)
	c.sells(2)
	c.ends()
	w.checkBooks()
}

// wantKeyMissed checks that a process does not start without a key whose transactions are open, as some are every few
// seconds while a crowd buys.
func (w *world) wantKeyMissed(cfg app.Config, of x402.Address) {
	w.t.Helper()
	eventually(w.t, func() (bool, string) {
		if w.sentBy(of, "open") == 0 {
			return false, "nothing is open"
		}
		a, err := app.New(w.t.Context(), cfg, app.Options{Log: w.log})
		if err == nil {
			_ = a.Close()
			return false, "it started"
		}
		return strings.Contains(err.Error(), of.String()), err.Error()
	})
}

// TestRetiredTreasuryFinishesItsRefunds: a refund that the former key has begun is paid by it, once, and never by the
// new one; what is begun while both processes work is paid once, by the key of the one that does it.
func TestRetiredTreasuryFinishesItsRefunds(t *testing.T) {
	onlyTorture(t, "settlement TestRefundStaysWithTheTreasuryThatBeganIt")
	t.Parallel()
	w := newAdminWorld(t, 0, plan{}) // the treasury is empty, so its refund waits
	former, formerAccount := w.config.TreasuryKey, w.treasury
	next, account := newSecretKey(t)
	w.fund(account, 1_000_000_000)
	first, second := w.buyer(), w.buyer()
	first.signIn()
	var begun, later orderView
	first.buySettled("begun~002").into(t, 200, &begun)
	eventually(t, func() (bool, string) {
		return w.count("SELECT count(*) FROM refunds WHERE status = 'signed'") == 1, "not signed"
	})

	known, used := w.config, w.config
	known.TreasuryRetired = []secret.Text{next}
	used.TreasuryKey, used.TreasuryRetired = next, []secret.Text{former}
	old, now := w.start(known), w.start(used)
	w.instances[0].stop()
	w.instances = []*instance{now, old}
	w.awaitReady(now)
	w.fund(formerAccount, 2*price()) // the old process may do the second refund, too
	second.signIn()
	second.buySettled("later~002").into(t, 200, &later)
	second.awaitStatus(later.OrderID, "refunded")
	if got := w.paidBy(account, second.address) + w.paidBy(formerAccount, second.address); got != 1 {
		t.Errorf("the second buyer got %d refunds", got)
	}
	first.awaitStatus(begun.OrderID, "refunded")
	if w.paidBy(formerAccount, first.address) != 1 || w.paidBy(account, first.address) != 0 {
		t.Errorf("the former treasury paid %d times, the new one %d times", w.paidBy(formerAccount, first.address),
			w.paidBy(account, first.address))
	}
	w.checkBooks()
}

// paidBy counts the transfers of an account to another one.
func (w *world) paidBy(from, to x402.Address) int {
	w.t.Helper()
	was := w.treasury
	w.treasury = from
	defer func() { w.treasury = was }()
	return len(w.payouts(to))
}

// TestKeysOfTextsAreRotatedTogether: while processes with the former and the new keys of quotes, delivery tokens and
// sealing serve side by side, what one of them gives out is good at the other, and what was sealed is sealed again.
func TestKeysOfTextsAreRotatedTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	w.awaitEsimReady(w.instances[0])
	text := func(digits string) secret.Text { return secret.New(strings.Repeat(digits, 32)) }
	before := w.buyer().buyEsim("before-rotation")

	known, used := w.config, w.config
	known.FormerQuoteKeys, known.Esim.FormerTokenKeys = []secret.Text{text("6b")}, []secret.Text{text("8f")}
	known.Esim.Keys = secret.New(w.config.Esim.Keys.Reveal() + ",k2:" + strings.Repeat("d5", 32))
	used.QuoteKey, used.FormerQuoteKeys = text("6b"), []secret.Text{w.config.QuoteKey}
	used.Esim.TokenKey, used.Esim.FormerTokenKeys = text("8f"), []secret.Text{w.config.Esim.TokenKey}
	used.Esim.Keys = secret.New("k2:" + strings.Repeat("d5", 32) + "," + w.config.Esim.Keys.Reveal())
	old := w.start(known)
	w.awaitReady(old)
	w.awaitEsimReady(old)
	w.instances[0].stop()
	now := w.start(used)
	w.instances = []*instance{now, old}
	w.awaitReady(now)
	w.awaitEsimReady(now)

	wantOpen := func(o esimOrder) {
		t.Helper()
		for _, i := range w.instances {
			var got esimCredentials
			r := get("/api/esim/orders/"+o.OrderID+"/credentials").withHeader("X-Esim-Delivery-Token", o.Delivery.Token)
			if w.send(r.on(i)).into(t, 200, &got); got != *o.Credentials {
				t.Errorf("%s is another eSIM at %s", o.OrderID, i.url)
			}
		}
	}
	wantOpen(before)
	// A periodic job that becomes due now may be done by the process whose current key is the former one.
	const periods = "SELECT count(*) FROM jobs WHERE kind = 'esim_reseal' AND unique_key LIKE 'esim_reseal|%'"
	due := w.count(periods)
	for i, from := range w.instances {
		to := w.instances[1-i]
		b, key := w.buyer(), fmt.Sprintf("quoted-%d-bought-at-the-other", i)
		a := w.send(post(esimPath, purchaseBody(key)).on(from))
		required, err := x402.DecodeRequired(a.header.Get(x402.HeaderRequired))
		if err != nil {
			t.Fatalf("no terms: %d %s", a.status, clipped(a.body))
		}
		pay := b.esimPayment(required)
		// The price changes in between: only a quote that is known keeps the old one.
		w.exec("UPDATE esim_plans SET price_usd_cents = price_usd_cents + 100")
		var o esimOrder
		w.send(esimPurchase(key, pay).on(to)).into(t, 200, &o)
		wantOpen(o)
	}
	eventually(t, func() (bool, string) {
		return w.count("SELECT count(*) FROM jobs WHERE kind = 'esim_reseal' AND unique_key = 'key|k2' "+
			"AND status = 'succeeded'") == 1, "the job of the new key is not done"
	})
	const sealedWith = "SELECT sealed_key FROM esim_profiles WHERE order_id = $1"
	if got := queryOne[string](w, sealedWith, before.OrderID); got != "k2" && w.count(periods) == due {
		t.Errorf("what was sealed before is still sealed with %s", got)
	}
	wantOpen(before)
	w.checkBooks()
}
