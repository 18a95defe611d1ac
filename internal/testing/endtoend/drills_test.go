package endtoend_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/x402"
)

// scrapeEvery is how often Prometheus scrapes in the deployments of packaging. In the drills a buyer comes as often,
// and just before.
const scrapeEvery = 15 * time.Second

// drill is an incident: a process of the program, what it needs and loses, the buyers who come meanwhile, and the
// alerts that an operator has.
type drill struct {
	*world
	alerts *alertWatch
	buying sync.WaitGroup
	left   []*buyer
	visits []*visit
}

// visit is a buyer's purchase of a card during an incident.
type visit struct {
	*buyer
	key, payment string
	first        answer
}

// newDrill makes a world whose one instance is the program itself. One buyer has bought, so that nothing is new to it.
func newDrill(t *testing.T, change func(*app.Config)) *drill {
	t.Helper()
	if !torture() {
		t.Skip("takes minutes")
	}
	d := &drill{world: newAdminWorld(t, 1_000_000_000, plan{bare: true, change: func(c *app.Config) {
		c.IssuerPoll, c.Wait = time.Second, 20*time.Second
		change(c)
	}})}
	metrics := apptest.FreeAddr(t)
	// The books are compared more often than usual: hours pass in a minute.
	at := d.launch(apptest.Binary(t), "METRICS__ADDR="+metrics, "TREASURY__KEY="+d.config.TreasuryKey.Reveal(),
		"RECONCILE__EVERY=5s")
	at.metrics = "http://" + metrics + "/metrics"
	d.instances = []*instance{at}
	d.awaitReady(at)
	d.awaitEsimReady(at)
	d.left = d.buyers(16)
	d.left[0].wantSold("before")
	d.left = d.left[1:]
	d.awaitSettled()
	d.alerts = watchAlerts(t, at)
	d.alerts.scrape(scrapeEvery)
	if firing := d.alerts.firing(); len(firing) > 0 {
		t.Fatalf("before anything happens, %v fire", firing)
	}
	return d
}

// arrives lets the next buyer buy.
func (d *drill) arrives() *visit {
	d.t.Helper()
	b := d.left[0]
	d.left = d.left[1:]
	longLived := func(p *x402.Payment) { p.Authorization.ValidBefore = uint64(time.Now().Add(45 * time.Minute).Unix()) }
	v := &visit{buyer: b, key: fmt.Sprint("visit-", len(d.visits)), payment: header(d.t, b.payment(longLived))}
	d.visits = append(d.visits, v)
	d.buying.Go(func() { v.first = d.send(purchase(v.key, v.payment)) })
	return v
}

// until lets buyers come until one of some alerts fires, and wants it to before the fifth of them is affected. The last
// scrape was just before the incident, so the next one is as late as it can be.
func (d *drill) until(names ...string) {
	d.t.Helper()
	tick := time.NewTicker(scrapeEvery)
	defer tick.Stop()
	for range 12 {
		<-tick.C
		d.arrives()
		d.alerts.scrape(scrapeEvery)
		for _, name := range d.alerts.firing() {
			if slices.Contains(names, name) {
				d.t.Logf("%s fires after %d buyers, %d of them affected", name, len(d.visits), d.affected())
				if n := d.affected(); n >= 5 {
					d.t.Errorf("%d buyers are affected when %s fires", n, name)
				}
				return
			}
		}
	}
	d.t.Fatalf("none of %v fires, but %v", names, d.alerts.active)
}

// affected counts the buyers who have not got what they came for.
func (d *drill) affected() (n int) {
	for _, v := range d.visits {
		if d.count("SELECT count(*) FROM orders WHERE owner = $1 AND status = 'fulfilled'", v.address.Lower()) == 0 {
			n++
		}
	}
	return n
}

// firesWithin scrapes as Prometheus does until an alert fires with a label.
func (d *drill) firesWithin(most time.Duration, name, label, value string) {
	d.t.Helper()
	tick := time.NewTicker(scrapeEvery)
	defer tick.Stop()
	for range most / scrapeEvery {
		if d.alerts.fires(name, label, value) {
			return
		}
		<-tick.C
		d.alerts.scrape(scrapeEvery)
	}
	d.t.Errorf("%s of %s does not fire within %s, but %v", name, value, most, d.alerts.active)
}

