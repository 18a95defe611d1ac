package simulation_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

// stranger is a wallet that wants what is not its own: it reads orders of others, pays with what it has not signed, and
// pays something else than what is asked for. It knows what is public, and the links and keys of others.
type stranger struct {
	member
	// absent is the number of the wallet that it acts with besides its own.
	absent int
}

const (
	// firstStranger is the number of the first stranger's wallet, and absentWallets are after those of all strangers.
	firstStranger = 500
	absentWallets = 600
	// haste is how long a stranger does nothing at most.
	haste = 3 * time.Second
	// mostActs is how much one does at most.
	mostActs = 30
)

// presented is a payment that a buyer has sent, and what it is about.
type presented struct {
	purchase
	header, order, card string
}

// presented notes what a buyer has sent, and what it was told of it.
func (w *world) presented(p purchase, header string, a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, presented{p, header, a.body.OrderID, a.body.Issuance.CardID})
}

// somebodys is a payment of another wallet; false while there is none.
func (s *stranger) somebodys(fits func(presented) bool) (presented, bool) {
	s.world.mu.Lock()
	all := slices.Clone(s.world.sent)
	s.world.mu.Unlock()
	all = slices.DeleteFunc(all, func(p presented) bool { return p.of.address == s.address || !fits(p) })
	if len(all) == 0 {
		return presented{}, false
	}
	return all[s.rng.IntN(len(all))], true
}

func isOrdered(p presented) bool { return p.order != "" }

// estrange is what a stranger does until it is over: one thing after the other, and what takes long meanwhile.
func (w *world) estrange(nth int, over <-chan struct{}) {
	b := w.newBuyer(firstStranger + nth)
	var acts sync.WaitGroup
	defer acts.Wait()
	for n := 0; n < mostActs && pause(time.Duration(b.rng.Int64N(int64(haste))), over); n++ {
		as := &member{buyer: b.own(b.rng.Uint64N(1 << 40))}
		as.bought = ownKeys * (n + 1)
		s := &stranger{member: *as, absent: absentWallets + 1000*nth + n}
		do := []func(){
			s.read, s.touch, s.forge, s.replay, s.replay, s.replayElsewhere, s.requote, s.misprice, s.mistime, s.payForAnother,
			s.payForAnother, s.topUpAnothers, s.findMoney, s.comeBlocked, s.watch, s.takeBack,
		}[b.rng.IntN(16)]
		acts.Go(do)
	}
}

const (
	ruleOwner   = "nobody is shown or changes what is another wallet's"
	rulePayment = "nobody gets an order for what is not a payment of the price by its owner"
	ruleSecrets = "secrets are shown to who signs, and not to who reads the chain"
	ruleCharged = "whose money has arrived is not asked for another payment"
	ruleBlocked = "who is blocked by the token's issuer is not asked for another payment"
)

// read reads the order of another wallet, by its id and its own session.
func (s *stranger) read() {
	p, ok := s.somebodys(isOrdered)
	if !ok || !s.signIn() {
		return
	}
	paths := []string{
		"/api/orders/" + p.order, "/api/esim/orders/" + p.order, "/api/esim/orders/" + p.order + "/credentials",
		"/api/esim/orders/" + p.order + "/profile", "/api/esim/orders/" + p.order + "/topups",
	}
	if p.card != "" {
		paths = append(paths, "/api/cards/"+p.card+"/balance", "/api/cards/"+p.card+"/details",
			"/api/cards/"+p.card+"/transactions", "/api/cards/"+p.card+"/limits")
	}
	s.mayNot(http.MethodGet, paths[s.rng.IntN(len(paths))], nil)
	if t, err := s.ask(http.MethodGet, "/api/orders", nil, nil); err == nil && bytes.Contains(t.text, []byte(p.order)) {
		s.world.rules.broke(ruleOwner, "%s is listed order %s of %s", s.address, p.order, p.of.address)
	}
}

// touch tries to change what another wallet has.
func (s *stranger) touch() {
	p, ok := s.somebodys(isOrdered)
	if !ok || !s.signIn() {
		return
	}
	paths := []string{"/api/esim/orders/" + p.order + "/cancel", "/api/esim/orders/" + p.order + "/rotate-token"}
	if p.card != "" {
		paths = append(paths, "/api/cards/"+p.card+"/freeze", "/api/cards/"+p.card+"/unfreeze")
	}
	s.mayNot(http.MethodPost, paths[s.rng.IntN(len(paths))], nil)
}

