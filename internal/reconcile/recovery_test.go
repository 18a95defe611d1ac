package reconcile

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/x402"
)

// losses are what our books know around what they have lost.
type losses struct {
	Unmatched  []Unmatched
	Orders     []order.Order
	Cards      map[string]card.Card
	References map[uuid.UUID]bool
	Plans      map[string]esim.Plan
}

// shelf is what the providers and our books have around a loss.
type shelf struct {
	statement card.Statement
	purchases []esim.Purchase
	lost      losses

	adopted  []Adoption
	returned []Unmatched
}

func (s *shelf) Purchases(context.Context) ([]esim.Purchase, error) { return s.purchases, nil }

func (s *shelf) ByAccounts(context.Context, []string) (all []card.Card, err error) {
	for account, c := range s.lost.Cards {
		c.Account = account
		all = append(all, c)
	}
	return all, nil
}

func (s *shelf) PlansByCode(context.Context, string) (map[string]esim.Plan, error) {
	return s.lost.Plans, nil
}

func (s *shelf) Lost(context.Context, []x402.Address, []uuid.UUID) (Lost, error) {
	return Lost{Unmatched: s.lost.Unmatched, Orders: s.lost.Orders, References: s.lost.References}, nil
}

func (s *shelf) Adopt(_ context.Context, a Adoption, _ order.OperatorContext) (bool, error) {
	s.adopted = append(s.adopted, a)
	return true, nil
}

func (s *shelf) Return(_ context.Context, t Unmatched, _ order.OperatorContext) (bool, error) {
	s.returned = append(s.returned, t)
	return true, nil
}

// Changes shows the statement a line at a time.
func (s *shelf) Changes(_ context.Context, after string) (card.Page, error) {
	var lines []card.Line
	for i := range s.statement.Accounts {
		lines = append(lines, card.Line{ID: fmt.Sprint("card ", i), Card: &s.statement.Accounts[i]})
	}
	for i := range s.statement.Movements {
		lines = append(lines, card.Line{ID: fmt.Sprint("movement ", i), Movement: &s.statement.Movements[i]})
	}
	at, _ := strconv.Atoi(after)
	if at >= len(lines) {
		return card.Page{Next: after}, nil
	}
	return card.Page{Lines: lines[at : at+1], Next: strconv.Itoa(at + 1), More: at+1 < len(lines)}, nil
}

const blockSeconds = 1000 // between two blocks of the shelf's chain, so that their ages differ

func (s *shelf) recovery() Recovery {
	return Recovery{
		Products: []Product{
			card.IssuedRecords{Book: s, Cards: s}, topup.IssuedRecords{Book: card.IssuedRecords{Book: s, Cards: s}},
			esim.IssuedRecords{Books: []esim.NamedBook{{Book: s}}, Plans: s},
		},
		Books: s, Head: agedHead{}, RefundAfter: 24 * time.Hour,
		Now: func() time.Time { return time.Unix(500*blockSeconds, 0) },
	}
}

// agedHead tells when blocks were made.
type agedHead struct{ *past }

func (agedHead) Block(_ context.Context, number uint64) (x402.Hash, time.Time, error) {
	return x402.Hash{}, time.Unix(int64(number)*blockSeconds, 0), nil
}

func arrivedAt(n byte, block uint64, from x402.Address, value money.USDC) Unmatched {
	return Unmatched{Transfer: moved(n, block, from, value)}
}

func account(ref byte, id string, loaded money.Cents, note string) card.StatedAccount {
	return card.StatedAccount{Account: card.Account{ID: id, Ref: fulfilment.Ref{ref}, State: card.AccountActive,
		Loaded: loaded, Buyer: note, Last4: "4242"}}
}

// told is a plan in short: what becomes of each transfer and of the goods left over.
func (s *shelf) told(t *testing.T) (lines []string) {
	t.Helper()
	plan, err := s.recovery().Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range plan.Steps {
		line := string(step.Act)
		if step.money != nil {
			line += fmt.Sprintf(" %d", step.money.Transaction[0])
		}
		if step.Reference != "" {
			line += fmt.Sprintf(" %s %d", step.Kind, uuid.MustParse(step.Reference)[0])
		}
		lines = append(lines, line)
	}
	return lines
}

