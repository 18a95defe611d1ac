package simulation_test

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// owner is a buyer who has its goods, and does with them what owners may, through any process: it reads, freezes, sets
// limits, buys more, gives back, and makes orders that it pays later or never. Some of it it does twice at once.
type owner struct {
	member
	first chan *purchase
	told  sync.Once
	card  string
	// esims are the orders of its eSIMs.
	esims []string
	// orders counts the orders that it has made, to be paid later.
	orders int
}

// mostOwners is how many buyers are owners at most, in a world about everything.
const mostOwners = 2

// ownerDice are the dice of owners.
const ownerDice = 9000

func newOwner(b *buyer) *owner {
	return &owner{member: member{buyer: b.own(ownerDice)}, first: make(chan *purchase, 1)}
}

// has says what the buyer has got first. Without an owner it says nothing.
func (o *owner) has(first *purchase) {
	if o != nil {
		o.told.Do(func() { o.first <- first })
	}
}

// live is what an owner does once it has something.
func (o *owner) live() {
	defer o.world.trading.Done()
	if o.world.plan.theme == owners {
		o.signIn() // so that it is fast afterwards
	}
	first := <-o.first
	if first.state != "fulfilled" {
		return
	}
	if o.card = first.card; o.card == "" {
		o.esims = append(o.esims, first.order)
	}
	if o.card != "" && o.rng.IntN(3) == 0 && o.signIn() {
		o.freeze() // while the fee is on its way
	}
	for range 4 + o.rng.IntN(5) {
		time.Sleep(time.Duration(o.rng.Int64N(int64(4 * time.Second))))
		if acts := o.acts(); o.signIn() {
			acts[o.rng.IntN(len(acts))]()
		}
	}
	if o.card != "" && o.signIn() {
		post("/api/cards/"+o.card+"/unfreeze", nil)(&o.member)
	}
}

// acts are what it may do with what it has.
func (o *owner) acts() []func() {
	all := []func(){o.read, o.buyEsim, o.order}
	if o.card != "" {
		all = append(all, o.freeze, o.freeze, o.reveal)
		if !o.world.plan.byHand {
			all = append(all, o.limit, o.topUp, o.topUp, o.topUp, o.topUpFrozen)
		}
	}
	if len(o.esims) > 0 {
		all = append(all, o.cancel, o.cancel, o.addData, o.addData, o.cancelAndAdd)
	}
	return all
}

// atOnce does several things, each a little later than the one before.
func (o *owner) atOnce(acts ...func(*member)) {
	var all sync.WaitGroup
	for i, act := range acts {
		after := time.Duration(o.rng.Int64N(int64(100*time.Millisecond))) * time.Duration(i)
		as := &member{buyer: o.own(o.rng.Uint64N(1 << 40)), session: o.session}
		as.bought = o.bought
		o.bought += ownKeys
		all.Go(func() { time.Sleep(after); act(as) })
	}
	all.Wait()
}

// post asks for something until it is answered, by somebody.
func post(path string, body any) func(*member) {
	return func(m *member) { _, _ = m.until(http.MethodPost, path, nil, body) }
}

// read reads what it has.
func (o *owner) read() {
	paths := []string{"/api/orders", "/api/cards"}
	if o.card != "" {
		at := "/api/cards/" + o.card
		paths = append(paths, at+"/balance", at+"/transactions", at+"/limits", at+"/details")
	}
	for _, id := range o.esims {
		at := "/api/esim/orders/" + id
		paths = append(paths, "/api/orders/"+id, at, at+"/credentials", at+"/profile", at+"/topups")
	}
	_, _ = o.ask(http.MethodGet, paths[o.rng.IntN(len(paths))], nil, nil)
}

// freeze freezes the card, unfreezes it, or both at once.
func (o *owner) freeze() {
	freeze, unfreeze := post("/api/cards/"+o.card+"/freeze", nil), post("/api/cards/"+o.card+"/unfreeze", nil)
	switch o.rng.IntN(4) {
	case 0:
		o.atOnce(freeze, freeze)
	case 1:
		o.atOnce(freeze, unfreeze)
	default:
		o.atOnce(freeze)
		o.sleep()
		o.atOnce(unfreeze)
	}
}

// topUpFrozen buys more for the card while it is frozen and unfrozen.
func (o *owner) topUpFrozen() {
	o.atOnce(func(m *member) { m.topUp() }, func(m *member) {
		for range 3 {
			post("/api/cards/"+o.card+"/freeze", nil)(m)
			time.Sleep(time.Duration(m.rng.Int64N(int64(time.Second))))
			post("/api/cards/"+o.card+"/unfreeze", nil)(m)
			time.Sleep(time.Duration(m.rng.Int64N(int64(2 * time.Second))))
		}
	})
}

// limit sets limits to the card.
func (o *owner) limit() {
	body := map[string]any{"perTransactionUsdCents": 100 + o.rng.IntN(5000)}
	if o.rng.IntN(3) == 0 {
		body = map[string]any{}
	}
	set := func(m *member) { _, _ = m.until(http.MethodPut, "/api/cards/"+o.card+"/limits", nil, body) }
	if o.rng.IntN(2) == 0 {
		o.atOnce(set, set)
		return
	}
	o.atOnce(set, func(m *member) { m.topUp() })
}