// mayNot asks for something of another wallet.
func (s *stranger) mayNot(method, path string, body any) {
	if t, err := s.ask(method, path, nil, body); err == nil && t.status == http.StatusOK {
		s.world.rules.broke(ruleOwner, "%s: %s %s is answered", s.address, method, path)
	}
}

// present sends a payment that nobody may get an order for.
func (m *member) present(p purchase, payment, why string) {
	m.world.rules.neverClaimed(payment, why)
	m.refused(p, payment, why)
}

// replacedBlocks is how often blocks were replaced.
func (w *world) replacedBlocks() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.replaced
}

// refusedSpent sends a payment that the chain shows, and expects no order, unless blocks were replaced since they were
// counted: then it may be unspent again.
func (m *member) refusedSpent(p purchase, payment string, replaced int) {
	t, err := m.buys(&p, payment)
	if err == nil && t.status == http.StatusOK && m.world.replacedBlocks() == replaced {
		m.world.rules.broke(rulePayment, "%s is told of order %s for what was read on the chain", m.address, t.order)
	}
}

// refused sends a payment, and expects no order.
func (m *member) refused(p purchase, payment, why string) (told, bool) {
	t, err := m.buys(&p, payment)
	if err == nil && t.status == http.StatusOK {
		m.world.rules.broke(rulePayment, "%s is told of order %s: %s", m.address, t.order, why)
	}
	return t, err == nil
}

// asks is a purchase of the stranger's own, and its terms.
func (m *member) asks(path string, more map[string]any) (p *purchase, terms x402.PaymentRequired, ok bool) {
	p = m.purchase(path, more)
	t, err := m.buys(p, "")
	if err != nil {
		return p, terms, false
	}
	terms, ok = t.terms()
	return p, terms, ok
}

// shelf is one of the things that anybody can ask for.
func shelf(rng *rand.Rand) string {
	return []string{"/api/esim/purchase", "/api/card/purchase"}[rng.IntN(2)]
}

// forge signs in the name of another wallet, under that wallet's key.
func (s *stranger) forge() {
	p, ok := s.somebodys(func(presented) bool { return true })
	if !ok {
		return
	}
	t, err := s.buys(&p.purchase, "")
	terms, asked := t.terms()
	if err != nil || !asked {
		return
	}
	payment := s.sign(terms, func(f *x402.Payment) { f.Authorization.From = p.of.address })
	s.present(p.purchase, payment, "a payment of "+p.of.address.String()+" that somebody else has signed")
}

// replay sends what can be read on the chain, under the key that it was sent with. It may be answered, without secrets.
func (s *stranger) replay() {
	p, ok := s.somebodys(func(p presented) bool {
		return isOrdered(p) && p.guessable() && strings.Contains(p.path, "/esim/purchase")
	})
	if !ok || !s.onChain(p) {
		return
	}
	t, err := s.buys(&p.purchase, p.header)
	var shown struct {
		Credentials *struct{}
		Delivery    struct{ Token string }
	}
	if err == nil && t.into(&shown) && (shown.Credentials != nil || shown.Delivery.Token != "") {
		s.world.rules.broke(ruleSecrets, "%s has read the payment for order %s on the chain", s.address, t.order)
	}
}

// replayElsewhere sends what can be read on the chain under another key.
func (s *stranger) replayElsewhere() {
	p, ok := s.somebodys(isOrdered)
	replaced := s.world.replacedBlocks()
	if !ok || p.bare || !s.onChain(p) {
		return
	}
	p.key = s.purchase(p.path, nil).key
	s.refusedSpent(p.purchase, p.header, replaced)
}

// onChain reports whether the chain shows a payment.
func (s *stranger) onChain(p presented) bool {
	pay, err := x402.DecodeAnyPayment(p.header)
	return err == nil && s.world.spent(pay.Authorization)
}

// spent reports whether the token says that an authorization is used.
func (w *world) spent(a x402.Authorization) bool {
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":"%s","data":"0x%x"},"latest"]}`,
		domain().Contract, x402.StateCall(a.From, a.Nonce))
	answer := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text))
	w.chain.Node("truth").ServeHTTP(answer, r)
	return strings.Contains(answer.Body.String(), `"result":"0x`+strings.Repeat("0", 63)+`1"`)
}

