package endtoend_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/testing/invariants"
)

// outage is something that a sale needs, taken away and given back.
type outage struct {
	code        fault.Code
	begin, heal func()
	// unread outages keep the service from reading what a buyer has paid, which comes before all else.
	unread bool
	// silent outages leave no answer to what was bought before.
	silent bool
}

// outages are all of a world's, by what is away.
func (w *world) outages(node *nodeProxy, server *devnet.Postgres, dir string) map[string]outage {
	first := w.instances[0]
	const rich, poor = "0x3635c9adc5dea00000", "0x1"
	gas := func(wei string) func() { return func() { w.rpc(nil, "anvil_setBalance", w.relayer.String(), wei) } }
	return map[string]outage{
		"the issuer": {code: fault.DependencyDown, begin: func() { w.issuer.fault("stock", "error_before", 0, 0) },
			heal: func() { w.issuer.clearFaults() }},
		"the chain": {code: fault.DependencyDown, unread: true,
			begin: func() { node.inject(nodeFault{method: "*", mode: hangUp}) }, heal: node.clearFaults},
		"the gas": {code: fault.DependencyDown, begin: gas(poor), heal: gas(rich)},
		"the workers": {code: fault.WorkersUnavailable, begin: func() {
			alone := w.config
			alone.NoWorker = true
			w.awaitCaughtUp(w.start(alone))
			first.stop()
			w.instances = w.instances[1:]
		}, heal: func() { w.awaitReady(w.start(w.config)) }},
		"the database": {code: fault.DependencyDown, silent: true, begin: func() {
			if err := server.Close(); err != nil {
				w.t.Errorf("stop PostgreSQL: %v", err)
			}
		}, heal: func() {
			startDatabase(w.t, dir)
			w.db.Reset()
		}},
	}
}

// TestNothingIsClaimedDuringOutage is I24: a paid request for something new gets 503 and leaves no trace;
// what was bought before is answered as ever; and the same requests sell once it is healed.
func TestNothingIsClaimedDuringOutage(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"the issuer", "the chain", "the gas", "the workers", "the database"} {
		t.Run(name, func(t *testing.T) {
			if name != "the chain" && name != "the workers" {
				onlyTorture(t, "the chain and the workers, availability TestOpenNamesTheFirstNeedThatIsMissing")
			}
			t.Parallel()
			node := newNodeProxy(t, sharedChain(t).RPCURL)
			p := plan{change: func(c *app.Config) { c.RPCURLs, c.Wait = []string{node.url}, 2*time.Second }}
			var server *devnet.Postgres
			var dir string
			if name == "the database" {
				server, dir = ownDatabase(t)
				p.databaseURL = server.URL()
			}
			w := newWorld(t, p)
			o := w.outages(node, server, dir)[name]
			before, buyers := w.buyer(), w.buyers(12)
			bought := header(t, before.payment())
			if _, err := before.retry("before", bought); err != nil {
				t.Fatal(err)
			}
			w.awaitSettled()

			o.begin()
			unclaimed := w.buyDuringOutage(o, buyers)
			if a := w.send(purchase("before", bought)); a.status != 200 && !o.silent {
				t.Errorf("what was bought before: %d %s", a.status, clipped(a.body))
			}
			w.told.downSpans[0].To = time.Now()
			o.heal()

			for key, payment := range unclaimed {
				before.wantRetrySold(key, payment)
			}
			w.checkBooks()
			w.wantAllDelivered()
		})
	}
}

// claimsNothing reports that an answer claims nothing because of the outage.
func (o outage) claimsNothing(a answer) bool {
	unread := o.unread && a.is(fault.SettlementUnknown)
	return a.status == 503 && a.problem.OrderID == "" && (unread || a.is(o.code))
}

// buyDuringOutage buys until the outage is noticed, and then tries for each buyer that is left.
// It returns what these asked with.
func (w *world) buyDuringOutage(o outage, buyers []*buyer) map[string]string {
	w.t.Helper()
	var last string
	for n := 0; ; n++ {
		if n == len(buyers)-3 {
			w.t.Fatalf("%d purchases did not notice the outage, the last got %s", n, last)
		}
		a := w.send(purchase(fmt.Sprint("probe-", n), header(w.t, buyers[n].payment())))
		if o.claimsNothing(a) {
			break
		}
		last = fmt.Sprint(a.status, " ", clipped(a.body), a.err)
		pause(500 * time.Millisecond) // clock: spaces out the tries
	}
	w.told.downSpans = []invariants.Span{{From: time.Now(), To: time.Now().Add(time.Hour)}}
	payments := map[string]string{}
	for i, b := range buyers[len(buyers)-3:] {
		key := fmt.Sprint("down-", i)
		payments[key] = header(w.t, b.payment())
		a := w.send(purchase(key, payments[key]))
		if !o.claimsNothing(a) || a.header.Get("Payment-Required") != "" {
			w.t.Errorf("%s: %d %s, want 503 %s", key, a.status, clipped(a.body), o.code)
		}
	}
	return payments
}