// reveal asks for the card's number, with one challenge through two processes.
func (o *owner) reveal() {
	t, err := o.ask(http.MethodPost, "/api/cards/"+o.card+"/reveal-challenge", nil, map[string]any{})
	var ch struct{ IntentID, Message string }
	if err != nil || !t.into(&ch) {
		return
	}
	var mu sync.Mutex
	shown := 0
	use := func(m *member) {
		t, err := m.ask(http.MethodPost, "/api/cards/"+o.card+"/reveal", nil,
			map[string]any{"intentId": ch.IntentID, "signature": o.signText(ch.Message)})
		if err == nil && t.status == http.StatusOK {
			mu.Lock()
			defer mu.Unlock()
			shown++
		}
	}
	o.atOnce(use, use)
	if shown > 1 {
		o.world.rules.broke("one signature reveals a card once", "card %s was revealed %d times", o.card, shown)
	}
}

// topUp buys more for the card. Some of it its issuer refuses, or leaves undecided.
func (m *member) topUp() {
	p := m.purchase("/api/card/topup", map[string]any{"amountUsdCents": 2500 + m.rng.IntN(2500)})
	if m.rng.IntN(3) == 0 {
		p.key += []string{"~001", "~002", "~002", "~005", "~005"}[m.rng.IntN(5)]
	}
	p.buy()
}

func (o *owner) topUp() {
	if o.rng.IntN(3) == 0 {
		o.atOnce((*member).topUp, (*member).topUp)
		return
	}
	o.member.topUp()
}

// buyEsim buys another eSIM.
func (o *owner) buyEsim() {
	p := o.purchase("/api/esim/purchase", nil)
	if p.buy() && p.state == "fulfilled" {
		o.esims = append(o.esims, p.order)
	}
}

// cancel gives an eSIM back, twice at once, and asks again for what became of it.
func (o *owner) cancel() {
	id := o.esims[o.rng.IntN(len(o.esims))]
	cancel := post("/api/esim/orders/"+id+"/cancel", nil)
	o.atOnce(cancel, cancel)
	if o.rng.IntN(2) == 0 {
		time.Sleep(time.Duration(o.rng.Int64N(int64(20 * time.Second))))
		o.atOnce(cancel)
	}
}

// addData buys data for an eSIM.
func (o *owner) addData() { o.esim(&o.member) }

func (o *owner) esim(m *member) {
	id := o.esims[m.rng.IntN(len(o.esims))]
	m.purchase("/api/esim/orders/"+id+"/topup", nil).buy()
}

// cancelAndAdd gives an eSIM back and buys data for it at once.
func (o *owner) cancelAndAdd() {
	id := o.esims[o.rng.IntN(len(o.esims))]
	add := func(m *member) { m.purchase("/api/esim/orders/"+id+"/topup", nil).buy() }
	wait := time.Duration(o.rng.Int64N(int64(5 * time.Second)))
	o.atOnce(add, func(m *member) {
		time.Sleep(wait)
		post("/api/esim/orders/"+id+"/cancel", nil)(m)
	})
}

// order makes an order that is paid later: soon, in the moment in which its time is over, or never.
func (o *owner) order() {
	o.orders++
	path := "/api/esim/orders"
	body := map[string]any{}
	if o.card != "" && o.rng.IntN(2) == 0 && !o.world.plan.byHand {
		path, body = "/api/orders", map[string]any{"amountUsdCents": 2500}
	}
	l, ok := o.makeOrder(fmt.Sprintf("order-%d-%d", o.nth, o.orders), path, body)
	if !ok {
		return
	}
	p := &purchase{of: o.buyer, key: l.key, path: "/pay/" + l.id, bare: true}
	switch o.rng.IntN(4) {
	case 0:
	case 1:
		o.sleep()
		p.buy()
	default:
		o.payLate(p, l.expires)
	}
}

// makeOrder makes an order that is paid later.
func (m *member) makeOrder(key, path string, body map[string]any) (l link, ok bool) {
	if !m.signIn() {
		return l, false
	}
	t, err := m.until(http.MethodPost, path, map[string]string{"Idempotency-Key": key}, body)
	var made struct {
		OrderID   string
		ExpiresAt time.Time
	}
	if err != nil || !t.into(&made) || made.OrderID == "" {
		return l, false
	}
	l = link{id: made.OrderID, key: key, owner: m, expires: made.ExpiresAt}
	m.world.rules.made(l)
	return l, true
}

// payLate pays in the moment in which an order's time is over.
func (o *owner) payLate(p *purchase, expires time.Time) {
	t, err := o.buys(p, "")
	terms, asked := t.terms()
	if err != nil || !asked {
		return
	}
	before := time.Duration(o.rng.Int64N(int64(300 * time.Millisecond)))
	if skew := o.world.plan.skew; skew > 0 {
		before += time.Duration(o.rng.Int64N(int64(2*skew))) - skew
	}
	time.Sleep(time.Until(expires.Add(-before)))
	p.terms, p.paid = terms, o.sign(terms)
	p.buy()
}
