package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/roamcard/roamcard/internal/x402"
)

const (
	ruleVersion = "an order is decided once at each of its versions"
	ruleProof   = "a refund by hand is concluded where the chain shows it"
	ruleAttempt = "each attempt at a provider has a reference of its own"
	ruleSecond  = "nobody approves what they have asked for"
	ruleResumed = "what an operator has to decide is not put back or dropped as a job"
)

// decideTwice decides an order at one version in two ways at once.
func (o *operator) decideTwice(order string, version int) {
	var inspected struct {
		References []struct{ Reference string }
	}
	if o.ask(http.MethodGet, "/api/admin/orders/"+order, nil, "", &inspected) == nil {
		known := map[string]bool{}
		for _, r := range inspected.References {
			if known[r.Reference] {
				o.world.rules.broke(ruleAttempt, "order %s has reference %s twice", order, r.Reference)
			}
			known[r.Reference] = true
		}
	}
	var both sync.WaitGroup
	made := [2]bool{}
	for i := range made {
		as := &operator{world: o.world, name: fmt.Sprintf("%s.%d", o.name, i), rng: diceOf(o.rng.Uint64(), uint64(i))}
		body := map[string]any{
			"action": []string{"refund", "retry"}[as.rng.IntN(2)], "reason": "simulated", "version": version,
		}
		// When it is as it was again, it has another version.
		most := []time.Duration{time.Second, time.Second, doubtDeadline}[as.rng.IntN(3)]
		after := time.Duration(as.rng.Int64N(int64(most)))
		both.Go(func() {
			time.Sleep(after)
			made[i] = as.do("/api/admin/orders/"+order+"/decide", body) == nil
		})
	}
	both.Wait()
	if made[0] && made[1] {
		o.world.rules.broke(ruleVersion, "order %s was decided twice at version %d", order, version)
	}
}

// putBack puts a job back, or drops one, that only a decision may end.
func (o *operator) putBack() {
	var list struct {
		Jobs []struct{ ID, Kind string }
	}
	if o.ask(http.MethodGet, "/api/admin/jobs", nil, "", &list) != nil {
		return
	}
	for _, job := range list.Jobs {
		if !slices.Contains([]string{"card_issue_fee", "card_close", "esim_cancel"}, job.Kind) {
			continue
		}
		act := []string{"/retry", "/drop"}[o.rng.IntN(2)]
		if o.do("/api/admin/jobs/"+job.ID+act, map[string]any{"reason": "simulated"}) == nil {
			o.world.rules.broke(ruleResumed, "job %s of kind %s: %s", job.ID, job.Kind, act)
		}
	}
}

// prove names a transaction that made no payment.
func (o *operator) prove() {
	o.world.mu.Lock()
	sent := slices.Clone(o.world.sent)
	o.world.mu.Unlock()
	if len(sent) == 0 {
		return
	}
	var list struct {
		Orders []struct{ OrderID string }
	}
	if o.ask(http.MethodGet, "/api/admin/orders?status=settling", nil, "", &list) != nil {
		return
	}
	for _, order := range list.Orders {
		body := map[string]any{"transaction": nonsense(o.rng), "reason": "simulated"}
		if o.do("/api/admin/orders/"+order.OrderID+"/payment", body) == nil {
			o.world.rules.broke(ruleProof, "order %s is paid by a transaction that does not exist", order.OrderID)
		}
	}
}

// nonsense is the hash of no transaction.
func nonsense(rng *rand.Rand) string { return fmt.Sprintf("0x%064x", rng.Uint64()) }

// owed is what waits for an operator to refund it by hand.
type owed struct {
	order, path string
	units       int64
}

// owes are the closings and the cancellations that wait with their refunds.
func (o *operator) owes() (all []owed) {
	var closings struct {
		Closings []struct {
			ID, OrderID, Status, Stage string
			RemainderUsdCents          int64
		}
	}
	if o.ask(http.MethodGet, "/api/admin/card-closings", nil, "", &closings) == nil {
		for _, c := range closings.Closings {
			if c.Status == "operator_review" && c.Stage == "refunding" {
				const unitsPerCent = 10_000
				at := "/api/admin/card-closings/" + c.ID + "/conclude"
				all = append(all, owed{c.OrderID, at, c.RemainderUsdCents * unitsPerCent})
			}
		}
	}
	var cancels struct {
		Cancellations []struct{ OrderID, Status, Stage, RefundAmount string }
	}
	if o.ask(http.MethodGet, "/api/admin/esim-cancellations", nil, "", &cancels) == nil {
		for _, c := range cancels.Cancellations {
			if units, err := strconv.ParseInt(c.RefundAmount, 10, 64); err == nil && c.Status == "operator_review" &&
				c.Stage == "refunding" {
				all = append(all, owed{c.OrderID, "/api/admin/esim/orders/" + c.OrderID + "/conclude-cancel", units})
			}
		}
	}
	return all
}

