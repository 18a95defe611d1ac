package simulation_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// operator decides what waits for one, through whichever process answers. Several of them know nothing of each other,
// and decide the same thing in different ways.
type operator struct {
	world *world
	name  string
	rng   *rand.Rand
	// as says as which of the persons.
	as int
}

// persons are who operators sign in as, each with a token.
var persons = []string{"ada", "bob"}

func operatorToken(person int) string {
	return "operators-of-the-simulation-0000000000-" + persons[person]
}

// operators is the setting that knows them.
func operators() string {
	var known []string
	for i, name := range persons {
		sum := sha256.Sum256([]byte(operatorToken(i)))
		known = append(known, name+":"+hex.EncodeToString(sum[:])+":admin")
	}
	return strings.Join(known, ",")
}

// approvedAbove is the amount in cents above which decisions wait for the other person, where two decide: less than
// the price of a card.
const approvedAbove = 1000

// lastOperator are the dice of who ends what still waits.
const lastOperator = 4999

// pace is how long an operator does nothing at most, and fast where worlds are about decisions.
const pace, fast = 5 * time.Second, 2 * time.Second

// operate is what an operator does until it is over.
func (w *world) operate(nth int, over <-chan struct{}) {
	o := &operator{world: w, name: fmt.Sprintf("op%d", nth), rng: diceOf(w.plan.seed, uint64(5000+nth))}
	if w.plan.second {
		o.as = nth % len(persons)
	}
	for pause(time.Duration(o.rng.Int64N(int64(w.plan.pace))), over) {
		if w.plan.second && o.rng.IntN(2) == 0 {
			o.approve()
			continue
		}
		if (w.plan.holds || w.plan.refusing || w.plan.theme == decisions) && o.rng.IntN(2) == 0 {
			if o.closeCard(); w.plan.second {
				o.approve()
			}
			continue
		}
		if w.plan.byHand && o.rng.IntN(2) == 0 {
			[]func(){o.refundByHand, o.refundByHand, o.putBack, o.prove, o.closeCard}[o.rng.IntN(5)]()
			continue
		}
		switch o.rng.IntN(6) {
		case 0, 1, 2:
			o.decideOrders()
		case 3, 4:
			o.decideFees()
		default:
			o.closeCard()
		}
	}
}

// reviewQueue are the orders that wait for an operator.
type reviewQueue struct {
	Orders []struct {
		OrderID, Kind, Reason string
		Version               int
	}
}

// topUps are the orders that an operator decides by the issuer's books: what is on a card is not refunded by hand.
const topUps = "card_topup"

// made is what the sandbox's books show of something that was asked for.
type made struct {
	Reference, Status string
	DueAt             time.Time
}

// asked is what the sandbox's books show of an order's references; not ok while that is not known, or something of it
// is still under way, which is left alone. Of what vendors have made they show nothing.
func (o *operator) asked(order string) (of []made, ok bool) {
	var inspected struct {
		References []struct{ Reference string }
	}
	if o.ask(http.MethodGet, "/api/admin/orders/"+order, nil, "", &inspected) != nil {
		return nil, false
	}
	var issued struct{ Cards, Movements []made }
	o.world.control(http.MethodGet, "/control/books", nil, &issued)
	var supplied struct{ Esims []made }
	o.world.control(http.MethodGet, "/control/esim/books", nil, &supplied)
	for _, m := range slices.Concat(issued.Cards, issued.Movements, supplied.Esims) {
		for _, r := range inspected.References {
			if strings.EqualFold(m.Reference, r.Reference) {
				of = append(of, m)
			}
		}
	}
	return of, !slices.ContainsFunc(of, made.isUnderWay)
}

// knowing is what an operator decides about a top-up that may be on its card.
func (o *operator) knowing(of []made) (action string) {
	if o.world.plan.issuedBy() != sandboxes || slices.ContainsFunc(of, made.isThere) {
		return "retry"
	}
	return "refund"
}

// isThere reports that the sandbox has made it.
func (m made) isThere() bool {
	return slices.Contains([]string{"live", "locked", "done", "released"}, m.Status)
}

// isUnderWay reports that the sandbox will end it.
func (m made) isUnderWay() bool { return !m.DueAt.IsZero() }

// decideOrders decides each order that waits, as its dice fall.
func (o *operator) decideOrders() {
	var queue reviewQueue
	if o.ask(http.MethodGet, "/api/admin/orders?status=operator_review", nil, "", &queue) != nil {
		return
	}
	for _, order := range queue.Orders {
		o.world.bus.note("%s sees %s in review: %s", o.name, order.OrderID, order.Reason)
		of, ok := o.asked(order.OrderID)
		if !ok {
			continue
		}
		action := []string{"refund", "refund", "retry"}[o.rng.IntN(3)]
		if o.world.plan.owners && order.Kind == topUps {
			action = o.knowing(of)
		}
		if slices.ContainsFunc(of, made.isThere) {
			action = "retry" // it is found then
		} else if unproven := !strings.Contains(order.Reason, "no trace"); unproven && order.Kind == "esim" &&
			o.world.plan.suppliedBy() != sandboxes {
			action = "retry" // it may have been made: nobody refunds it who has not asked the vendor
		} else if (o.world.plan.refusing || o.world.plan.byHand) && !o.world.plan.second && order.Kind != topUps {
			o.decideTwice(order.OrderID, order.Version)
			continue
		}
		body := map[string]any{"action": action, "reason": "simulated"}
		if o.rng.IntN(2) == 0 {
			body["version"] = order.Version
		}
		_ = o.do("/api/admin/orders/"+order.OrderID+"/decide", body)
	}
	if o.world.plan.theme == decisions && o.world.plan.second {
		o.approve()
	}
}