// outcomes wants each buyer to have been served, or refused before paying, or told that a payment is under way, and
// counts them.
func (d *drill) outcomes() (sold, refused, waiting int) {
	d.t.Helper()
	d.buying.Wait()
	for _, v := range d.visits {
		switch a := v.first; {
		case a.status == 200:
			sold++
		case a.status == 503 && a.problem.OrderID == "" && (a.is(fault.DependencyDown) || a.is(fault.SettlementUnknown)):
			refused++
			if paid := d.transferCount(v.buyer); paid != 0 || d.count("SELECT count(*) FROM orders WHERE owner = $1",
				v.address.Lower()) != 0 {
				d.t.Errorf("%s was refused, and paid %d times", v.key, paid)
			}
		case a.is(fault.SettlementUnknown):
			waiting++
		default:
			d.t.Errorf("%s: %d %s (%v)", v.key, a.status, clipped(a.body), a.err)
		}
	}
	d.t.Logf("%d buyers were served, %d refused before paying, %d told to wait", sold, refused, waiting)
	return sold, refused, waiting
}

// ends wants all of the incident to pass by itself: the alerts that fired clear, everybody who came has a card for one
// payment, and the books agree.
func (d *drill) ends() {
	d.t.Helper()
	for _, v := range d.visits {
		v.wantRetrySold(v.key, v.payment)
	}
	d.checkBooks()
	d.wantAllDelivered()
	for _, v := range d.visits {
		v.wantPaidOnce(v.key)
	}
	if parked := d.count("SELECT count(*) FROM jobs WHERE status = 'operator_review'"); parked != 0 {
		d.t.Errorf("%d jobs wait for an operator", parked)
	}
	if acts := d.count("SELECT count(*) FROM audit"); acts != 0 {
		d.t.Errorf("an operator did %d things", acts)
	}
	d.passes(45*time.Minute, time.Minute, func() {})
	// The gas of a development chain is expensive, whatever happens.
	firing := slices.DeleteFunc(d.alerts.firing(), func(name string) bool { return name == "GasExpensive" })
	if len(firing) > 0 {
		d.t.Errorf("45 minutes later %v still fire: %+v", firing, d.alerts.active)
	}
}

// passes lets time pass in steps, for the alerts: a scrape stands for each. meanwhile is called before it.
func (d *drill) passes(most, step time.Duration, meanwhile func()) {
	d.t.Helper()
	for range most / step {
		meanwhile()
		pause(200 * time.Millisecond) // clock: spaces out the looks
		d.alerts.scrape(step)
	}
}

// ages makes all that is stored and not finished so much older: for the program, that time has passed.
func (d *drill) ages(by time.Duration) {
	d.t.Helper()
	d.exec(`UPDATE orders SET created_at = created_at - $1 * interval '1 second',
		updated_at = updated_at - $1 * interval '1 second' WHERE status NOT IN ('fulfilled', 'payment_required')`,
		by.Seconds())
	d.exec(`UPDATE jobs SET run_at = run_at - $1 * interval '1 second', created_at = created_at - $1 * interval '1 second',
		step_at = step_at - $1 * interval '1 second' WHERE status IN ('queued', 'processing')`, by.Seconds())
}

