package simulation_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/testing/history"
	"github.com/roamcard/roamcard/internal/x402"
)

// buyer is a wallet that buys, by the published rules of a client: it repeats the same bytes until it knows, and signs
// anew only when it is told that this is safe.
type buyer struct {
	world   *world
	nth     int
	rng     *rand.Rand
	key     *ecdsa.PrivateKey
	address x402.Address
	// account is its smart account, which pays; nil when its key's account does.
	account *account
	// bought counts its purchases, and purchases are they.
	bought    int
	purchases []*purchase
	// cheated says that it has spent what it had signed in another way.
	cheated bool
	// named says that it is not to be served.
	named bool
	// owner is what it does with what it has bought first; nil in most worlds.
	owner *owner
}

// funds is what a buyer has, in millionths of a dollar.
const funds = 1_000_000_000

func (w *world) newBuyer(nth int) *buyer {
	rng := diceOf(w.plan.seed, uint64(1000+nth))
	var secret [32]byte
	for i := range 4 {
		binary.LittleEndian.PutUint64(secret[8*i:], rng.Uint64())
	}
	key := crypto.ToECDSAUnsafe(secret[:])
	b := &buyer{world: w, nth: nth, rng: rng, key: key, address: curve.AddressOf(key)}
	b.smartAccount()
	w.chain.Fund(common.Address(b.address), funds, nil)
	return b
}

// live is what a buyer does. What does not end while things go wrong, it goes on with when they are well again.
func (b *buyer) live() {
	settled := sync.OnceFunc(b.world.trading.Done)
	defer settled()
	time.Sleep(b.world.plan.opens + time.Duration(b.rng.Int64N(int64(b.world.plan.over))))
	b.made()
	first := b.purchase("/api/esim/purchase", nil)
	if b.rng.IntN(5) > 0 {
		first.path = "/api/card/purchase"
		if b.rng.IntN(4) == 0 && !b.world.plan.pauses {
			first.key += []string{"~002", "~003", "~005"}[b.rng.IntN(3)]
		}
	}
	first.key = b.play(first.key)
	ended := first.buy()
	b.owner.has(first)
	if !ended {
		settled()
		<-b.world.well
		ended = first.buy()
	}
	refused := (!ended || first.state == "") && !first.kept && !first.scarce() && !first.undecided()
	if !first.odd && (refused || ended && first.undelivered()) { // who waited long for float may have waited too short
		b.world.unserved(first)
	}
	if first.state != "fulfilled" || first.path != "/api/card/purchase" || b.world.plan.byHand {
		return // nobody could refund a top-up that comes when the card is being closed
	}
	for range b.rng.IntN(3) {
		b.sleep()
		b.purchase("/api/card/topup", map[string]any{"amountUsdCents": 2500 + b.rng.IntN(2500)}).buy()
	}
}

// undecided reports that a paid order waits for a vendor that may leave it open for minutes. It ends all the same.
func (p *purchase) undecided() bool { return p.state == "provisioning" && p.by() != sandboxes }

// by is who makes what is bought, or may.
func (p *purchase) by() string {
	if strings.Contains(p.path, "esim") {
		return p.of.world.plan.suppliedBy()
	}
	return p.of.world.plan.issuedBy()
}

// undelivered reports that a purchase was paid and did not end with the goods, where nothing explains that: the sandbox
// does what it is asked for, unless the key plays a scenario or it slips, and no operator decides what takes long.
func (p *purchase) undelivered() bool {
	plan := p.of.world.plan
	explained := p.by() != sandboxes || strings.Contains(p.key, "~") || plan.slips > 0 || plan.owners || plan.doubt
	return !explained && p.state != "" && p.state != "fulfilled"
}

// purchase is one thing that a buyer wants, by its key.
type purchase struct {
	of   *buyer
	key  string
	path string
	// more are the members of the request besides the key.
	more map[string]any
	// terms are those of the last challenge, and state is what was last told of the order.
	terms x402.PaymentRequired
	state string
	// order and card are what was told with that.
	order, card string
	// paid is the last payment.
	paid string
	// odd says that more was done for it than a client should, and emptied that its payer's wallet was emptied.
	odd, emptied bool
	// kept says that the plan was gone: with the database that was put back, where money that has arrived for it is its
	// payer's and is sent back, or with a supplier that not every process sells over.
	kept bool
	// bare says that the request has no body: its path names the order. alone says that nothing odd is done for it.
	bare, alone bool
}

