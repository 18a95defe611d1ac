package agent

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// Bought is a purchase, as far as it is known.
type Bought struct {
	Status      string `json:"status" jsonschema:"paid, or processing while it goes on by itself"`
	PurchaseKey string `json:"purchaseKey"`
	Replayed    bool   `json:"replayed" jsonschema:"whether an earlier call paid it, and this one paid nothing"`
	Order       *Order `json:"order,omitempty"`
	NextAction  string `json:"nextAction"`
}

type buyCardIn struct {
	PurchaseKey string `json:"purchaseKey" jsonschema:"your name for this purchase, 1 to 200 characters that show; to repeat it, use the same"`
}

type topUpIn struct {
	PurchaseKey    string `json:"purchaseKey" jsonschema:"your name for this purchase, 1 to 200 characters that show; to repeat it, use the same"`
	AmountUSDCents int64  `json:"amountUsdCents" jsonschema:"what is paid, in US dollar cents, from 2500 to 25000"`
}

type buyESIMIn struct {
	PurchaseKey string `json:"purchaseKey" jsonschema:"your name for this purchase, 1 to 200 characters that show; to repeat it, use the same"`
	// PlanID is nil for the cheapest plan.
	PlanID *string `json:"planId,omitempty" jsonschema:"a plan of list_esim_plans; without it, the cheapest that can be had"`
}

func (s *Server) buyCard(ctx context.Context, c call, in buyCardIn) (Bought, error) {
	return s.buy(ctx, c, purchase{Key: in.PurchaseKey, Tool: "buy_card"})
}

func (s *Server) topUpCard(ctx context.Context, c call, in topUpIn) (Bought, error) {
	return s.buy(ctx, c, purchase{Key: in.PurchaseKey, Tool: "top_up_card", Amount: roamcard.Cents(in.AmountUSDCents)})
}

func (s *Server) buyESIM(ctx context.Context, c call, in buyESIMIn) (Bought, error) {
	want := purchase{Key: in.PurchaseKey, Tool: "buy_esim"}
	if in.PlanID != nil {
		want.PlanID = *in.PlanID
	} else if b := s.jobs.find(want.Key); b != nil && b.want.Tool == want.Tool {
		want.PlanID = b.want.PlanID // what the purchase under the key was begun with, here or by an earlier session
	}
	return s.buy(ctx, c, want)
}

// purchaseOf is the purchase of a journal's entry; ok is false for what these tools do not buy.
func purchaseOf(e roamcard.Entry) (want purchase, ok bool) {
	var asked struct {
		PlanID         string         `json:"planId"`
		AmountUSDCents roamcard.Cents `json:"amountUsdCents"`
	}
	if json.Unmarshal(e.Request, &asked) != nil {
		return purchase{}, false
	}
	for tool, operation := range operations {
		if e.Operation == operation {
			return purchase{Key: e.Key, Tool: tool, PlanID: asked.PlanID, Amount: asked.AmountUSDCents}, true
		}
	}
	return purchase{}, false
}

// consent is the approval of a purchase, and what it lacked.
type consent struct {
	want    purchase
	granted *Terms
	lacked  *Terms
}

type consentKey struct{}

// errUnapproved ends a purchase that nobody approved yet.
var errUnapproved = errors.New("nobody approved it yet")

// approve is asked by the client before it signs. What it is about to sign is compared once more with what a person
// approved.
func (s *Server) approve(ctx context.Context, q roamcard.Quote) (bool, error) {
	c, ok := ctx.Value(consentKey{}).(*consent)
	if !ok {
		return false, errUnapproved
	}
	terms := s.termsOf(c.want, q)
	if c.granted != nil && *c.granted == terms {
		c.granted = nil
		return true, nil
	}
	if yes, err := s.Approvals.take(terms); yes || err != nil {
		return yes, err
	}
	c.lacked = &terms
	return false, errUnapproved
}