// endTopUps refunds, once everything is well, each top-up that waits for an operator: a card is not closed before.
func (w *world) endTopUps() {
	o := &operator{world: w, name: "last", rng: diceOf(w.plan.seed, lastOperator)}
	other := &operator{world: w, name: "very last", rng: diceOf(w.plan.seed, lastOperator-1), as: 1}
	<-w.well
	for pause(time.Duration(o.rng.Int64N(int64(pace))), w.ending) {
		if w.plan.second {
			other.approve()
		}
		var queue reviewQueue
		if o.ask(http.MethodGet, "/api/admin/orders?status=operator_review", nil, "", &queue) != nil {
			continue
		}
		for _, order := range queue.Orders {
			if order.Kind == topUps {
				if of, ok := o.asked(order.OrderID); ok {
					decision := map[string]any{"action": o.knowing(of), "reason": "simulated"}
					_ = o.do("/api/admin/orders/"+order.OrderID+"/decide", decision)
				}
			}
		}
	}
}

// approve approves or rejects each decision that waits for a second operator, also its own.
func (o *operator) approve() {
	var list struct {
		Approvals []struct{ ID, RequestedBy string }
	}
	if o.ask(http.MethodGet, "/api/admin/approvals", nil, "", &list) != nil {
		return
	}
	for _, a := range list.Approvals {
		act := []string{"/approve", "/approve", "/reject"}[o.rng.IntN(3)]
		err := o.do("/api/admin/approvals/"+a.ID+act, map[string]any{"reason": "simulated"})
		if err == nil && act == "/approve" && a.RequestedBy == persons[o.as] {
			o.world.rules.broke(ruleSecond, "%s has approved %s, which they asked for", a.RequestedBy, a.ID)
		}
	}
}

// decideFees decides each fee that was not withdrawn.
func (o *operator) decideFees() {
	var list struct {
		Jobs []struct{ ID, Status string }
	}
	if o.ask(http.MethodGet, "/api/admin/card-issue-fee/jobs", nil, "", &list) != nil {
		return
	}
	for _, job := range list.Jobs {
		if job.Status != "failed" && job.Status != "operator_review" {
			continue
		}
		at := "/api/admin/card-issue-fee/jobs/" + job.ID
		switch o.rng.IntN(3) {
		case 0:
			_ = o.do(at+"/reconcile", map[string]any{})
		case 1:
			_ = o.do(at+"/retry", map[string]any{"reason": "simulated"})
		default:
			_ = o.do(at+"/write-off", map[string]any{"reason": "simulated"})
		}
	}
}

// closeCard closes one of the cards, if there is any.
func (o *operator) closeCard() {
	var list struct {
		Jobs []struct{ CardID string }
	}
	if o.ask(http.MethodGet, "/api/admin/card-issue-fee/jobs", nil, "", &list) != nil || len(list.Jobs) == 0 {
		return
	}
	card := list.Jobs[o.rng.IntN(len(list.Jobs))].CardID
	_ = o.do("/api/admin/cards/"+card+"/close", map[string]any{"reason": "simulated"})
}

// do posts a decision and repeats it, with the same key, until it is answered. An error says that it was not made.
func (o *operator) do(path string, body map[string]any) (err error) {
	key := fmt.Sprintf("%s-%d", o.name, o.rng.Uint64())
	for range tries {
		if err = o.ask(http.MethodPost, path, body, key, nil); err == nil || !errors.Is(err, errBroken) {
			o.world.bus.note("%s %s %v: %v", o.name, path, body["action"], err)
			return err
		}
		time.Sleep(time.Duration(o.rng.Int64N(int64(2 * time.Second))))
	}
	return err
}

// ask asks one of the processes. The error wraps errBroken where the outcome is not known.
func (o *operator) ask(method, path string, body map[string]any, key string, into any) error {
	var text []byte
	if body != nil {
		text, _ = json.Marshal(body)
	}
	r, err := http.NewRequestWithContext(context.Background(), method, site+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.RemoteAddr, r.RequestURI = "10.9.0.1:40000", r.URL.RequestURI()
	r.Header.Set("Authorization", "Bearer "+operatorToken(o.as))
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	response, err := o.world.front(r.Context(), o.rng.Int(), r)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	switch {
	case response.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("%w: %d", errBroken, response.StatusCode)
	case response.StatusCode >= http.StatusBadRequest:
		var problem struct{ Code string }
		_ = json.Unmarshal(answer, &problem)
		return fmt.Errorf("%d %s", response.StatusCode, problem.Code)
	case into == nil:
		return nil
	}
	return json.Unmarshal(answer, into)
}