func (b *buyer) purchase(path string, more map[string]any) *purchase {
	b.bought++
	p := &purchase{of: b, key: fmt.Sprintf("key-%d-%d", b.nth, b.bought), path: path, more: more, odd: b.named}
	if b.nth%2 == 0 {
		p.key = fmt.Sprintf("key-%06d-%06d", b.nth, b.bought)
	}
	b.purchases = append(b.purchases, p)
	return p
}

// answer is what a buyer was told.
type answer struct {
	status int
	header http.Header
	body   struct {
		OrderID        string
		Status         any
		Code           string
		SafeToPayAgain bool
		Payment        struct{ Transaction, Amount string }
		Issuance       struct{ CardID string }
	}
}

// state is how far the order of a 200 is. A problem has a number there.
func (a answer) state() string { s, _ := a.body.Status.(string); return s }

const (
	// attempts is how often a buyer signs at most, and tries how often it repeats one payment: for a minute and a half. A
	// dead worker's lease takes 20 s of it, a slow sandbox 30 s, and the job may look 10 s later.
	attempts = 3
	tries    = 60
)

// buy buys until it knows that it has or will not, and waits for the goods. It reports whether that is known.
func (p *purchase) buy() (ended bool) {
	w := p.of.world
	w.begins(p, true)
	defer func() {
		if p.state != "operator_review" { // which keeps what its card takes until it is decided
			w.begins(p, false)
		}
		if !ended && w.isWell() && p.starved() {
			w.unserved(p)
		}
	}()
	if p.paid == "" && !p.invited() {
		return false
	}
	for range attempts {
		if p.paid == "" {
			p.paid = p.signed()
		}
		switch p.pay(p.paid) {
		case over:
			return true
		case open:
			return false
		case void:
			p.paid = ""
		}
	}
	return true
}

// repeatAll asks once more for each order that has ended: it is the answer, whatever has become of the goods since.
// Where wallets sign in, the answer has what only they may see.
func (b *buyer) repeatAll() {
	as := &member{buyer: b}
	if b.world.plan.owners && len(b.purchases) > 0 {
		as.signIn()
	}
	for _, p := range b.purchases {
		if p.paid == "" || history.Ranks[p.state] < history.Ranks["fulfilled"] {
			continue
		}
		if b.account != nil && p.emptied {
			continue // no chain has what only proved who asks, and nobody can tell any more that an owner signed it
		}
		var t told
		for range 5 {
			var err error
			if t, err = as.buys(p, p.paid); err == nil && t.status == http.StatusOK {
				break
			}
			time.Sleep(3 * time.Second)
		}
		if t.status != http.StatusOK || t.order != p.order {
			b.world.note("%s of %s was %s as %s, and is answered %d %s", p.key, b.address, p.state, p.order, t.status,
				t.code)
		}
	}
}

// empties notes that the payer's wallet is emptied.
func (p *purchase) empties() {
	p.of.world.mu.Lock()
	defer p.of.world.mu.Unlock()
	p.emptied, p.of.cheated = true, true
}

// starved reports that a card was refused although the issuer has the float for it and for all that are being bought:
// somebody who does not pay has it.
func (p *purchase) starved() bool {
	w := p.of.world
	if p.odd || p.path != "/api/card/purchase" || w.plan.issuer != sandboxes || w.plan.float == 0 || p.paid != "" {
		return false
	}
	var books struct{ FloatCents money.Cents }
	w.control(http.MethodGet, "/control/books", nil, &books)
	wanted := money.Cents(2500)
	w.mu.Lock()
	defer w.mu.Unlock()
	for other := range w.under {
		if !other.emptied {
			wanted += 5000 // a top-up takes as much at most
		}
	}
	return books.FloatCents >= wanted
}

// invited asks for the terms.
func (p *purchase) invited() bool {
	for range tries {
		a, err := p.ask("")
		if err == nil && a.status == http.StatusPaymentRequired {
			return true
		}
		p.of.sleep()
	}
	return false
}

// known is what is known of a payment: nothing yet, that another one may be signed, or how it ended.
type known int

const (
	open known = iota
	void
	over
)