// pay runs a purchase as far as the client gets, with a person's approval.
func (s *Server) pay(ctx context.Context, want purchase, granted *Terms) (_ Bought, err error) {
	defer s.recovered(want.Tool, &err)
	client, err := s.spender(ctx)
	if err != nil {
		return Bought{}, err
	}
	c := &consent{want: want, granted: granted}
	order, err := s.order(context.WithValue(ctx, consentKey{}, c), client, want)
	if err != nil {
		if c.lacked != nil {
			return Bought{}, unapproved{*c.lacked}
		}
		return Bought{}, err
	}
	s.Approvals.done(want.Key)
	shown := orderOf(order)
	return Bought{
		Status: "paid", PurchaseKey: want.Key, Replayed: order.GetReplayed(), Order: &shown, NextAction: shown.NextAction,
	}, nil
}

func (s *Server) order(ctx context.Context, client *roamcard.Client, want purchase) (*roamcardv1.Order, error) {
	var bought *roamcard.Purchase
	var err error
	switch want.Tool {
	case "buy_card":
		bought, err = client.Cards.Purchase(ctx, want.Key)
	case "top_up_card":
		bought, err = client.Cards.TopUp(ctx, want.Amount, want.Key)
	default:
		var esim *roamcard.BoughtESIM
		if esim, err = client.ESIM.Purchase(ctx, want.PlanID, want.Key); err == nil {
			bought = &esim.Purchase
		}
	}
	if err != nil {
		return nil, err
	}
	return bought.Order, nil
}

// unapproved is a purchase that waits for a person's approval.
type unapproved struct{ Terms }

// Error implements error.
func (unapproved) Error() string { return errUnapproved.Error() }

// buy starts a purchase and answers in time, whatever becomes of it. The time that a person takes to answer does not
// count.
func (s *Server) buy(ctx context.Context, c call, want purchase) (Bought, error) {
	began := time.Now()
	if err := checkKey(want.Key); err != nil {
		return Bought{}, err
	}
	if err := s.reused(ctx, want); err != nil {
		return Bought{}, err
	}
	granted, err := s.granted(c, want)
	if err != nil {
		return Bought{}, err
	}
	bought, err := s.attempt(ctx, want, granted, answerWithin-time.Since(began))
	lacking, ok := errors.AsType[unapproved](err)
	switch {
	case !ok:
		return bought, err
	case c.Params.RequestState != "":
		return Bought{}, s.ask(lacking.Terms, otherTerms)
	}
	left := answerWithin - time.Since(began)
	answered, err := s.elicit(ctx, c, lacking.Terms)
	if err != nil {
		return Bought{}, err
	}
	bought, err = s.attempt(ctx, want, answered, left)
	if lacking, ok := errors.AsType[unapproved](err); ok {
		return Bought{}, s.ask(lacking.Terms, otherTerms)
	}
	return bought, err
}

// reused refuses a key that something was signed for by another tool. The client refuses it within one.
func (s *Server) reused(ctx context.Context, want purchase) error {
	b, err := s.Store.Read(ctx)
	if err != nil {
		return s.problemOf(err, want.Key, true)
	}
	for _, e := range b.Purchases {
		if e.Key == want.Key && e.Origin == s.origin() && e.Operation != operations[want.Tool] && len(e.Authorizations) > 0 {
			return s.problemOf(problem("purchase_key_reused", fixArguments,
				"The purchaseKey belongs to another purchase; use a new key for a new purchase."), want.Key, true)
		}
	}
	return nil
}

const otherTerms = "The terms are not the ones that were approved, or the approval had expired."

// attempt makes a purchase, and answers within a time.
func (s *Server) attempt(ctx context.Context, want purchase, granted *Terms, within time.Duration) (Bought, error) {
	b, seen, err := s.jobs.start(want, granted)
	if err != nil {
		return Bought{}, s.problemOf(err, want.Key, true)
	}
	o, ok := b.outcome(ctx, seen, within)
	if !ok {
		return Bought{Status: "processing", PurchaseKey: want.Key, NextAction: getOrder}, nil
	}
	return o.bought, s.failed(want.Key, o.err)
}

