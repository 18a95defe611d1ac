package endtoend_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/fault"
)

// TestSalesWaitForTransferCatchUp: a started process sells nothing while it cannot read the chain to its
// head.
func TestSalesWaitForTransferCatchUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	b := w.buyer()
	b.buyCard("before")
	w.instances[0].stop()

	node := newNodeProxy(t, w.rpcURL)
	node.inject(nodeFault{method: "eth_getLogs", mode: failBefore})
	cfg := w.config
	cfg.RPCURLs = []string{node.url}
	w.instances = nil
	w.start(cfg)
	w.wantClosedForCatchUp(b)
	// Paid purchases are still repeated.
	wantStatus(t, "a repeat of what is paid", b.buy("before"), 200)
	node.clearFaults()
	w.awaitReady(w.instances[0])
	w.buyer().buyCard("after")
	w.checkBooks()
}

// TestSalesWaitForTwoNodesToAgree: one of two nodes answers everything but the questions for transfers. The
// other one alone might hide a payment, so nothing is sold until both show the same, and the answer names the cause.
func TestSalesWaitForTwoNodesToAgree(t *testing.T) {
	onlyTorture(t, "reconcile TestCatchUpWaitsForASecondNode")
	t.Parallel()
	w, nodes := newNodeWorld(t, 2, nil)
	b := w.buyer()
	b.buyCard("before")
	w.instances[0].stop()
	nodes[0].inject(nodeFault{method: "eth_getLogs", mode: failBefore})
	w.instances = nil
	w.start(w.config)
	eventually(t, func() (bool, string) {
		a := w.send(purchase("closed", ""))
		return strings.Contains(string(a.body), "Too few nodes"), fmt.Sprintf("%d %s", a.status, clipped(a.body))
	})
	w.wantClosedForCatchUp(b)
	nodes[0].clearFaults()
	w.awaitReady(w.instances[0])
	w.buyer().buyCard("after")
	w.checkBooks()
}

// TestProcessStartsWhileOneOfTwoNodesIsAway: it sells nothing, but does what was sold; once both nodes answer, it
// sells.
func TestProcessStartsWhileOneOfTwoNodesIsAway(t *testing.T) {
	t.Parallel()
	w, nodes := newNodeWorld(t, 2, nil)
	b := w.buyer()
	b.buyCard("before")
	w.instances[0].stop()
	w.instances = nil
	nodes[1].inject(nodeFault{method: "*", mode: failBefore})
	w.start(w.config)
	w.wantClosedForCatchUp(b)
	nodes[1].clearFaults()
	w.awaitReady(w.instances[0])
	w.buyer().buyCard("after")
	w.checkBooks()
}

// wantClosedForCatchUp checks that nobody is invited to pay, nothing is claimed, and readiness says so.
func (w *world) wantClosedForCatchUp(owner *buyer) {
	w.t.Helper()
	// A process that has just started says first that its workers are not there yet.
	eventually(w.t, func() (bool, string) {
		a := w.send(purchase("closed", ""))
		return !a.is(fault.WorkersUnavailable), clipped(a.body)
	})
	before, fresh := w.footprint(), w.buyer()
	if a := w.send(get("/ready")); a.status != 503 ||
		!strings.Contains(string(a.body), "transfers") {
		w.t.Errorf("readiness: %d %s", a.status, clipped(a.body))
	}
	wantStatus(w.t, "readiness of eSIMs", w.send(get("/api/esim/ready")), 503)
	for _, r := range []request{purchase("closed", ""), {path: "/api/card/topup", body: purchaseBody("closed")}} {
		if a := w.send(r); a.status != 503 || !a.is(fault.DependencyDown) ||
			a.header.Get("Payment-Required") != "" {
			w.t.Errorf("%s unpaid: %d %s", r.path, a.status, clipped(a.body))
		}
	}
	for what, a := range map[string]answer{"a card": fresh.buy("closed"), "a top-up": owner.topUp("closed", 2500)} {
		if a.status != 503 || !a.is(fault.SettlementUnknown) ||
			a.problem.NextAction != "retry_same_request" || a.problem.SafeToPayAgain == nil || *a.problem.SafeToPayAgain {
			w.t.Errorf("%s: %d %s", what, a.status, clipped(a.body))
		}
	}
	w.wantFootprint("a trace was left", before)
}

