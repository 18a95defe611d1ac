package hostile_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
)

// evasions are attacks on the limits themselves.
func evasions() []attack {
	return []attack{
		{
			name: "garbage-in-the-payment-header", by: stranger, do: floodsGarbage,
			aim:     "any payment header makes a request one that is not limited as unpaid",
			defence: "a request counts as unpaid until its signature is recovered",
		},
		{
			name: "payments-signed-by-nobody", by: stranger, do: floodsForged,
			held:    "checkout TestInvalidPaymentCountsAsUnpaid",
			aim:     "the same with payments whose signature is another's",
			defence: "the same; and payments count by address before their signature is looked at",
		},
		{
			name: "unpaid-orders-flood", by: owner, do: floodsOrders,
			held:    "store TestUnpaidOrdersPerOwnerAreBounded",
			aim:     "the database fills with orders that nobody pays",
			defence: "20 open unpaid orders for each wallet, 60 new ones an hour; expired ones are pruned",
		},
		{
			name: "connections-of-one-address", by: stranger, do: connectsALot,
			held:    "transport/edge TestConnsLimitsConnectionsOfAddress",
			aim:     "one address takes all connections that there are",
			defence: "256 connections for each address, 3,072 in all",
		},
	}
}

func floodsGarbage(r *trial) {
	texts := make([]string, 50)
	for i := range texts {
		raw := make([]byte, 700)
		for j := range raw {
			raw[j] = byte(rand.IntN(256))
		}
		texts[i] = encoded(string(raw))
	}
	texts[0], texts[1], texts[2] = "x", encoded("{}"), encoded(`{"x402Version":2}`)
	r.flooded(60, func(ctx context.Context, c *caller, n int) answer {
		return c.send(ctx, http.MethodPost, cardPath, keyed("k"), headerPayment, texts[n%len(texts)])
	})
}

func floodsForged(r *trial) {
	p := r.wallet(0)
	offered := p.terms(r, cardPath, keyed("k"))
	texts := make([]string, 200)
	for i := range texts {
		texts[i] = p.pays(r, offered, func(m *payment) { m.From = newAddress(r) }).header(r)
	}
	r.flooded(60, func(ctx context.Context, c *caller, n int) answer {
		return c.send(ctx, http.MethodPost, cardPath, keyed("k"), headerPayment, texts[n%len(texts)])
	})
}

func floodsOrders(r *trial) {
	p := r.wallet(1000)
	p.owns(r)
	opened := p.opensOrders(r, r.base, 100)
	if opened > 20 || opened == 0 {
		r.Errorf("one wallet opened %d unpaid orders", opened)
	}
	q := r.wallet(0)
	q.signsIn(r)
	opened = 0
	for range 100 {
		if a := q.post(r, "/api/card-issue/orders", map[string]any{}, "Idempotency-Key",
			uuid.NewString()); a.status == http.StatusOK {
			opened++
		}
	}
	if opened > 20 {
		r.Errorf("one wallet opened %d unpaid orders of cards", opened)
	}
}

// opensOrders opens as many unpaid orders as it can.
func (p *wallet) opensOrders(t testing.TB, base string, tries int) (opened int) {
	t.Helper()
	for i := range tries {
		a := p.at(base).send(t.Context(), http.MethodPost, "/api/orders", map[string]any{"amountUsdCents": 2500 + i},
			p.bearer()...)
		switch a.status {
		case http.StatusOK:
			opened++
		case http.StatusTooManyRequests, http.StatusConflict:
		default:
			t.Fatalf("%d %.300s", a.status, a.body)
		}
	}
	return opened
}

func connectsALot(r *trial) {
	r.besiege(func(ctx context.Context) {
		n := sized(400, 1000)
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second) // clock: shorter than the time for headers
		defer cancel()
		if closed := r.hold(ctx, n, slowHeader, letter); closed < int64(n-256) {
			r.Errorf("of %d connections of one address %d were closed", n, closed)
		}
	})
}

// processes are attacks on several processes that serve.
func processes() []attack {
	return []attack{
		{
			name: "reveals-over-all-processes", by: owner, do: revealsEverywhere,
			held:    "store TestHitsAreCountedOverAllProcesses",
			aim:     "each process allows the whole rate again",
			defence: "what guards money or supply is counted in the database",
		},
		{
			name: "unpaid-orders-over-all-processes", by: owner, do: opensEverywhere,
			held:    "store TestUnpaidOrdersPerOwnerAreBounded",
			aim:     "the same with orders",
			defence: "the same",
		},
		{
			name: "one-payment-at-all-processes", ref: "A8", by: payer, do: paysEverywhere,
			aim:     "several goods for one payment, by asking each process",
			defence: "the claim is a unique row; the first one wins wherever it was asked for",
		},
		{
			name: "sale-after-the-kill-switch", by: payer, do: outrunsTheSwitch,
			held:    "store TestSwitchIsAnsweredOnceNoClaimCanSucceed",
			aim:     "goods after an operator was told that their sale is closed, at a process that has not heard of it",
			defence: "a claim reads the switch in its own transaction",
		},
	}
}

// The attacks are on two processes with one database.
func TestHostileProcesses(t *testing.T) {
	w := newWorld(t).start().start()
	mount(t, w, processes())
	t.Run("the-books-hold-after-all-of-it", func(t *testing.T) { w.audit(t) })
}

// at is the same caller, at another process.
func (c *caller) at(base string) *caller {
	other := *c
	other.base = base
	return &other
}

func revealsEverywhere(r *trial) {
	p := r.wallet(1000)
	card := p.owns(r)
	shown := 0
	for i := range 14 {
		at := wallet{caller: p.at(r.programs[i%len(r.programs)].base), key: p.key, address: p.address, token: p.token}
		c := answerIntent(at.post(r, "/api/cards/"+card+"/reveal-challenge", map[string]any{}))
		if a := at.reveal(r, card, c.IntentID, p.says(r, c.Message)); a.status == http.StatusOK {
			shown++
		}
	}
	if shown == 0 || shown > 5 {
		r.Errorf("the card was revealed %d times within an hour", shown)
	}
}

func opensEverywhere(r *trial) {
	p := r.wallet(1000)
	p.owns(r)
	opened := 0
	for _, program := range r.programs {
		opened += p.opensOrders(r, program.base, 60)
	}
	if opened == 0 || opened > 20 {
		r.Errorf("one wallet opened %d unpaid orders", opened)
	}
}

func paysEverywhere(r *trial) {
	for range sized(3, 30) {
		p := r.wallet(100)
		body := keyed(uuid.NewString())
		header := p.pays(r, p.terms(r, esimPath, body)).header(r)
		orders := map[string]bool{}
		answers := race(12, func(i int) answer {
			b := body
			if i%3 == 2 {
				b = keyed(fmt.Sprint("other ", i))
			}
			at := wallet{caller: p.at(r.programs[i%len(r.programs)].base), key: p.key, address: p.address}
			return at.offers(r.Context(), esimPath, b, header)
		})
		for _, a := range answers {
			if a.status == http.StatusOK {
				var o order
				a.into(r, &o)
				orders[o.OrderID] = true
			}
		}
		if len(orders) != 1 {
			r.Errorf("%d orders for one payment", len(orders))
		}
		r.exactly(p, 1)
	}
}