// TestDrillIssuerIsDown for 30 minutes: NotReady fires before the fifth buyer is affected. Buyers who have paid get the
// card afterwards, everybody else is refused before paying, and nobody has to do anything.
func TestDrillIssuerIsDown(t *testing.T) {
	t.Parallel()
	d := newDrill(t, func(*app.Config) {})
	caught := d.arrives() // its card is opened while the issuer goes down
	d.issuer.fault("open", "timeout_before", 0, 0)
	eventually(t, func() (bool, string) {
		return d.count("SELECT count(*) FROM orders WHERE owner = $1 AND status = 'provisioning'",
			caught.address.Lower()) == 1, "nobody waits for the issuer"
	})
	d.issuer.clearFaults()
	d.issuer.fault("*", "error_before", 0, 0)
	d.until("NotReady")
	if !d.alerts.fires("NotReady", "check", "issuer") {
		t.Errorf("another check fails: %+v", d.alerts.active)
	}
	sold, refused, waiting := d.outcomes()
	if sold == 0 || refused == 0 || waiting != 0 {
		t.Error("the drill is none: somebody was to pay before, and somebody to be refused")
	}
	minute := func() {
		d.ages(time.Minute)
		pause(time.Second) // clock: spaces out the looks
	}
	d.passes(30*time.Minute, time.Minute, minute) // the rest of the half hour
	for _, name := range []string{"NotReady", "FloatUnreadable", "PaidOrderStuck"} {
		if !slices.Contains(d.alerts.firing(), name) {
			t.Errorf("%s does not fire after 30 minutes, but %v", name, d.alerts.firing())
		}
	}
	d.issuer.clearFaults()
	// What has waited for long is not looked at every second.
	d.passes(5*time.Minute, time.Minute, minute)
	if d.count("SELECT count(*) FROM orders WHERE status <> 'fulfilled'") != 0 {
		t.Error("five minutes after the issuer has come back, somebody waits")
	}
	d.ends()
}

// TestDrillRelayerIsOutOfGas: RelayerGasOut fires before the fifth buyer is affected, and all who paid are delivered
// once there is gas.
func TestDrillRelayerIsOutOfGas(t *testing.T) {
	t.Parallel()
	var node *nodeProxy
	d := newDrill(t, func(c *app.Config) {
		node = newNodeProxy(t, sharedChain(t).RPCURL)
		c.RPCURLs = []string{node.url}
	})
	// The gas is gone when the next payment is to be sent.
	node.inject(nodeFault{method: "eth_sendRawTransaction", mode: passOn, times: 1, before: func() {
		d.rpc(nil, "anvil_setBalance", d.relayer.String(), "0x1")
	}})
	d.arrives()
	d.until("RelayerGasOut")
	if sold, refused, waiting := d.outcomes(); sold != 0 || refused == 0 || waiting != 1 {
		t.Error("the drill is none: one was to be told to wait, and all others to be refused")
	}
	d.firesWithin(2*time.Minute, "NotReady", "check", "relayer")
	d.giveGas(d.relayer)
	d.ends()
}

// TestDrillNodeIsStuck: a node of the chain hears of no new block any more. With three nobody notices but the operator.
// With fewer the alerts fire before the fifth buyer is affected.
func TestDrillNodeIsStuck(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 2, 3} {
		t.Run(fmt.Sprint("of ", nodes), func(t *testing.T) {
			t.Parallel()
			var proxies []*nodeProxy
			d := newDrill(t, func(c *app.Config) {
				c.RPCURLs = nil
				for range nodes {
					proxies = append(proxies, newNodeProxy(t, sharedChain(t).RPCURL))
					c.RPCURLs = append(c.RPCURLs, proxies[len(proxies)-1].url)
				}
			})
			last := proxies[nodes-1]
			last.inject(nodeFault{method: "*", mode: stuck, head: d.blockNumber()})
			d.arrives()
			if nodes == 3 {
				d.until("NodeStuck")
				if sold, _, _ := d.outcomes(); sold != len(d.visits) {
					t.Errorf("%d of %d buyers were served", sold, len(d.visits))
				}
			} else {
				d.until("NotReady", "SettlementUnknown")
				d.outcomes()
			}
			d.firesWithin(3*time.Minute, "NodeStuck", "node", fmt.Sprint(nodes))
			for _, a := range d.alerts.active {
				if strings.HasPrefix(a.Name, "Node") && a.Labels["node"] != fmt.Sprint(nodes) {
					t.Errorf("another node is blamed: %+v", a)
				}
			}
			last.clearFaults()
			d.ends()
		})
	}
}
