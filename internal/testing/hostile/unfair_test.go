package hostile_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
)

// unfair are attacks of payers who do not pay, on those who do.
func unfair() []attack {
	return []attack{
		{
			name: "yes-in-simulations-only", ref: "A28, A29", by: payer, do: simulatesOnly,
			aim: "claims that never settle occupy every worker (EIP-7702 code that says yes in eth_call only)",
			defence: "payers with code that nobody vouched for are refused; simulations run as the relayer sends; settling " +
				"has slots of its own, and looks once",
		},
		{
			name: "code-after-the-claim", ref: "A28", by: payer, do: codesLate,
			held:    "chain TestSubmitRefusesCodeInstalledAfterClaim",
			aim:     "the same, by delegating after the payment was looked at",
			defence: "code is looked for again before each transaction; reverts of an authorization are bounded",
		},
		{
			name: "gas-burning", ref: "A29", by: payer, do: burnsGas,
			held: "chain TestSubmitStopsAfterSecondRevert",
			aim:  "our relayer pays for transactions that revert, again and again",
			defence: "after the second revert of an authorization the chain is only watched; gas is bounded for each payer " +
				"and hour",
		},
		{
			name: "many-undecided-payments-of-one-payer", ref: "A41", by: payer, do: leavesUndecided,
			held:    "store TestOrdersPassTheKit/UndecidedPaymentsPerPayerAreBounded",
			aim:     "one wallet fills the settlement's slots",
			defence: "few undecided payments for each payer, over all processes",
		},
		{
			name: "float-hoarding", ref: "A41", by: payer, do: hoards,
			held: "store TestOrdersPassTheKit/UnpaidOrdersReserveABoundedShareOfTheFloat",
			aim:  "the issuer's float is reserved for payments that never settle",
			defence: "a claim whose transfer a block did not make holds nothing, however many there are; " +
				"a wallet claims what it holds",
		},
		{
			name: "validity-of-hours", ref: "A18", by: payer, do: validForHours,
			aim:     "an undecided payment keeps its reservations for as long as its payer likes",
			defence: "an authorization may end at most an hour and ten minutes ahead",
		},
	}
}

// yesInCalls is code that answers as ERC-1271 asks while gas costs nothing, which is so in eth_call, and no otherwise.
const yesInCalls = "0x631626ba7e60e01b3a150260005260206000f3"

// delegates makes a wallet one with code.
func (r *trial) delegates(p *wallet, code string) {
	r.Helper()
	contract := "0x00000000000000000000000000000000000de1e9"
	r.rpc(nil, "anvil_setCode", contract, code)
	r.rpc(nil, "anvil_setCode", p.address.Hex(), "0xef0100"+contract[2:])
}

func simulatesOnly(r *trial) {
	r.besiege(func(ctx context.Context) {
		var busy sync.WaitGroup
		for range 12 {
			p := r.wallet(1000)
			offered := p.terms(r, esimPath, keyed("k"))
			r.delegates(p, yesInCalls)
			for range 6 {
				busy.Go(func() {
					a := p.offers(ctx, esimPath, keyed(uuid.NewString()), p.pays(r, offered, brief).header(r))
					if a.status == http.StatusOK {
						r.Errorf("a payment that never settles: %.300s", a.body)
					}
				})
			}
		}
		busy.Wait()
		<-ctx.Done()
	})
	for _, p := range r.wallets {
		if p.moved() != 0 {
			r.Errorf("%d units moved", p.moved())
		}
	}
}

// brief lets a payment end soon, so that what it leaves behind does.
func brief(m *payment) { m.Before = uint64(time.Now().Add(45 * time.Second).Unix()) } // clock: as a payer may

// empties takes a wallet's money away in the moment before our transaction is sent, after everything was checked.
func (r *trial) empties(p *wallet) {
	r.proxy.once("eth_sendRawTransaction", p.address.Hex()[2:], func() { p.funds(0) })
}

func codesLate(r *trial) {
	before := r.goods()
	n := sized(2, 10)
	r.leave(n, func(p *wallet) {
		r.proxy.once("eth_sendRawTransaction", p.address.Hex()[2:], func() { r.delegates(p, yesInCalls) })
	})
	r.spends(n, 2)
	r.nothing(before, r.wallets...)
}

// leave claims n payments that become invalid between our last look and our transaction, and does not wait for them.
func (r *trial) leave(n int, change func(*wallet)) {
	r.Helper()
	headers, body := make([]string, n), keyed(uuid.NewString())
	first := len(r.wallets)
	for i := range n {
		p := r.wallet(1000)
		headers[i] = p.pays(r, p.terms(r, esimPath, body), brief).header(r)
		change(p)
	}
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second) // clock: the answer is not waited for
	defer cancel()
	for _, a := range race(n, func(i int) answer { return r.wallets[first+i].offers(ctx, esimPath, body, headers[i]) }) {
		if a.status == http.StatusOK {
			r.Errorf("a payment that cannot settle: %.300s", a.body)
		}
	}
}

