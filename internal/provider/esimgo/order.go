package esimgo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// Order implements esim.Supplier. Only validate refuses, as that is when nothing has been sent: any failure of the
// transaction itself, a 400 too, leaves the outcome unknown.
func (s *Supplier) Order(ctx context.Context, r esim.Request) (esim.Purchase, error) {
	p, err := s.order(ctx, "order", r, esim.Held{})
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("order an eSIM: %w", err)
	}
	return p, nil
}

// order orders a bundle for an eSIM that we have sold, or for a new one.
func (s *Supplier) order(ctx context.Context, op string, r esim.Request, onto esim.Held) (esim.Purchase, error) {
	// A second transaction under a reference would be a second eSIM.
	switch _, err := s.journal.Sent(ctx, r.Ref); {
	case err == nil:
		return esim.Purchase{}, esim.ErrSent
	case !errors.Is(err, fulfilment.ErrNoRef):
		return esim.Purchase{}, fmt.Errorf("look into the journal: %w", err)
	}
	w := wanted{r.Code, onto.ICCID.Reveal()}
	sent, err := s.prepare(ctx, r, w)
	if _, refused := errors.AsType[*fulfilment.Refusal](err); refused {
		return esim.Purchase{}, err
	}
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("%w: %w", fulfilment.ErrNotSent, err)
	}
	sent.Onto = onto.ID
	if err := s.journal.Begin(ctx, sent); err != nil {
		// The entry may still be there, another's or ours, so this proves nothing.
		return esim.Purchase{}, fmt.Errorf("keep what is sent: %w", err)
	}
	faultpoint.Reach("journal.begun")
	var got orderAnswer
	err = s.call(ctx, request{
		op: op, method: http.MethodPost, path: []string{"orders"}, route: "/orders",
		body: orderOf("transaction", w), sends: true,
	}, &got)
	if err != nil {
		return esim.Purchase{}, err
	}
	p, err := s.purchase(ctx, sent, onto, got)
	if err != nil {
		return esim.Purchase{}, err
	}
	faultpoint.Reach("journal.unnamed")
	// Whoever is not named here is looked for in the list, so nothing is delivered that the journal does not know.
	if err := s.journal.Name(ctx, r.Ref, p.ID); err != nil {
		return esim.Purchase{}, fmt.Errorf("keep its name: %w", err)
	}
	return p, nil
}

// prepare does all that comes before the order: what fails here has sent nothing.
func (s *Supplier) prepare(ctx context.Context, r esim.Request, w wanted) (esim.Sent, error) {
	if !isBundle(r.Code) {
		return esim.Sent{}, &fulfilment.Refusal{Code: esim.RefusedPlan, Message: "that is no name of a bundle"}
	}
	cost, valid, err := s.validate(ctx, w)
	if err != nil {
		return esim.Sent{}, err
	}
	if !valid {
		no, err := s.refusal(ctx, w)
		if err != nil {
			return esim.Sent{}, err
		}
		return esim.Sent{}, no
	}
	if cost > r.MaxCost {
		return esim.Sent{}, &fulfilment.Refusal{Code: esim.RefusedPrice, Message: "the bundle costs " + cost.Dollars()}
	}
	if err := s.pace.wait(ctx); err != nil {
		return esim.Sent{}, err
	}
	return esim.Sent{Ref: r.Ref, Code: r.Code, Cost: cost, At: s.wire.Now().UTC()}, nil
}

// completed is the only status of an order whose eSIM is handed on. Any other is pending.
const completed = "completed"

// purchase is an order of ours as the vendor shows it, with its profile as soon as there is one.
// One that was added to an eSIM has no profile of its own: the eSIM is named instead.
func (s *Supplier) purchase(
	ctx context.Context, sent esim.Sent, onto esim.Held, got orderAnswer,
) (esim.Purchase, error) {
	cost, err := got.cost(sent.Code)
	if err != nil {
		return esim.Purchase{}, err
	}
	if !isReference(got.Reference) || got.Status == "" || cost != sent.Cost {
		return esim.Purchase{}, wire.Unclear("the order in the answer is not the one that was sent")
	}
	p := esim.Purchase{
		ID: got.Reference, Ref: sent.Ref, Code: sent.Code, State: esim.PurchasePending, Cost: cost, Onto: sent.Onto,
	}
	if got.Status != completed {
		return p, nil
	}
	profile, err := one(got.Order[0].ESIMs)
	if err == nil && (profile == nil || sent.Onto == "" && !profile.whole()) {
		profile, err = s.assigned(ctx, got.Reference, profile)
	}
	if err != nil {
		return esim.Purchase{}, err
	}
	if profile == nil {
		return p, nil
	}
	if sent.Onto != "" {
		if profile.number() != onto.ICCID.Reveal() {
			return esim.Purchase{}, wire.Unclear("the order is for another eSIM")
		}
		p.State = esim.PurchaseReady
		return p, nil
	}
	m, err := esim.Activation(string(profile.ICCID), profile.SMDP, profile.MatchingID)
	if err != nil {
		return esim.Purchase{}, wire.Unclear(err.Error())
	}
	p.State, p.ActivationData = esim.PurchaseReady, &m
	return p, nil
}

// isReference refuses a reference of the vendor's that would change a path.
func isReference(s string) bool { return isName(s, "_-") }

const maxName = 128

func isName(s, punctuation string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= maxName && strings.Trim(s, plain+punctuation) == ""
}
