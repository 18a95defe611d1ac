package endtoend_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// ordering is who of the two that see an order through comes first: the process that the buyer asked, or the worker of
// another. Faults of the program hold the other one back, at every purchase.
type ordering struct {
	name string
	// admin is what the process that the buyer asks is started with; it claims no job but its own.
	admin []string
	// right checks the first answer, and how often the order's job had been claimed by then.
	right func(a answer, claims int) error
}

func orderings() []ordering {
	return []ordering{
		{
			// The request sleeps from its claim until its lease is over and another process's worker has the job.
			name:  "the worker first",
			admin: []string{"FAULT=claim.committed:sleep=4s@*", "WORKER__LEASE=1s"},
			right: func(a answer, claims int) error {
				if claims < 2 {
					return fmt.Errorf("the job was claimed %d times, so no worker took it from the request", claims)
				}
				if a.status != 200 && !a.is(fault.SettlementUnknown) {
					return fmt.Errorf("%d %s", a.status, clipped(a.body))
				}
				return nil
			},
		},
		{
			// The request has waited for as long as it may before the first step is taken.
			name:  "the buyer first",
			admin: []string{"FAULT=fulfill.leased:sleep=3s@*", "PAYMENT__WAIT=2s", "WORKER__LEASE=1s"},
			right: func(a answer, _ int) error {
				if a.status != 503 || !a.is(fault.SettlementUnknown) || a.problem.OrderID == "" {
					return fmt.Errorf("%d %s, want 503 with the order", a.status, clipped(a.body))
				}
				return nil
			},
		},
	}
}

// buy buys as the turn has it: whatever the first answer was, the purchase ends sold.
func (f ordering) buy(b *buyer, key string) (paidOrder, error) {
	payment := header(b.w.t, b.payment())
	a := b.w.send(purchase(key, payment))
	if a.err != nil {
		return paidOrder{}, a.err
	}
	if err := f.right(a, b.w.claims(b)); err != nil {
		return paidOrder{}, err
	}
	return b.retry(key, payment)
}

// claims is how often the job of the buyer's order has been claimed.
func (w *world) claims(b *buyer) (n int) {
	w.t.Helper()
	err := w.db.QueryRow(context.WithoutCancel(w.t.Context()),
		`SELECT coalesce(max(j.attempt), 0) FROM jobs j JOIN orders o ON o.id = j.payload->>'order'
		WHERE j.kind = 'order_fulfill' AND lower(o.owner) = lower($1)`, b.address.String()).Scan(&n)
	if err != nil {
		w.t.Fatalf("look at the job: %v", err)
	}
	return n
}

// newWorld makes a world of two processes, one for the buyers and one that works.
func (f ordering) newWorld(t *testing.T, program string, change func(*app.Config)) *world {
	t.Helper()
	w := newWorld(t, plan{change: change})
	worker := w.launch(program, "WORKER__LEASE=1s")
	w.awaitReady(worker)
	w.replaceInstances(w.launch(program, append(f.admin, "--no-worker")...))
	return w
}

// TestWorkerAndRequestFulfillInEitherOrder makes the outbound calls of a purchase fail in each way, with the worker
// ahead of the buyer's request and behind it: one transfer, one card, the same outcome.
func TestWorkerAndRequestFulfillInEitherOrder(t *testing.T) {
	onlyTorture(t, "settlement TestDeadProcessLeavesItsOrderToAnother, TestIssuerFaultsLeaveOneCardAndOneFee and "+
		"TestChainFaultsLeaveOnePayment, and simulated processes that stop for longer than their leases")
	t.Parallel()
	program := apptest.Binary(t)
	for _, f := range orderings() {
		t.Run(f.name+", the issuer", func(t *testing.T) {
			t.Parallel()
			w := f.newWorld(t, program, nil)
			for mode, ends := range issuerModes {
				w.wantEndDespiteFault("open", mode, ends, f.buy)
			}
			w.checkBooks()
		})
		for _, c := range []nodeFault{
			{method: "eth_sendRawTransaction", mode: acceptAndDrop},
			// the request's own questions come before there is a job
			{method: "eth_getLogs", mode: answerEmpty, only: asksForUse},
		} {
			t.Run(f.name+", "+c.method, func(t *testing.T) {
				t.Parallel()
				node := newNodeProxy(t, sharedChain(t).RPCURL)
				w := f.newWorld(t, program, func(c *app.Config) { c.RPCURLs = []string{node.url} })
				for _, mode := range append(nodeModes[:len(nodeModes):len(nodeModes)], c.mode) {
					w.buyWithNodeFault(f, node,
						nodeFault{method: c.method, mode: mode, only: c.only, times: 2, delay: 2500 * time.Millisecond})
				}
				w.checkBooks()
				w.wantAllDelivered()
			})
		}
	}
}

// buyWithNodeFault buys one card while calls to the node fail.
func (w *world) buyWithNodeFault(f ordering, node *nodeProxy, fault nodeFault) {
	w.t.Helper()
	b := w.buyer()
	node.inject(fault)
	if _, err := f.buy(b, fault.method+string(fault.mode)); err != nil {
		w.t.Errorf("%s, %s: %v", fault.method, fault.mode, err)
	}
	if node.faultsLeft() == fault.times {
		w.t.Errorf("%s, %s: no call failed", fault.method, fault.mode)
	}
	node.clearFaults()
	b.wantPaidOnce(fmt.Sprintf("%s, %s", fault.method, fault.mode))
}