// requote pays less than is asked for, with a quote that it has altered.
func (s *stranger) requote() {
	p, terms, ok := s.asks(shelf(s.rng), nil)
	if !ok {
		return
	}
	id, _ := terms.Accepts[0].Extra["quoteId"].(string)
	price, err := money.ParseUSDC(terms.Accepts[0].Amount)
	if err != nil {
		return
	}
	const cent = 10_000
	less := price - cent
	payment := s.sign(terms, func(f *x402.Payment) {
		extra := map[string]any{}
		for k, v := range f.Accepted.Extra {
			extra[k] = v
		}
		extra["quoteId"] = alteredQuote(id, int64(less)/cent)
		f.Accepted.Extra, f.Accepted.Amount, f.Authorization.Value = extra, less.String(), less
	})
	s.present(*p, payment, "a payment of a cent less, with an altered quote")
}

// alteredQuote is a quote with another price.
func alteredQuote(id string, cents int64) string {
	const signature = 16
	raw, err := base64.RawURLEncoding.DecodeString(id)
	var quote map[string]json.RawMessage
	if err != nil || len(raw) < signature || json.Unmarshal(raw[signature:], &quote) != nil {
		return id
	}
	quote["p"] = json.RawMessage(fmt.Sprint(cents))
	body, err := json.Marshal(quote)
	if err != nil {
		return id
	}
	return base64.RawURLEncoding.EncodeToString(append(raw[:signature:signature], body...))
}

// misprice signs for more or less than the price, or to somebody else.
func (s *stranger) misprice() {
	p, terms, ok := s.asks(shelf(s.rng), nil)
	if !ok {
		return
	}
	by := money.USDC(1 + s.rng.Int64N(1_000_000))
	change := []func(*x402.Payment){
		func(f *x402.Payment) { f.Authorization.Value += by },
		func(f *x402.Payment) { f.Authorization.Value -= min(by, f.Authorization.Value-1) },
		func(f *x402.Payment) {
			f.Authorization.Value += by
			f.Accepted.Amount = f.Authorization.Value.String()
		},
		func(f *x402.Payment) { f.Authorization.To = s.world.sink },
	}[s.rng.IntN(4)]
	s.present(*p, s.sign(terms, change), "a payment of another amount, or to somebody else")
}

// mistime signs what is not valid yet, not for long enough any more, or for ages.
func (s *stranger) mistime() {
	p, terms, ok := s.asks(shelf(s.rng), nil)
	if !ok {
		return
	}
	now := time.Now()
	const least, day = 20 * time.Second, 24 * time.Hour
	before := func(until time.Time) func(*x402.Payment) {
		return func(f *x402.Payment) { f.Authorization.ValidBefore = uint64(until.Unix()) }
	}
	later := func(f *x402.Payment) { f.Authorization.ValidAfter = uint64(now.Add(mostSkew + time.Minute).Unix()) }
	// A clock that is behind takes what is valid for as much less.
	soon := max(2*time.Second, least-s.world.plan.skew-time.Second)
	change := []func(*x402.Payment){
		later, before(now.Add(-time.Duration(s.rng.Int64N(int64(time.Minute))))),
		before(now.Add(time.Duration(s.rng.Int64N(int64(soon))))), before(now.Add(soon)),
		before(now.Add(day + time.Duration(s.rng.Int64N(int64(300*day))))),
	}[s.rng.IntN(5)]
	s.present(*p, s.sign(terms, change), "a payment that is not valid now, not for long enough, or for ages")
}

// payForAnother pays an order that another wallet has made.
func (s *stranger) payForAnother() {
	l, ok := s.world.rules.linked(s.buyer, s.rng)
	if !ok || s.rng.IntN(2) == 0 {
		if l, ok = s.absentee().makeOrder("link-"+s.address.String(), "/api/esim/orders", map[string]any{}); !ok {
			return
		}
	}
	p := purchase{of: s.buyer, key: l.key, path: "/pay/" + l.id, bare: true}
	t, err := s.buys(&p, "")
	if terms, asked := t.terms(); err == nil && asked {
		s.present(p, s.sign(terms), "a payment for an order that another wallet has made")
	}
}

// topUpAnothers buys data for the eSIM of another wallet.
func (s *stranger) topUpAnothers() {
	of, ok := s.somebodys(func(p presented) bool { return isOrdered(p) && strings.Contains(p.path, "/esim/purchase") })
	if !ok {
		return
	}
	if p, terms, asked := s.asks("/api/esim/orders/"+of.order+"/topup", nil); asked {
		s.present(*p, s.sign(terms), "a payment for data on another wallet's eSIM")
	}
}

// absentee is another wallet, that nobody else acts with.
func (s *stranger) absentee() *member {
	return &member{buyer: s.world.newBuyer(s.absent)}
}

