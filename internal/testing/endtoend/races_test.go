package endtoend_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// racers is how many requests meet in each round, spread over the instances.
const racers = 9

// race sends the requests at once and returns their answers in order, those of claimed payments once they are settled.
func (w *world) race(requests []request) []answer {
	answers := make([]answer, len(requests))
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i, r := range requests {
		r.at = w.instances[i%len(w.instances)]
		all.Go(func() {
			<-begin
			answers[i] = w.send(r).settled()
		})
	}
	close(begin)
	all.Wait()
	return answers
}

// contest is one kind of race: what a round's requests are, and which losers' answers are right.
type contest struct {
	name string
	// buyers is how many wallets a round needs.
	buyers int
	// round makes a round's requests.
	round func(w *world, n int, by []*buyer) []request
	// losers are the codes a request that did not win may get.
	losers []fault.Code
	// shared says that every request is the same purchase: all may succeed, with one order.
	shared bool
	// promised says that no card is delivered before the last round: what is promised to the winners of the
	// rounds before stays promised, so that a round is about one card's price.
	promised bool
}

func contests() []contest {
	return []contest{
		{name: "one request, many times", buyers: 1, shared: true, losers: []fault.Code{fault.SettlementUnknown},
			round: func(w *world, n int, by []*buyer) []request {
				one := purchase(fmt.Sprint("same-", n), header(w.t, by[0].payment()))
				return repeated(one)
			}},
		{name: "one key, signed anew each time", buyers: 1, shared: true, losers: []fault.Code{fault.SettlementUnknown},
			round: func(w *world, n int, by []*buyer) []request {
				return perRacer(func(int) request { return purchase(fmt.Sprint("key-", n), header(w.t, by[0].payment())) })
			}},
		{name: "one open order, paid by every route", buyers: 1, shared: true, losers: []fault.Code{fault.SettlementUnknown},
			round: func(w *world, n int, by []*buyer) []request {
				b, key := by[0], fmt.Sprint("open-", n)
				b.signIn()
				o := b.createOrder(cardOrdersPath, key, "")
				return perRacer(func(i int) request {
					payment := header(w.t, b.payment())
					return []request{payRequest("GET", o.path(), payment), payRequest("POST", aliasPath+o.OrderID, payment),
						purchase(key, payment)}[i/len(w.instances)%3]
				})
			}},
		// A loser that comes after the settlement finds the nonce spent.
		{name: "one authorization, many keys", buyers: 1,
			losers: []fault.Code{fault.AuthorizationAlreadyUsed, fault.CardAlreadyExists},
			round: func(w *world, n int, by []*buyer) []request {
				payment := header(w.t, by[0].payment())
				return perRacer(func(i int) request { return purchase(fmt.Sprint("authorization-", n, "-", i), payment) })
			}},
		{name: "one owner, many purchases", buyers: 1, losers: []fault.Code{fault.CardAlreadyExists},
			round: func(w *world, n int, by []*buyer) []request {
				return perRacer(func(i int) request {
					return purchase(fmt.Sprint("card-", n, "-", i), header(w.t, by[0].payment()))
				})
			}},
		// It may come back, while the winner's payment is not settled.
		{name: "the last float, many buyers", buyers: racers, promised: true,
			losers: []fault.Code{fault.FloatReserved, fault.FloatUnavailable},
			round: func(w *world, n int, by []*buyer) []request {
				w.leaveFloatForOne(n)
				return perRacer(func(i int) request {
					return purchase(fmt.Sprint("float-", n, "-", i), header(w.t, by[i].payment()))
				})
			}},
	}
}

func perRacer(make_ func(i int) request) []request {
	all := make([]request, racers)
	for i := range all {
		all[i] = make_(i)
	}
	return all
}

func repeated(one request) []request { return perRacer(func(int) request { return one }) }

// leaveFloatForOne leaves the issuer with the price of one card in addition to what the rounds before have promised
// away, and waits until every instance knows: one that has the earlier float cached would sell nothing.
func (w *world) leaveFloatForOne(round int) {
	w.t.Helper()
	for _, cards := range []int{round, round + 1} {
		w.setFloat(cards)
		for _, i := range w.instances {
			eventually(w.t, func() (bool, string) {
				r := purchase("look", "").on(i)
				a := w.send(r)
				return (a.status == 402) == (cards > round), string(a.body)
			})
		}
	}
}

// setFloat sets the issuer's to the price of so many cards.
func (w *world) setFloat(cards int) {
	w.t.Helper()
	w.issuer.setFloat(2500 * cards)
}

// runContests runs rounds of contests, all of a round at once, and checks that each had exactly one winner: by the
// answers, on the chain, and in the issuer's books. Nothing is waited for between the rounds.
func (w *world) runContests(contests []contest, rounds int) {
	w.t.Helper()
	perRound, promised := 0, false
	for _, c := range contests {
		perRound += c.buyers
		promised = promised || c.promised
	}
	if promised {
		w.issuer.fault("open", "error_before", 0, 0)
	}
	wallets := w.buyers(perRound * rounds)
	payers := map[x402.Address]string{}
	for round := range rounds {
		var requests []request
		for _, c := range contests {
			by := wallets[:c.buyers]
			wallets = wallets[c.buyers:]
			for _, b := range by {
				payers[b.address] = fmt.Sprint(c.name, ", round ", round)
			}
			requests = append(requests, c.round(w, round, by)...)
		}
		answers := w.race(requests)
		for i, c := range contests {
			c.wantOneWinner(w, round, answers[i*racers:(i+1)*racers])
		}
		if w.t.Failed() {
			w.issuer.clearFaults() // what was promised is delivered, or the world never rests
			return
		}
	}
	w.issuer.clearFaults()
	w.awaitSettled()
	paid := map[string]int{}
	for _, tr := range w.transfers() {
		paid[payers[tr.from]]++
	}
	for _, of := range payers {
		if paid[of] != 1 {
			w.t.Errorf("%s: %d transfers, want 1", of, paid[of])
		}
	}
	if got, want := len(w.issuer.books().Cards), rounds*len(contests); got != want {
		w.t.Errorf("%d cards at the issuer after %d contests", got, want)
	}
}

// wantOneWinner checks that a round had one winner.
func (c contest) wantOneWinner(w *world, round int, answers []answer) {
	w.t.Helper()
	winners := c.winners(w, round, answers)
	for winner, times := range winners {
		if len(winners) != 1 || (!c.shared && times != 1) {
			w.t.Errorf("%s, round %d: %s won %d times, of %d winners", c.name, round, winner, times, len(winners))
		}
	}
	if len(winners) == 0 {
		w.t.Errorf("%s, round %d: nobody was told of the order", c.name, round)
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
			var o paidOrder
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

func (c contest) mayLose(a answer) bool {
	for _, code := range c.losers {
		if a.is(code) {
			return true
		}
	}
	return false
}

// TestRacesHaveOneWinner runs every contest over three instances on one database: those for a wallet's own purchase all
// at once, and that for the last float by itself.
func TestRacesHaveOneWinner(t *testing.T) {
	t.Parallel()
	for name, contests := range contestsByWorld() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The orders that wait for their card need not be looked at often.
			w := newWorld(t, plan{instances: 3, change: func(c *app.Config) { c.IssuerPoll = time.Second }})
			w.runContests(contests, rounds())
			w.checkBooks()
		})
	}
}

// contestsByWorld are the contests that may share a world.
func contestsByWorld() map[string][]contest {
	all := map[string][]contest{}
	for _, c := range contests() {
		name := "own purchases"
		if c.promised {
			name = "the last float"
		}
		all[name] = append(all[name], c)
	}
	return all
}