// pay repeats a payment until its end is known.
func (p *purchase) pay(header string) known {
	others := p.crowd(header)
	defer others.Wait()
	for range tries {
		a, err := p.ask(header)
		switch {
		case err != nil:
		case a.status == http.StatusOK:
			p.state, p.order, p.card = a.state(), a.body.OrderID, a.body.Issuance.CardID
			if history.Ranks[p.state] >= history.Ranks["fulfilled"] {
				return over
			}
		case a.status == http.StatusPaymentRequired && a.body.SafeToPayAgain:
			p.turnedAway(header, a)
			return void
		case a.status < http.StatusInternalServerError && a.status != http.StatusTooManyRequests:
			plan := p.of.world.plan
			p.kept = (plan.restores || plan.nextSupplier != "") && a.body.Code == "terms_changed"
			return over
		}
		p.of.sleep()
	}
	return open
}

// crowd is what some buyers do besides: they send the same at once, sign another payment for the same key, or lose
// their money or their authorization to somebody else.
func (p *purchase) crowd(header string) *sync.WaitGroup {
	var all sync.WaitGroup
	b := p.of
	do := func(after time.Duration, f func()) { all.Go(func() { time.Sleep(after); f() }) }
	soon := func() time.Duration {
		most := []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, 4 * time.Second}[b.rng.IntN(3)]
		return time.Duration(b.rng.Int64N(int64(most)))
	}
	if !b.world.plan.hostile || p.alone || p.cheats(header, do) {
		return &all
	}
	// What was paid in a block that is then replaced could not be paid again.
	stays := b.world.plan.reorganisations == 0
	if b.account != nil && stays && diceOf(b.world.plan.seed, uint64(8000+b.nth)).IntN(3) == 0 {
		p.odd = true
		p.empties() // who waits for its payment waits in vain
		do(soon(), b.removesOwner)
		return &all
	}
	habit := b.rng.IntN(10)
	p.odd = p.odd || habit > 2 && habit < 8
	switch habit {
	case 0, 1, 2:
		for range 1 + b.rng.IntN(3) {
			at := b.rng.Int()
			do(soon(), func() { _, _ = p.askAt(at, header) })
		}
	case 3, 4:
		second, at := p.signed(), b.rng.Int()
		do(soon(), func() { _, _ = p.askAt(at, second) })
	case 5:
		pay, err := x402.DecodeAnyPayment(header)
		if err != nil {
			panic(err)
		}
		do(soon(), func() { b.world.settleForeign(b.sender(), pay) })
	case 6:
		if b.world.plan.reorganisations > 0 {
			break // what was paid in a block that is then replaced would be lost, as chain.paid_at says
		}
		p.empties()
		do(soon(), func() { b.world.transact(b.address, transferCall(b.world.sink, funds-20_000_000)) })
		if b.rng.IntN(2) == 0 { // it pays late, when what it had reserved may be somebody else's
			later := time.Duration(b.rng.Int64N(int64(time.Minute)))
			do(later, func() { b.world.enrich(b.address) })
		}
	case 8:
		if p.more != nil {
			other, at := *p, b.rng.Int()
			other.more = map[string]any{"amountUsdCents": 2500 + b.rng.IntN(2500)}
			do(soon(), func() { _, _ = other.askAt(at, header) })
		}
	case 7:
		other, at := b.purchase(p.path, p.more), b.rng.Int()
		do(soon(), func() {
			pay, _ := x402.DecodeAnyPayment(header) // which may name nothing
			if a, err := other.askAt(at, header); err == nil && a.status == http.StatusOK && pay.Identifier != "" {
				b.world.note("%s of %s was sold for a payment that names %s", other.key, b.address, p.key)
			}
		})
	}
	return &all
}

// names reports whether its payments name it, by x402's payment-identifier: where its key is an id, as those of every
// second buyer are.
func (p *purchase) names() bool { return !p.guessable() && !strings.Contains(p.key, "~") }

// guessable reports whether the key is so short that whoever reads the chain may have guessed it.
func (p *purchase) guessable() bool { return len(p.key) < 16 }

// signed is another payment for it.
func (p *purchase) signed() string {
	return p.of.sign(p.terms, func(f *x402.Payment) {
		if p.names() {
			f.Extensions = map[string]any{x402.PaymentIdentifier: map[string]any{"info": map[string]any{"id": p.key}}}
		}
	})
}

func (b *buyer) sleep() {
	time.Sleep(time.Duration(b.rng.Int64N(int64(3*time.Second))) + 100*time.Millisecond)
}

// ask sends the purchase with a payment, or with none, and notes the answer. An error is a connection that ended
// without one.
func (p *purchase) ask(payment string) (answer, error) { return p.askAt(p.of.rng.Int(), payment) }