// arrival is how long after it was sent every node shows a payment that is not replaced.
const arrival = 45 * time.Second

// findMoney sends what another wallet has paid past the service, and the service has never seen. Then that wallet comes
// and buys, with the payment that has arrived.
func (s *stranger) findMoney() {
	of := s.absentee()
	p, terms, ok := of.asks(shelf(s.rng), nil)
	if !ok {
		return
	}
	payment := of.sign(terms)
	pay, err := x402.DecodeAnyPayment(payment)
	if err != nil {
		panic(err)
	}
	sent := s.world.settleForeign(s.address, pay)
	wait := 3*time.Second + time.Duration(s.rng.Int64N(int64(arrival)))
	time.Sleep(wait)
	replaced := s.world.replacedBlocks()
	if !s.world.everywhere(sent) {
		return // it could be paid with
	}
	elsewhere := *p
	elsewhere.key = s.purchase(p.path, nil).key
	s.refusedSpent(elsewhere, payment, replaced)
	if wait < arrival {
		time.Sleep(arrival - wait)
	}
	t, err := of.buys(p, payment)
	if s.world.replacedBlocks() != replaced {
		return
	}
	if err == nil && t.again && t.code != "payment_unclaimed" {
		s.world.rules.broke(ruleCharged, "%s is told %s", of.address, t.code)
	}
	p.terms, p.paid, p.alone = terms, payment, true
	p.buy()
	left := s.world.chain.Balance(common.Address(of.address))
	if left < funds-int64(pay.Authorization.Value) && s.world.replacedBlocks() == replaced {
		s.world.rules.broke(ruleCharged, "%s has paid more than %s for %s", of.address, pay.Authorization.Value, p.key)
	}
}

// everywhere reports whether a transaction has succeeded, as every node shows.
func (w *world) everywhere(transaction common.Hash) bool {
	r := w.chain.Receipt(transaction)
	head, _ := w.chain.Head()
	return r != nil && r.Status == types.ReceiptStatusSuccessful && r.BlockNumber.Uint64()+farthest < head
}

// comeBlocked comes with a wallet that the token's issuer blocks.
func (s *stranger) comeBlocked() {
	of := s.absentee()
	p, terms, ok := of.asks(shelf(s.rng), nil)
	if !ok {
		return
	}
	sent := s.world.block(of.address, true)
	time.Sleep(arrival)
	replaced := s.world.replacedBlocks()
	if !s.world.everywhere(sent) {
		return
	}
	payment := of.sign(terms)
	if t, answered := of.refused(*p, payment, "of a wallet that is blocked"); answered && t.again &&
		s.world.replacedBlocks() == replaced {
		s.world.rules.broke(ruleBlocked, "%s is told %d %s", of.address, t.status, t.code)
	}
}

// takeBack takes an authorization back on the chain while it is on its way, and goes on buying.
func (s *stranger) takeBack() {
	if s.world.plan.reorganisations > 0 {
		return // what was paid in a block that is then replaced would be lost, as chain.paid_at says
	}
	of := s.absentee()
	p, terms, ok := of.asks(shelf(s.rng), nil)
	if !ok {
		return
	}
	p.terms, p.paid = terms, of.sign(terms)
	pay, err := x402.DecodeAnyPayment(p.paid)
	if err != nil {
		panic(err)
	}
	after := time.Duration(s.rng.Int64N(int64(3 * time.Second)))
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(after)
		s.world.transact(of.sender(), of.cancelCall(pay.Authorization.Nonce))
	}()
	p.buy()
	<-done
}

// watch watches the order of another wallet, by a token that nobody has signed.
func (s *stranger) watch() {
	p, ok := s.somebodys(isOrdered)
	if !ok {
		return
	}
	const signature = 16
	raw := binary.BigEndian.AppendUint64(make([]byte, signature), uint64(time.Now().Add(30*time.Minute).Unix()))
	raw = append(append(raw, p.of.address[:]...), p.order...)
	message, err := json.Marshal(map[string]any{"orderId": p.order})
	if err != nil {
		panic(err)
	}
	text := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	t, err := s.send(http.MethodPost, "/roamcard.v1.OrderService/WatchOrder", map[string]string{
		"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1",
		"X-Order-Watch-Token": "owt_" + base64.RawURLEncoding.EncodeToString(raw),
	}, text)
	if err == nil && bytes.Contains(t.text, []byte(`"amountUsdCents"`)) {
		s.world.rules.broke(ruleOwner, "%s watches order %s of %s", s.address, p.order, p.of.address)
	}
}