func TestRecoveryPairsWhatBelongsTogether(t *testing.T) {
	adas, eves := order.BuyerOf(ada), order.BuyerOf(eve)
	plans := map[string]esim.Plan{"jp": {ID: "pln_jp", Price: 500, DataMB: 1000, ValidityDays: 7}}
	opened := order.Order{ID: "ord_open", Kind: card.Kind, Owner: ada, Status: order.Expired, Price: 2500, Delivery: 1}
	under := order.Order{ID: "ord_under", Kind: card.Kind, Owner: ada, Status: order.Provisioning, Price: 2500,
		Delivery: 1}
	known := card.Card{ID: uuid.UUID{9}, Account: "crd_ada", Owner: ada}
	load := func(ref byte, account string, amount money.Cents) card.MovementRecord {
		return card.MovementRecord{
			Ref: fulfilment.Ref{ref}, Account: account, Direction: card.Load, Amount: amount, State: card.MoveSucceeded,
		}
	}
	for name, tt := range map[string]struct {
		shelf shelf
		want  []string
	}{
		"nothing is lost": {shelf{}, nil},
		"a card of the payer's": {shelf{
			statement: card.Statement{Accounts: []card.StatedAccount{account(1, "crd_1", 2500, adas)}},
			lost:      losses{Unmatched: []Unmatched{arrivedAt(7, 490, ada, 25_000_000)}},
		}, []string{"adopt 7 card_issue 1"}},
		"a card of somebody else's": {shelf{
			statement: card.Statement{Accounts: []card.StatedAccount{account(1, "crd_1", 2500, eves)}},
			lost:      losses{Unmatched: []Unmatched{arrivedAt(7, 490, ada, 25_000_000)}},
		}, []string{"leave 7", "review card_issue 1"}},
		"two cards, each its owner's": {shelf{
			statement: card.Statement{Accounts: []card.StatedAccount{account(1, "crd_1", 2500, eves),
				account(2, "crd_2", 2500, adas)}},
			lost: losses{Unmatched: []Unmatched{arrivedAt(7, 490, ada, 25_000_000), arrivedAt(8, 491, eve, 25_000_000)}},
		}, []string{"adopt 7 card_issue 2", "adopt 8 card_issue 1"}},
		"one card, two payments": {shelf{
			statement: card.Statement{Accounts: []card.StatedAccount{account(1, "crd_1", 2500, adas)}},
			lost:      losses{Unmatched: []Unmatched{arrivedAt(7, 490, ada, 25_000_000), arrivedAt(8, 491, ada, 25_000_000)}},
		}, []string{"adopt 7 card_issue 1", "leave 8"}},
		"a card in addition to one that was bought since": {shelf{
			statement: card.Statement{Accounts: []card.StatedAccount{account(1, "crd_1", 2500, adas)}},
			lost: losses{
				Unmatched: []Unmatched{arrivedAt(7, 490, ada, 25_000_000)},
				Cards:     map[string]card.Card{"crd_2": {Account: "crd_2", Owner: ada, Status: card.Active}},
			},
		}, []string{"review 7 card_issue 1"}},
		"an issuer that keeps no notes": {shelf{
			statement: card.Statement{Accounts: []card.StatedAccount{account(1, "crd_1", 2500, "")}},
			lost:      losses{Unmatched: []Unmatched{arrivedAt(7, 490, ada, 25_000_000), arrivedAt(8, 490, ada, 9_000_000)}},
		}, []string{"review 7", "leave 8", "review card_issue 1"}},
		"money without goods, old and new": {shelf{
			lost: losses{Unmatched: []Unmatched{arrivedAt(7, 400, ada, 25_000_000), arrivedAt(8, 499, ada, 25_000_000)}},
		}, []string{"return 7", "leave 8"}},
		"a card that was refused": {shelf{
			statement: card.Statement{Accounts: []card.StatedAccount{{Account: card.Account{Ref: fulfilment.Ref{1},
				State: card.AccountRejected, Loaded: 2500, Buyer: adas}}}},
			lost: losses{Unmatched: []Unmatched{arrivedAt(7, 400, ada, 25_000_000)}},
		}, []string{"return 7"}},
		"a card that our books have": {shelf{
			statement: card.Statement{Accounts: []card.StatedAccount{account(1, "crd_1", 2500, adas)}},
			lost: losses{Unmatched: []Unmatched{arrivedAt(7, 499, ada, 25_000_000)},
				References: map[uuid.UUID]bool{{1}: true}},
		}, []string{"leave 7"}},
		"a card that is on its way": {shelf{
			statement: card.Statement{Accounts: []card.StatedAccount{{Account: card.Account{Ref: card.OpeningRef("ord_under", 1),
				State: card.AccountActive, Loaded: 2500, Buyer: adas}}}},
			lost: losses{Orders: []order.Order{under}},
		}, nil},
		"a load on a card of the payer's": {shelf{
			statement: card.Statement{Movements: []card.MovementRecord{load(3, "crd_ada", 2450)}},
			lost: losses{Unmatched: []Unmatched{arrivedAt(7, 490, ada, 25_000_000)},
				Cards: map[string]card.Card{"crd_ada": known}},
		}, []string{"adopt 7 card_topup 3"}},
		"a load of another amount": {shelf{
			statement: card.Statement{Movements: []card.MovementRecord{load(3, "crd_ada", 2500)}},
			lost: losses{Unmatched: []Unmatched{arrivedAt(7, 490, ada, 25_000_000)},
				Cards: map[string]card.Card{"crd_ada": known}},
		}, []string{"leave 7", "review card_topup 3"}},
		"a load on a card that was lost too": {shelf{
			statement: card.Statement{Accounts: []card.StatedAccount{account(1, "crd_1", 2500, adas)},
				Movements: []card.MovementRecord{load(3, "crd_1", 4900)}},
			lost: losses{Unmatched: []Unmatched{arrivedAt(7, 490, ada, 25_000_000), arrivedAt(8, 491, ada, 50_000_000)}},
		}, []string{"adopt 7 card_issue 1", "review 8", "review card_topup 3"}},
		"an eSIM at today's price before one at an earlier price": {shelf{
			purchases: []esim.Purchase{
				{Ref: fulfilment.Ref{4}, Code: "us", State: esim.PurchaseReady, Cost: 3_000_000, Buyer: adas},
				{Ref: fulfilment.Ref{5}, Code: "jp", State: esim.PurchaseReady, Cost: 4_000_000, Buyer: adas},
			},
			lost: losses{
				Unmatched: []Unmatched{arrivedAt(7, 490, ada, 5_000_000), arrivedAt(8, 491, ada, 4_200_000)},
				Plans:     map[string]esim.Plan{"jp": plans["jp"], "us": {ID: "pln_us", Price: 400}},
			},
		}, []string{"adopt 7 esim 5", "adopt 8 esim 4"}},
		"an order that was created before, and paid in the lost time": {shelf{
			statement: card.Statement{Accounts: []card.StatedAccount{{Account: card.Account{ID: "crd_1",
				Ref: card.OpeningRef("ord_open", 1), State: card.AccountActive, Loaded: 2500}}}},
			lost: losses{Unmatched: []Unmatched{arrivedAt(7, 490, ada, 25_000_000)}, Orders: []order.Order{opened}},
		}, []string{fmt.Sprintf("adopt 7 card_issue %d", card.OpeningRef("ord_open", 1)[0])}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.shelf.told(t)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNothingIsSentToPayersWhoAreNotServed has old money without goods of three payers: one who is served, one who is
// not, and one of whom that cannot be known.
func TestNothingIsSentToPayersWhoAreNotServed(t *testing.T) {
	unknown := x402.Address{19: 0xcc}
	s := &shelf{lost: losses{Unmatched: []Unmatched{
		arrivedAt(7, 400, ada, 7_000_000), arrivedAt(8, 400, eve, 7_000_000), arrivedAt(9, 400, unknown, 7_000_000),
		arrivedAt(10, 400, ada, 245_100), // which no order could cost
	}}}
	r := s.recovery()
	r.Screen = func(_ context.Context, payer x402.Address) error {
		switch payer {
		case eve:
			return fault.New(fault.PayerNotAccepted, "not accepted")
		case unknown:
			return fault.New(fault.DependencyDown, "no answer")
		}
		return nil
	}
	plan, err := r.Plan(t.Context())
	if err == nil {
		plan, err = r.Apply(t.Context(), plan, order.OperatorContext{Operator: "ada", Reason: "why"})
	}
	if err != nil {
		t.Fatal(err)
	}
	var acts []Act
	for _, step := range plan.Steps {
		acts = append(acts, step.Act)
	}
	if diff := cmp.Diff([]Act{ActReturn, ActReview, ActReview, ActReview}, acts); diff != "" || !plan.Open() {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if len(s.returned) != 1 || s.returned[0].From != ada {
		t.Errorf("sent back: %+v", s.returned)
	}
}

// TestRecoveryDoesWhatItShows: applying a plan makes its adoptions and returns, and nothing else.
func TestRecoveryDoesWhatItShows(t *testing.T) {
	s := &shelf{
		statement: card.Statement{Accounts: []card.StatedAccount{account(1, "crd_1", 2500, order.BuyerOf(ada)),
			account(2, "crd_2", 2500, "")}},
		lost: losses{Unmatched: []Unmatched{arrivedAt(7, 490, ada, 25_000_000), arrivedAt(8, 400, eve, 7_000_000),
			arrivedAt(9, 499, eve, 7_000_000)}},
	}
	r := s.recovery()
	plan, err := r.Plan(t.Context())
	if err != nil || !plan.Open() || len(s.adopted)+len(s.returned) != 0 {
		t.Fatalf("planning: %v, %+v", err, s)
	}
	if plan, err = r.Apply(t.Context(), plan, order.OperatorContext{Operator: "ada", Reason: "why"}); err != nil {
		t.Fatal(err)
	}
	if len(s.adopted) != 1 || s.adopted[0].Reference != (uuid.UUID{1}) || len(s.returned) != 1 ||
		s.returned[0].Transaction[0] != 8 {
		t.Errorf("done: %+v", s)
	}
	var done []Act
	for _, step := range plan.Steps {
		if step.Done {
			done = append(done, step.Act)
		}
	}
	if diff := cmp.Diff([]Act{ActAdopt, ActReturn}, done); diff != "" || !plan.Open() {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
