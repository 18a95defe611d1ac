package hostile_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// promises are attacks of owners on fees, and on goods that cannot be delivered.
func promises() []attack {
	return []attack{
		{
			name: "fee-dodging", by: owner, do: dodgesTheFee,
			aim: "the card is emptied before the issue fee is taken from it",
			defence: "the card opens with what remains, or the fee is owed: posted, measured, and the owner's top-ups are " +
				"closed",
		},
		{
			name: "top-up-of-a-locked-card", ref: "A39", by: owner, do: topsUpLocked,
			held:    "product/card TestWhatTheIssuerLockedOrTerminatedIsNotUsed",
			aim:     "top-ups that are sold, paid and refunded, again and again",
			defence: "the issuer's word on the card is read before the terms and in the claim",
		},
	}
}

// issued are the issuer's cards, by their own numbers.
func (r *trial) issued() map[string]int64 {
	r.Helper()
	var book struct {
		Cards []struct {
			ID           string
			BalanceCents int64
		}
	}
	r.sandbox("GET", "/control/books", nil, &book)
	cards := map[string]int64{}
	for _, c := range book.Cards {
		cards[c.ID] = c.BalanceCents
	}
	return cards
}

// newest is the issuer's card that was not there before.
func (r *trial) newest(before map[string]int64) (id string, balance int64) {
	r.Helper()
	for id, balance := range r.issued() {
		if _, old := before[id]; !old {
			return id, balance
		}
	}
	r.Fatal("no new card")
	return "", 0
}

func dodgesTheFee(r *trial) {
	honest := r.wallet(1000)
	honest.owns(r)
	r.rest()
	before := r.issued()
	p := r.wallet(1000)
	p.buys(r, cardPath)
	var id string
	var balance int64
	// As soon as there is something on it, everything is spent.
	r.await("the card has money", func() error {
		for card, cents := range r.issued() {
			if _, old := before[card]; !old && cents > 0 {
				id, balance = card, cents
				return nil
			}
		}
		return fmt.Errorf("no card yet")
	})
	spent := int64(0)
	for _, cents := range []int64{balance, 1500} {
		if r.spendsWith(id, cents) {
			spent = cents
			break
		}
	}
	if spent <= 1500 {
		r.Logf("%d cents could be spent", spent)
		return
	}
	// The fee is due once the card is active; how it ends is known when its job is.
	r.rest()
	moved := p.moved()
	a := p.offers(r.Context(), topupPath, keyed("k"), p.pays(r, r.caller().terms(r, topupPath, keyed("k"))).header(r))
	if a.status != http.StatusConflict || p.moved() != moved {
		r.Errorf("a top-up while the fee is owed: %d %.300s; %d units moved", a.status, a.body, p.moved()-moved)
	}
	honest.buys(r, topupPath)
}

// spendsWith tries to spend with a card, as its owner does.
func (r *trial) spendsWith(card string, cents int64) bool {
	c := &caller{w: r.world, base: r.world.books.SandboxURL, http: r.http}
	return c.send(r.Context(), http.MethodPost, "/control/cards/"+
		card, map[string]any{"spendCents": cents}).status == http.StatusOK
}

func topsUpLocked(r *trial) {
	for _, state := range []string{"locked", "terminated"} {
		p := r.wallet(1000)
		r.rest()
		before := r.issued()
		card := p.owns(r)
		id, _ := r.newest(before)
		offered := p.terms(r, topupPath, keyed("before"))
		r.rest()
		r.sandbox("POST", "/control/cards/"+id, map[string]any{"state": state}, nil)
		moved, goods := p.moved(), r.goods()
		time.Sleep(time.Second) // clock: what is cached of the issuer has expired
		if a := p.offers(r.Context(), topupPath, keyed("before"),
			p.pays(r, offered).header(r)); a.status != http.StatusConflict || a.code() != "active_card_missing" {
			r.Errorf("%s: a payment: %d %.300s", state, a.status, a.body)
		}
		if a := p.get(r, "/api/cards/"+card+"/balance"); a.status != http.StatusConflict && a.status != http.StatusNotFound {
			r.Errorf("%s: the balance: %d %.300s", state, a.status, a.body)
		}
		r.rest()
		if p.moved() != moved || r.goods() != goods {
			r.Errorf("%s: %d units moved, %+v became %+v", state, p.moved()-moved, goods, r.goods())
		}
	}
}

func outrunsTheSwitch(r *trial) {
	set := func(paused bool) {
		r.operate("POST", "/api/admin/switches/esim", uuid.NewString(),
			map[string]any{"paused": paused, "reason": "the suite tries it"}, nil)
	}
	defer set(false)
	type ready struct {
		p      *wallet
		header string
	}
	buyers := make([]ready, sized(10, 40))
	for i := range buyers {
		p := r.wallet(100)
		buyers[i] = ready{p, p.pays(r, p.terms(r, esimPath, keyed("k"))).header(r)}
	}
	before := r.goods()
	set(true)
	for _, a := range race(len(buyers), func(i int) answer {
		b := buyers[i]
		at := wallet{caller: b.p.at(r.programs[i%len(r.programs)].base), key: b.p.key, address: b.p.address}
		return at.offers(r.Context(), esimPath, keyed("k"), b.header)
	}) {
		if a.status != http.StatusServiceUnavailable {
			r.Errorf("after the switch: %d %.200s", a.status, a.body)
		}
	}
	r.nothing(before, r.wallets...)
}