// spends watches the relayer for a while, and expects at most so many transactions for each of n authorizations.
func (r *trial) spends(n, each int) {
	r.Helper()
	time.Sleep(time.Duration(sized(4, 60)) * time.Second) // clock: what is measured is how often it sends in this time
	if sent := r.read().Transactions - r.before.Transactions; sent > int64(n*each) {
		r.Errorf("the relayer sent %d transactions for %d authorizations that cannot settle", sent, n)
	}
}

func burnsGas(r *trial) {
	before := r.goods()
	n := sized(3, 10)
	r.leave(n, r.empties)
	r.spends(n, 2)
	r.nothing(before, r.wallets...)
	r.besiege(func(ctx context.Context) { <-ctx.Done() })
}

func leavesUndecided(r *trial) {
	p := r.wallet(1000)
	offered := p.terms(r, esimPath, keyed("k"))
	undecided := 0
	for i := range 8 {
		p.funds(1_000_000_000)
		header := p.pays(r, offered, brief).header(r)
		r.proxy.once("eth_sendRawTransaction", p.address.Hex()[2:], func() { p.funds(0) })
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second) // clock: the answer is not waited for
		a := p.offers(ctx, esimPath, keyed(fmt.Sprint("k", i)), header)
		cancel()
		if a.status == http.StatusOK {
			r.Fatalf("%.300s", a.body)
		}
	}
	p.funds(0)
	for _, n := range query[int64](r.world,
		"SELECT count(*) FROM payments WHERE status = 'claimed' AND lower(owner) = lower($1)", p.address.Hex()) {
		undecided = int(n)
	}
	if undecided > 4 {
		r.Errorf("one payer has %d undecided payments", undecided)
	}
	r.besiege(func(ctx context.Context) { <-ctx.Done() })
}

func hoards(r *trial) {
	r.unheld()
	r.sandbox("POST", "/control/float", map[string]any{"cents": 40 * 2500}, nil)
	defer func() {
		r.sandbox("POST", "/control/float", map[string]any{"cents": plenty}, nil)
		r.paysFor(cardPath, http.StatusPaymentRequired)
	}()
	reserved := 0
	for range sized(12, 40) {
		p := r.wallet(100)
		body := keyed(uuid.NewString())
		a := p.send(r.Context(), http.MethodPost, cardPath, body)
		if a.status != http.StatusPaymentRequired {
			break // nothing is offered any more
		}
		header := p.pays(r, p.terms(r, cardPath, body), brief).header(r)
		r.empties(p)
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second) // clock: the answer is not waited for
		a = p.offers(ctx, cardPath, body, header)
		cancel()
		if a.err != nil || a.code() == "settlement_unknown" {
			reserved++
		}
	}
	held := query[int64](r.world, `SELECT coalesce(sum(units), 0)::bigint FROM reservations
		WHERE resource LIKE 'float/card/%' AND released_at IS NULL AND settled_at IS NULL`)[0]
	r.Logf("%d claims never settle, and hold %d cents", reserved, held)
	if held > 8*2500 {
		r.Errorf("claims that never settle hold %d cents of 40 cards", held)
	}
	// What is sold of another float goes on, and soon this one's does, long before all authorizations have ended.
	r.wallet(100).buys(r, esimPath)
	honest, body := r.wallet(100), keyed(uuid.NewString())
	r.await("an honest buyer gets a card", func() error {
		a := heeding(r.Context(), func() answer { return honest.send(r.Context(), http.MethodPost, cardPath, body) })
		if a.status != http.StatusPaymentRequired {
			return fmt.Errorf("the terms: %d %.300s", a.status, a.body)
		}
		header := honest.pays(r, a.terms(r)).header(r)
		a = heeding(r.Context(), func() answer { return honest.offers(r.Context(), cardPath, body, header) })
		if a.status != http.StatusOK {
			return fmt.Errorf("%d %.300s", a.status, a.body)
		}
		return nil
	})
	if n := query[int64](r.world, "SELECT count(*) FROM payments WHERE status = 'claimed'")[0]; n == 0 {
		r.Error("no claim of the attack is undecided any more: this shows nothing")
	}
	if whole {
		r.unheld()
		r.besiege(func(ctx context.Context) { <-ctx.Done() })
	}
}

func validForHours(r *trial) {
	before := r.goods()
	for _, ahead := range []time.Duration{75 * time.Minute, 2 * time.Hour, 24 * time.Hour} {
		p, offered := r.offer()
		r.refused(p, ahead.String(), p.pays(r, offered, func(m *payment) { m.Before = uint64(time.Now().Add(ahead).Unix()) }))
	}
	r.nothing(before, r.wallets...)
	// What official clients of x402 sign is taken.
	p, offered := r.offer()
	p.offers(r.Context(), esimPath, keyed("an hour"), p.pays(r, offered, func(m *payment) {
		m.Before = uint64(time.Now().Add(time.Hour).Unix())
	}).header(r)).into(r, nil)
	r.exactly(p, 1)
}