// askAt asks one of the processes.
func (p *purchase) askAt(at int, payment string) (a answer, err error) {
	w := p.of.world
	encoded, err := p.body()
	if err != nil {
		return a, err
	}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, site+p.path, bytes.NewReader(encoded))
	if err != nil {
		return a, err
	}
	r.RemoteAddr, r.RequestURI = fmt.Sprintf("10.0.%d.%d:40000", p.of.nth/250, p.of.nth%250+1), p.path
	if !p.bare {
		r.Header.Set("Content-Type", "application/json")
	}
	if payment != "" {
		r.Header.Set(x402.HeaderSignature, payment)
	}
	e := history.Event{From: time.Now(), Request: history.Request{
		Payer: p.of.address.String(), Key: p.key, Paid: payment != "", Nonce: nonceOf(payment), Body: fmt.Sprint(p.more),
	}}
	a, err = p.send(at, r)
	if err == nil {
		e.Status, e.Code, e.Again = a.status, a.body.Code, a.body.SafeToPayAgain
	}
	if a.status == http.StatusOK {
		e.Order, e.Transaction, e.Amount, e.State = a.body.OrderID, a.body.Payment.Transaction, a.body.Payment.Amount,
			a.state()
	}
	w.saw(e)
	if payment != "" {
		w.presented(*p, payment, a)
	}
	return a, err
}

// body is what it is asked for with.
func (p *purchase) body() ([]byte, error) {
	if p.bare {
		return nil, nil
	}
	body := map[string]any{"idempotencyKey": p.key}
	for k, v := range p.more {
		body[k] = v
	}
	return json.Marshal(body)
}

// send sends a request to one of the processes and reads the answer.
func (p *purchase) send(at int, r *http.Request) (a answer, err error) {
	response, err := p.of.world.front(r.Context(), at, r)
	if err != nil {
		return a, err
	}
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &a.body)
	}
	if err != nil {
		return a, err
	}
	a.status, a.header = response.StatusCode, response.Header
	if terms, err := x402.DecodeRequired(a.header.Get(x402.HeaderRequired)); err == nil {
		p.terms = terms
	}
	return a, nil
}

// nonceOf is the nonce that a payment names, whatever else it says; empty for none.
func nonceOf(payment string) string {
	var p struct {
		Payload struct {
			Authorization struct{ Nonce string }
		}
	}
	text, err := base64.StdEncoding.DecodeString(payment)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return ""
	}
	return strings.ToLower(p.Payload.Authorization.Nonce)
}

// sign makes a payment with an authorization of its own, with changes to what is right.
func (b *buyer) sign(terms x402.PaymentRequired, changes ...func(*x402.Payment)) string {
	r := terms.Accepts[0]
	to, err := x402.ParseAddress(r.PayTo)
	if err != nil {
		panic(err) // the service wrote it
	}
	value, err := money.ParseUSDC(r.Amount)
	if err != nil {
		panic(err)
	}
	valid := 2 * time.Minute
	if b.world.plan.reorganisations > 0 {
		valid = longest // what expires while its block is replaced would be lost, as chain.paid_at says
	}
	a := x402.Authorization{
		From: b.address, To: to, Value: value, ValidBefore: uint64(time.Now().Add(valid).Unix()),
	}
	for i := range 4 {
		binary.LittleEndian.PutUint64(a.Nonce[8*i:], b.rng.Uint64())
	}
	p := x402.Payment{Accepted: r, Resource: terms.Resource, Authorization: a}
	for _, change := range changes {
		change(&p)
	}
	p.Signature = b.signs(p.Authorization)
	header, err := x402.EncodePayment(p)
	if err != nil {
		panic(err)
	}
	return header
}

// signs is the wallet's signature of an authorization.
func (b *buyer) signs(a x402.Authorization) x402.Signature {
	if b.account != nil {
		b.world.mu.Lock()
		if b.account.signing.Load() == 0 {
			b.account.signedFor = append(b.account.signedFor, strings.ToLower(a.Nonce.String()))
		}
		b.world.mu.Unlock()
		return b.account.signed(domain().Digest(a))
	}
	s, err := curve.Sign(domain(), a, b.key)
	if err != nil {
		panic(err)
	}
	return s
}

// transferCall moves tokens of whoever sends it.
func transferCall(to x402.Address, value int64) []byte {
	w := x402.Hash{}
	binary.BigEndian.PutUint64(w[24:], uint64(value))
	address := to.Word()
	return slices.Concat(crypto.Keccak256([]byte("transfer(address,uint256)"))[:4], address[:], w[:])
}
