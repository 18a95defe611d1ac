package simulation_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// oftenLost is how many reorganisations in a minute may lose transactions.
const oftenLost = 5

const (
	// deepest is how many blocks a reorganisation replaces at most, none of them a safe one, and farthest how far a node
	// lags at most.
	deepest  = 4
	farthest = 4
	// leastFee is Base's least base fee, in wei, which doubles so often at most: what was signed before waits.
	leastFee = uint64(5_000_000)
	dearest  = 14
	// longestOutage is how long a host does not answer at most.
	longestOutage = 30 * time.Second
	// longestStop is how long nothing of a process goes on at most. A lease lasts for 20 s.
	longestStop = time.Minute
)

// nature does to the chain and to the providers what happens to them, until it is over. Then everything is well.
func (w *world) nature(over <-chan struct{}) {
	rng := diceOf(w.plan.seed, 2)
	p := w.plan
	rate := p.reorganisations + p.lags + p.outages + p.fees + p.stops
	for rate > 0 && pause(time.Duration(rng.ExpFloat64()/rate*float64(time.Minute))+1, over) {
		switch x := rng.Float64() * rate; {
		case x < p.reorganisations:
			w.reorganise(rng)
		case x < p.reorganisations+p.lags:
			w.lag(rng.IntN(p.nodes), rng.IntN(farthest+1))
		case x < p.reorganisations+p.lags+p.fees:
			fee := leastFee << rng.IntN(dearest)
			w.chain.SetBaseFee(fee)
			w.bus.note("the base fee is %d wei", fee)
		case x < p.reorganisations+p.lags+p.fees+p.stops:
			w.stopOne(rng)
		default:
			w.breakDown(rng, over)
		}
	}
	w.chain.SetBaseFee(leastFee)
	for i := range p.nodes {
		w.chain.Node(nodeName(i)).Lag(0)
	}
}

// stopOne stops a process for longer than the leases of its jobs, or shorter.
func (w *world) stopOne(rng *rand.Rand) {
	d := time.Duration(rng.Int64N(int64(w.plan.stopped)))
	if p := w.running(w.slots[rng.IntN(len(w.slots))]); p != nil && p.stop(d) {
		w.bus.note("%s stops for %s", p.name, d.Round(time.Millisecond))
	}
}

// reorganise replaces the last blocks. Some of their transactions may be lost, but those that others have sent: a
// facilitator sends each payment once, and of what somebody else has sent the service may have no signature to send it
// again with. It has sold for both, as chain.paid_at says.
func (w *world) reorganise(rng *rand.Rand) {
	depth, loses := 1+rng.IntN(deepest), rng.IntN(3) == 0
	// Not where whoever made them may have forgotten them, and not so often that a payment is over before it is sent
	// again: then it is lost after its delivery.
	loses = loses && !w.plan.restores && w.plan.reorganisations <= oftenLost && w.token == nil
	lost := 0
	err := w.chain.Reorganise(depth, func(transaction common.Hash) bool {
		if loses && rng.IntN(2) == 0 && !w.isForeign(transaction) {
			lost++
			return true
		}
		return false
	})
	w.mu.Lock()
	w.replaced++
	w.mu.Unlock()
	fix(w.bus.seed, "reorganisation", w.bus.granted)
	w.bus.note("reorganisation of %d blocks, %d transactions lost, %v", depth, lost, err)
}

func (w *world) lag(node, blocks int) {
	w.chain.Node(nodeName(node)).Lag(blocks)
	w.bus.note("%s is %d blocks behind", nodeName(node), blocks)
}

// breakDown lets a host answer nobody for a while.
func (w *world) breakDown(rng *rand.Rand, over <-chan struct{}) {
	hosts := []string{"providers.sim"}
	for i := range w.plan.nodes {
		hosts = append(hosts, nodeName(i)+".sim")
	}
	if w.plan.screens {
		hosts = append(hosts, "screening.sim")
	}
	host := hosts[rng.IntN(len(hosts))]
	w.setDown(host, true)
	pause(time.Duration(rng.Int64N(int64(longestOutage))), over)
	w.setDown(host, false)
}

func (w *world) setDown(host string, down bool) {
	w.mu.Lock()
	w.down[host] = down
	w.mu.Unlock()
	w.bus.note("%s down: %t", host, down)
}

func (w *world) isDown(host string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.down[host]
}

// books is where the sandbox shows its books.
const books = "/control/books"

// spend lets merchants charge what is on the cards of the sandbox, all of it and as soon as it is there.
func (w *world) spend(over <-chan struct{}) {
	rng := diceOf(w.plan.seed, 3)
	seen, left := int64(-1), false
	for pause(time.Duration(rng.Int64N(int64(time.Second))), over) {
		asked := w.asked.Load()
		if asked == seen && !left {
			continue // there is nothing new on any card
		}
		seen, left = asked, false
		var shown struct {
			Cards []struct {
				ID      string
				Status  string
				Balance int64 `json:"balanceCents"`
			}
		}
		w.control(http.MethodGet, books, nil, &shown)
		for _, c := range shown.Cards {
			if c.Balance <= 0 {
				continue
			}
			if later := rng.IntN(2) == 0; later {
				left = true
			} else {
				w.control(http.MethodPost, "/control/cards/"+c.ID+"/purchases",
					map[string]any{"amountCents": c.Balance, "merchant": "shop"}, nil)
				w.bus.note("%d cents of a card are spent", c.Balance)
			}
		}
	}
}

// control asks the sandbox by its control routes, past the bus.
func (w *world) control(method, path string, body, into any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // it is made of literals
	}
	r := httptest.NewRequest(method, path, bytes.NewReader(text))
	r.RemoteAddr = "127.0.0.1:40000"
	answer := httptest.NewRecorder()
	w.bank.ServeHTTP(answer, r)
	if into != nil {
		_ = json.Unmarshal(answer.Body.Bytes(), into) // nothing is known then
	}
}
