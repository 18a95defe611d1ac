package crash_test

import (
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/history"
	"github.com/roamcard/roamcard/internal/x402"
)

// wallet is somebody with money.
type wallet struct {
	key     *ecdsa.PrivateKey
	address string
}

// walletsOfOne is how many wallets a client may use up in a round.
const walletsOfOne = 12

// fund gives money to the wallets of a round, so long ago that no block which is replaced has it.
func (m *market) fund() {
	m.t.Helper()
	m.chain.Lock()
	defer m.chain.Unlock()
	m.wallets = nil
	for range *clients * walletsOfOne {
		key := m.w.wallet(m.t)
		m.wallets = append(m.wallets, wallet{key, x402.Address(crypto.PubkeyToAddress(key.PublicKey)).String()})
	}
	m.blocks(deepest + 2)
}

func (m *market) takeWallet() (w wallet, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.wallets) == 0 {
		return w, false
	}
	w, m.wallets = m.wallets[0], m.wallets[1:]
	return w, true
}

// customer is one official client, which buys for one wallet after the other.
type customer struct {
	market   *market
	rng      *rand.Rand
	official *apptest.Buyers
}

func (m *market) client(nth int) *customer {
	by := []apptest.Language{apptest.TypeScript, apptest.Python}[nth%2]
	return &customer{market: m, rng: m.dice("client", nth), official: apptest.Official(m.t, by)}
}

// live buys until the storm is over, and finishes what it has begun.
func (c *customer) live(storm context.Context) {
	for storm.Err() == nil {
		w, ok := c.market.takeWallet()
		if !ok {
			return
		}
		first := c.wants(w, "/api/card/purchase")
		if c.rng.IntN(5) < 2 {
			first = c.wants(w, "/api/esim/purchase")
		}
		if c.rng.IntN(8) == 0 {
			first.key += []string{"~002", "~003", "~005"}[c.rng.IntN(3)] // which the provider reads
		}
		c.buys(storm, first)
		for range c.rng.IntN(3) {
			if storm.Err() != nil || first.told().state != "fulfilled" {
				break
			}
			more := c.wants(w, "/api/card/topup")
			if more.onto = first; first.path == "/api/card/purchase" {
				more.cents = 2500 + c.rng.IntN(2500)
			}
			c.buys(storm, more)
		}
	}
}

// purchase is one thing that a wallet wants, by its key.
type purchase struct {
	of        *customer
	wallet    wallet
	path, key string
	// cents is the amount of a top-up; zero asks for none.
	cents int
	// onto is the card or the eSIM that more is bought for.
	onto *purchase

	mu sync.Mutex
	// last is what came last, and open says that the buyer is not done with it.
	last outcome
	open bool
}

// outcome is an answer, and what it tells of the order: nothing, where it is a problem.
type outcome struct {
	apptest.Told
	order, state string
}

// told is what was last told of the order.
func (p *purchase) told() outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// asks says whether the buyer is waiting.
func (p *purchase) asks(open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = open
}

func (c *customer) wants(w wallet, path string) *purchase {
	return &purchase{of: c, wallet: w, path: path, key: fmt.Sprintf("%s-%d", w.address[2:14], c.rng.Uint64())}
}

func (c *customer) buys(storm context.Context, p *purchase) {
	m := c.market
	m.front.knows(p.key, p.wallet.address)
	m.mu.Lock()
	m.purchases = append(m.purchases, p)
	m.mu.Unlock()
	p.buy(storm, c.rng)
}

// answer is what a client reads of an answer: an order, or a problem.
type answer struct {
	OrderID   string
	Status    any
	Code      string
	Retryable bool
}

// buy asks until the end of the purchase is known. As long as the storm lasts, some do it several times at once, or
// wait for no answer.
func (p *purchase) buy(storm context.Context, rng *rand.Rand) {
	m := p.of.market
	p.asks(true)
	defer p.asks(false)
	for {
		copies := 1
		if storm.Err() == nil && rng.IntN(4) == 0 {
			copies += 1 + rng.IntN(2)
		}
		told := make([]apptest.Told, copies)
		var all sync.WaitGroup
		for i := range copies {
			wanted := p.wanted(storm, rng)
			all.Go(func() {
				var err error
				if told[i], err = p.of.official.Buy(m.t.Context(), wanted); err != nil && m.t.Context().Err() == nil {
					m.t.Error(err)
				}
			})
		}
		all.Wait()
		for _, one := range told {
			if p.ends(one) {
				return
			}
		}
		if p.onto != nil && told[0].Status == http.StatusNotFound {
			p.onto.buy(storm, rng) // its order may have another name since the database was put back
		}
		if !pause(m.t.Context(), 100*time.Millisecond+upTo(rng, 1500*time.Millisecond)) {
			return
		}
	}
}

// wanted is what the client is asked for.
func (p *purchase) wanted(storm context.Context, rng *rand.Rand) apptest.Wanted {
	body := map[string]any{"idempotencyKey": p.key}
	if cents := p.cents; cents > 0 {
		// Something else with the same key. What a lost order has bought by it is an operator's to decide about.
		if storm.Err() == nil && rng.IntN(20) == 0 && !p.of.market.goesBack() {
			cents++
		}
		body["amountUsdCents"] = cents
	}
	path := p.path
	if p.onto != nil && p.cents == 0 {
		path = "/api/esim/orders/" + p.onto.told().order + "/topup"
	}
	w := apptest.Wanted{
		BaseURL: "http://" + p.of.market.front.addr, PrivateKey: "0x" + hex.EncodeToString(crypto.FromECDSA(p.wallet.key)),
		Path: path, Body: body, TimeoutMS: time.Minute.Milliseconds(),
	}
	if storm.Err() == nil && rng.IntN(6) == 0 {
		w.TimeoutMS = 200 + rng.Int64N(4000)
	}
	return w
}

// ends reports whether an answer is the last one.
func (p *purchase) ends(told apptest.Told) bool {
	var a answer
	if told.Status == 0 || json.Unmarshal([]byte(told.Body), &a) != nil {
		return false
	}
	state, _ := a.Status.(string)
	p.mu.Lock()
	p.last.Told = told
	if told.Status == http.StatusOK {
		p.last.order, p.last.state = a.OrderID, state
	}
	p.mu.Unlock()
	switch {
	case told.Status == http.StatusOK:
		ended := history.Ranks[state] >= history.Ranks["fulfilled"] && state != "refund_pending"
		if ended {
			p.of.market.count(state)
		}
		return ended
	case told.Status == http.StatusPaymentRequired, told.Status >= http.StatusInternalServerError, a.Retryable:
		return false
	case p.onto != nil && (a.Code == "active_card_missing" || a.Code == "order_not_found"):
		return false // what it is bought for was lost, and is found when it is asked for, or by an operator
	}
	p.of.market.count(a.Code)
	return true
}

// waiting are the purchases whose buyers do not know their end yet.
func (m *market) waiting() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []error
	for _, p := range m.purchases {
		p.mu.Lock()
		if p.open {
			all = append(all, fmt.Errorf("%s %s: %d %s", p.path, p.key, p.last.Status, p.last.Body))
		}
		p.mu.Unlock()
	}
	return errors.Join(all...)
}