// TestRestoredDatabaseIsDetected: a process whose database is replaced by an older state, under the same name on
// the same server, claims nothing in it before it has read the transfers again.
func TestRestoredDatabaseIsDetected(t *testing.T) {
	t.Parallel()
	w, node := newProxyWorld(t, nil)
	w.instances[0].stop()
	w.instances = nil
	older := w.copyDatabase()
	w.start(w.config)
	w.awaitReady(w.instances[0])
	b := w.buyer()
	b.wantSold("lost")
	w.awaitSettled()

	node.inject(nodeFault{method: "eth_getLogs", mode: failBefore})
	w.restore(older)
	eventually(t, func() (bool, string) {
		a := w.buyer().buy("at once")
		return a.is(fault.SettlementUnknown), fmt.Sprintf("%d %s", a.status, clipped(a.body))
	})
	eventually(t, func() (bool, string) {
		a := w.send(get("/ready"))
		return a.status == 503 && strings.Contains(string(a.body), "transfers"), string(a.body)
	})
	var orders int
	if err := w.db.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&orders); err != nil || orders != 0 {
		t.Errorf("%d orders in the restored database, %v", orders, err)
	}
	node.clearFaults()
	w.awaitReady(w.instances[0])
	// What the lost order was paid with pays for it again, whether its block is safe or not: the new payment, which
	// proves the payer, is not sent.
	b.wantSold("lost")
	if n := w.transferCount(b); n != 1 {
		t.Errorf("the lost order was paid %d times", n)
	}
	w.buyer().buyCard("after")
}

// TestNodeHidingLogsCausesNoSecondPayment: while an older state of the database replaces the current one,
// the preferred of two nodes shows no logs. The lost purchase, repeated under its key, is paid by what has arrived.
func TestNodeHidingLogsCausesNoSecondPayment(t *testing.T) {
	onlyTorture(t, "reconcile TestCatchUpWaitsForASecondNode, chain TestTransfersNeedTwoNodes")
	t.Parallel()
	w, nodes := newNodeWorld(t, 2, nil)
	w.instances[0].stop()
	w.instances = nil
	older := w.copyDatabase()
	w.start(w.config)
	w.awaitReady(w.instances[0])
	b := w.buyer()
	before := b.buyCard("lost")
	w.awaitSettled()
	nodes[0].inject(nodeFault{method: "eth_getLogs", mode: answerEmpty})
	w.restore(older)
	eventually(t, func() (bool, string) { // it is noticed that the database has changed
		var read int
		err := w.db.QueryRow(t.Context(), "SELECT count(*) FROM transfers WHERE sender = $1", b.address.Lower()).Scan(&read)
		if err == nil && read > 0 {
			return true, ""
		}
		a := w.buyer().buy("at once")
		noticed := a.status == 200 || strings.Contains(a.problem.Detail, "reads what has been paid")
		return noticed, fmt.Sprintf("%d %s %v", a.status, clipped(a.body), err)
	})
	w.awaitReady(w.instances[0])
	nodes[0].clearFaults()
	after := b.buyCard("lost")
	if !after.Replayed || after.Payment.Transaction != before.Payment.Transaction {
		t.Errorf("found %+v, was %+v", after, before)
	}
	b.wantPaidOnce("")
}

// copyDatabase copies the world's database, which nothing may be connected to, and returns the copy's name.
func (w *world) copyDatabase() string {
	w.t.Helper()
	name := w.databaseName()
	older := name + "_older"
	w.db.Reset()
	w.execOnServer("CREATE DATABASE " + older + " TEMPLATE " + name)
	return older
}

// restore puts an older state in the place of the world's database, cutting the connections to it.
func (w *world) restore(older string) {
	w.t.Helper()
	name := w.databaseName()
	w.execOnServer(
		"ALTER DATABASE "+name+" WITH ALLOW_CONNECTIONS false",
		"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '"+name+"'",
		"ALTER DATABASE "+name+" RENAME TO "+name+"_lost",
		"ALTER DATABASE "+older+" RENAME TO "+name,
	)
	w.t.Cleanup(func() { w.execOnServer("DROP DATABASE " + name + "_lost WITH (FORCE)") })
}

func (w *world) databaseName() string {
	w.t.Helper()
	u, err := url.Parse(w.databaseURL)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

// execOnServer runs statements on the world's server, outside of its database.
func (w *world) execOnServer(statements ...string) {
	w.t.Helper()
	u, err := url.Parse(w.databaseURL)
	if err != nil {
		w.t.Fatal(err)
	}
	u.Path = "/postgres"
	ctx := context.WithoutCancel(w.t.Context())
	conn, err := pgx.Connect(ctx, u.String())
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			w.t.Fatalf("%s: %v", s, err)
		}
	}
}