// failed explains why a purchase was not made; what only lacks approval stays as it is, for the caller to ask.
func (s *Server) failed(key string, err error) error {
	if _, asks := errors.AsType[unapproved](err); asks || err == nil {
		return err
	}
	return s.problemOf(err, key, true)
}

const approval = "approval"

// granted is what a person has answered to the question of an earlier round; nil when nobody was asked.
func (s *Server) granted(c call, want purchase) (*Terms, error) {
	if c.Params.RequestState == "" {
		return nil, nil
	}
	terms, ok := s.states.open(c.Params.RequestState)
	if !ok || terms.Key != want.Key {
		return nil, nil // an answer to something else: it is asked for again
	}
	answer, _ := c.Params.InputResponses[approval].(*sdk.ElicitResult)
	if answer == nil || !says(answer) {
		return nil, s.declined(want.Key)
	}
	return &terms, nil
}

func says(r *sdk.ElicitResult) bool {
	yes, _ := r.Content["approve"].(bool)
	return r.Action == "accept" && yes
}

func (s *Server) declined(key string) error {
	return s.problemOf(advise(codeApprovalDeclined, "The user did not approve the payment. Do not repeat it unless the "+
		"user asks for it. If the user saw no question, they can run `%s` in a terminal, and then repeat this call.",
		s.approveCommand(key)), key, true)
}

// form is the question that a client shows: yes or no, and nothing else.
func form(t Terms) *sdk.ElicitParams {
	return &sdk.ElicitParams{Mode: "form", Message: t.Question(), RequestedSchema: &jsonschema.Schema{
		Type: "object", Required: []string{"approve"},
		Properties: map[string]*jsonschema.Schema{
			"approve": {Type: "boolean", Title: "Pay", Description: "Yes pays exactly this, once."},
		},
	}}
}

// elicit asks a person through the client, and gives what was approved. With the newest protocol the question is the
// answer of the call, and what was approved comes back with the next one.
func (s *Server) elicit(ctx context.Context, c call, t Terms) (*Terms, error) {
	if err := s.Approvals.ask(t); err != nil {
		return nil, err
	}
	can := c.ClientCapabilities()
	if can == nil || can.Elicitation == nil || (can.Elicitation.Form == nil && can.Elicitation.URL != nil) {
		return nil, s.ask(t, "This client cannot ask the user.")
	}
	if p := c.Session.InitializeParams(); p != nil && p.ProtocolVersion < "2026-07-28" {
		if _, open := s.asking.LoadOrStore(t.Key, true); open {
			return nil, s.problemOf(problem("still_working", waitAndCall,
				"Another call has asked the user about this purchase."), t.Key, true)
		}
		defer s.asking.Delete(t.Key)
		asked, err := c.Session.Elicit(ctx, form(t))
		switch {
		case err != nil:
			return nil, s.ask(t, "This client could not ask the user.")
		case !says(asked):
			return nil, s.declined(t.Key)
		}
		return &t, ctx.Err()
	}
	state, err := s.states.seal(t)
	if err != nil {
		return nil, err
	}
	return nil, question{&sdk.CallToolResult{InputRequests: sdk.InputRequestMap{approval: form(t)}, RequestState: state}}
}

// ask tells the model to have the user approve at a terminal.
func (s *Server) ask(t Terms, why string) error {
	if err := s.Approvals.ask(t); err != nil {
		return err
	}
	return s.problemOf(advise(codeApprovalNeeded, "%s The payment of %s USDC needs the user's approval. Ask the user to "+
		"run `%s` in a terminal, and then make this call again with the same purchaseKey within %d minutes.",
		why, t.Price(), s.approveCommand(t.Key), int(approvalFor/time.Minute)), t.Key, true)
}
