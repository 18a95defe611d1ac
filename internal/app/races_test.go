package app_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// racers is how many requests meet in each round, spread over the instances.
const racers = 9

// race sends the requests at once and returns their answers in order.
func (w *world) race(requests []request) []answer {
	answers := make([]answer, len(requests))
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i, r := range requests {
		r.at = w.instances[i%len(w.instances)]
		all.Go(func() {
			<-begin
			answers[i] = w.send(r)
		})
	}
	close(begin)
	all.Wait()
	return answers
}

// contest is one kind of race: what a round's requests are, and which losers' answers are right.
type contest struct {
	name string
	// requests of a round, and the transfers that it must leave.
	round func(w *world, n int) []request
	// losers are the codes a request that did not win may get.
	losers []fault.Code
	// shared says that every request is the same purchase: all may succeed, with one order.
	shared bool
}

func contests() []contest {
	return []contest{
		{name: "one request, many times", shared: true, losers: []fault.Code{fault.SettlementUnknown}, round: func(w *world, n int) []request {
			one := purchase(fmt.Sprint("same-", n), header(w.t, w.buyer().payment()))
			return repeated(one)
		}},
		{name: "one key, signed anew each time", shared: true, losers: []fault.Code{fault.SettlementUnknown}, round: func(w *world, n int) []request {
			b := w.buyer()
			return each(func(int) request { return purchase(fmt.Sprint("key-", n), header(w.t, b.payment())) })
		}},
		{name: "one open order, paid by every route", shared: true, losers: []fault.Code{fault.SettlementUnknown}, round: func(w *world, n int) []request {
			b, key := w.buyer(), fmt.Sprint("open-", n)
			b.signIn()
			o := b.opens(cardOrdersPath, key, "")
			return each(func(i int) request {
				payment := header(w.t, b.payment())
				return []request{payFor("GET", o.path(), payment), payFor("POST", aliasPath+o.OrderID, payment), purchase(key, payment)}[i/len(w.instances)%3]
			})
		}},
		// A loser that comes after the settlement finds the nonce spent.
		{name: "one authorization, many keys", losers: []fault.Code{fault.AuthorizationAlreadyUsed, fault.CardAlreadyExists}, round: func(w *world, n int) []request {
			payment := header(w.t, w.buyer().payment())
			return each(func(i int) request { return purchase(fmt.Sprint("authorization-", n, "-", i), payment) })
		}},
		{name: "one owner, many purchases", losers: []fault.Code{fault.CardAlreadyExists}, round: func(w *world, n int) []request {
			b := w.buyer()
			return each(func(i int) request { return purchase(fmt.Sprint("card-", n, "-", i), header(w.t, b.payment())) })
		}},
		{name: "the last float, many buyers", losers: []fault.Code{fault.FloatUnavailable}, round: func(w *world, n int) []request {
			w.lastFloat()
			return each(func(i int) request {
				return purchase(fmt.Sprint("float-", n, "-", i), header(w.t, w.buyer().payment()))
			})
		}},
	}
}

func each(make_ func(i int) request) []request {
	all := make([]request, racers)
	for i := range all {
		all[i] = make_(i)
	}
	return all
}

func repeated(one request) []request { return each(func(int) request { return one }) }

// lastFloat leaves the issuer with the price of one card, and waits until every instance sells it. One
// that still remembers the float of the round before counts what that round's winner held.
func (w *world) lastFloat() {
	w.t.Helper()
	w.settled(30 * time.Second)
	w.issuer.control("POST", "float", map[string]any{"cents": 2500})
	for _, i := range w.instances {
		eventually(w.t, 10*time.Second, func() (bool, string) {
			r := purchase("look", "")
			r.at = i
			a := w.send(r)
			return a.status == 402, string(a.body)
		})
	}
}

// run runs rounds of a contest and checks that each had exactly one winner: by the answers, on the chain,
// and in the issuer's books.
func (c contest) run(w *world, n int) {
	w.t.Helper()
	payers, cards := make([]map[x402.Address]bool, n), len(w.issuer.books().Cards)
	for round := range n {
		requests := c.round(w, round)
		payers[round] = map[x402.Address]bool{}
		for _, r := range requests {
			payers[round][payerOf(w.t, r)] = true
		}
		winners := c.winners(w, round, w.race(requests))
		for winner, times := range winners {
			if len(winners) != 1 || (!c.shared && times != 1) {
				w.t.Errorf("%s, round %d: %s won %d times, of %d winners", c.name, round, winner, times, len(winners))
			}
		}
		if len(winners) == 0 {
			w.t.Errorf("%s, round %d: nobody was told of the order", c.name, round)
		}
		if w.t.Failed() {
			return
		}
	}
	w.settled(30 * time.Second)
	arrived := w.transfers()
	for round, payers := range payers {
		paid := 0
		for _, tr := range arrived {
			if payers[tr.from] {
				paid++
			}
		}
		if paid != 1 {
			w.t.Errorf("%s, round %d: %d transfers, want 1", c.name, round, paid)
		}
	}
	if got := len(w.issuer.books().Cards) - cards; got != n {
		w.t.Errorf("%s: %d cards at the issuer after %d rounds", c.name, got, n)
	}
}

// winners are the orders that the answers tell of, and how many do.
func (c contest) winners(w *world, round int, answers []answer) map[string]int {
	w.t.Helper()
	found := map[string]int{}
	for _, a := range answers {
		switch {
		case a.err != nil:
			w.t.Errorf("%s, round %d: no answer: %v", c.name, round, a.err)
		case a.status == 200:
			var o sold
			a.into(w.t, 200, &o)
			found[o.OrderID+" "+o.Payment.Transaction]++
			if a.header.Get(x402.HeaderResponse) == "" {
				w.t.Errorf("%s, round %d: 200 without PAYMENT-RESPONSE", c.name, round)
			}
		case !c.mayLose(a):
			w.t.Errorf("%s, round %d: %d %s", c.name, round, a.status, clipped(a.body))
		}
	}
	return found
}

func payerOf(t *testing.T, r request) x402.Address {
	t.Helper()
	pay, err := x402.DecodePayment(r.header[x402.HeaderSignature])
	if err != nil {
		t.Fatal(err)
	}
	return pay.Authorization.From
}

func (c contest) mayLose(a answer) bool {
	for _, code := range c.losers {
		if a.problem.Code == string(code) {
			return true
		}
	}
	return false
}

// TestRacesHaveOneWinner runs every contest over three instances on one database.
func TestRacesHaveOneWinner(t *testing.T) {
	t.Parallel()
	for _, c := range contests() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, plan{instances: 3})
			c.run(w, rounds())
			w.reconcile()
		})
	}
}