// refundByHand concludes what waits with its refund: with a transfer to the owner, or with what is none.
func (o *operator) refundByHand() {
	for _, one := range o.owes() {
		var inspected struct{ Owner string }
		if o.ask(http.MethodGet, "/api/admin/orders/"+one.order, nil, "", &inspected) != nil {
			continue
		}
		owner, err := x402.ParseAddress(inspected.Owner)
		if err != nil {
			continue
		}
		transaction, proven := nonsense(o.rng), false
		if pays := o.rng.IntN(3); pays > 0 {
			to, units := owner, one.units
			switch o.rng.IntN(4) {
			case 0:
				to = o.world.sink
			case 1:
				units--
			default:
				proven = true
			}
			transaction = o.pay(to, units)
		}
		concluded := o.do(one.path, map[string]any{"transaction": transaction, "reason": "simulated"}) == nil
		if concluded && !proven {
			o.world.rules.broke(ruleProof, "the refund of order %s was concluded by %s", one.order, transaction)
		}
	}
}

// pay transfers to an owner by hand, and waits until every node shows it.
func (o *operator) pay(to x402.Address, units int64) string {
	from := x402.Address{18: 0xad, 19: 0x01}
	o.world.chain.Fund(common.Address(from), units, nil)
	hash := o.world.transact(from, transferCall(to, units))
	time.Sleep(arrival)
	if r := o.world.chain.Receipt(hash); r == nil || r.Status != types.ReceiptStatusSuccessful {
		return nonsense(o.rng)
	}
	return hash.String()
}

// hold lets merchants hold parts of what is on the cards of the sandbox, and take or release them later. In the end all
// is released.
func (w *world) hold(over <-chan struct{}) {
	rng := diceOf(w.plan.seed, holdDice)
	for pause(time.Duration(rng.Int64N(int64(4*time.Second))), over) {
		for _, c := range w.heldCards() {
			switch {
			case c.Held > 0 && rng.IntN(6) == 0:
				w.change(c.ID, map[string]any{"releaseCents": c.Held})
			case c.Held > 0 && rng.IntN(12) == 0:
				w.change(c.ID, map[string]any{"takeCents": c.Held})
			case c.Held == 0 && c.Status == "live" && c.Balance > 1 && rng.IntN(3) == 0:
				w.change(c.ID, map[string]any{"holdCents": 1 + rng.Int64N(c.Balance-1)})
			}
		}
	}
	for _, c := range w.heldCards() {
		if c.Held > 0 {
			w.change(c.ID, map[string]any{"releaseCents": c.Held})
		}
	}
}

// holdDice are the dice of merchants that hold.
const holdDice = 4997

type heldCard struct {
	ID, Status string
	Balance    int64 `json:"balanceCents"`
	Held       int64 `json:"heldCents"`
}

func (w *world) heldCards() []heldCard {
	var books struct{ Cards []heldCard }
	w.control(http.MethodGet, "/control/books", nil, &books)
	return books.Cards
}

// change changes a card as a merchant does.
func (w *world) change(card string, what map[string]any) {
	w.control(http.MethodPost, "/control/cards/"+card, what, nil)
	w.bus.note("a merchant: %v", what)
}

// play is the scenario that a key ends in, in worlds whose providers refuse more than elsewhere.
func (b *buyer) play(key string) string {
	rng := diceOf(b.world.plan.seed, uint64(playDice+b.nth))
	if b.world.plan.doubt && rng.IntN(2) == 0 && !strings.Contains(key, "~") {
		return key + "~001"
	}
	if p := b.world.plan; (p.rotates || p.dark > 0) && !p.pauses && rng.IntN(3) == 0 && !strings.Contains(key, "~") {
		return key + "~002" // so that its refund is on its way when the treasury changes, or lost
	}
	refuse := b.world.plan.refusing || b.world.plan.byHand || b.world.plan.second
	if !refuse || strings.Contains(key, "~") || rng.IntN(2) == 0 {
		return key
	}
	return key + []string{"~002", "~002", "~003", "~005"}[rng.IntN(4)]
}

// playDice are the dice of keys that play a scenario.
const playDice = 8000
