package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

const (
	// mostPlans is how many plans an answer lists.
	mostPlans  = 20
	maxFairUse = 200
)

type plansIn struct {
	CountryCode string `json:"countryCode,omitempty" jsonschema:"two letters, as in JP: plans that work there"`
	Type        string `json:"type,omitempty" jsonschema:"country or region"`
	Offset      int    `json:"offset,omitempty" jsonschema:"how many plans to leave out, to read on"`
}

// Plans are some of the catalogue.
type Plans struct {
	Plans []Plan `json:"plans"`
	Total int    `json:"total"`
}

// Plan is one eSIM plan.
type Plan struct {
	PlanID        string `json:"planId"`
	Name          string `json:"name"`
	Type          string `json:"type"`
	Countries     string `json:"countries" jsonschema:"the first codes, and how many more"`
	DataMB        int64  `json:"dataMb,omitempty" jsonschema:"absent when unlimited"`
	Unlimited     bool   `json:"unlimited,omitempty"`
	FairUse       string `json:"fairUse,omitempty" jsonschema:"what slows an unlimited plan down"`
	ValidityDays  int64  `json:"validityDays"`
	PriceUSDCents int64  `json:"priceUsdCents"`
}

func (s *Server) listPlans(ctx context.Context, _ call, in plansIn) (Plans, error) {
	client, _, err := s.buyer(ctx)
	if err != nil {
		return Plans{}, err
	}
	all, err := roamcard.Collect(client.Plans.List(ctx, strings.ToUpper(in.CountryCode), in.Type))
	if err != nil {
		return Plans{}, err
	}
	return plansOf(all, in.Offset), nil
}

type topUpsIn struct {
	OrderID string `json:"orderId" jsonschema:"the order of the eSIM"`
	Offset  int    `json:"offset,omitempty" jsonschema:"how many plans to leave out, to read on"`
}

func (s *Server) listTopUps(ctx context.Context, _ call, in topUpsIn) (Plans, error) {
	client, _, err := s.payer(ctx)
	if err != nil {
		return Plans{}, err
	}
	all, err := roamcard.Collect(client.ESIM.TopUps(ctx, in.OrderID))
	if err != nil {
		return Plans{}, err
	}
	return plansOf(all, in.Offset), nil
}

// plansOf are some of a list of plans.
func plansOf(all []*roamcardv1.EsimPlan, offset int) Plans {
	listed := Plans{Plans: []Plan{}, Total: len(all)}
	for _, p := range all[min(max(0, offset), len(all)):] {
		if len(listed.Plans) == mostPlans {
			break
		}
		listed.Plans = append(listed.Plans, Plan{
			PlanID: identifier(p.GetPlanId()), Name: printable(p.GetName(), maxName), Type: printable(p.GetType(), maxName),
			Countries: countries(p.GetCountryCodes()), DataMB: int64(p.GetDataMb()),
			ValidityDays: int64(p.GetValidityDays()), PriceUSDCents: int64(p.GetPriceUsdCents()),
			Unlimited: p.GetUnlimited(), FairUse: printable(p.GetFairUse(), maxFairUse),
		})
	}
	return listed
}

func countries(codes []string) string {
	const most = 12
	text := printable(strings.Join(codes[:min(len(codes), most)], " "), maxName)
	if more := len(codes) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

type quoteIn struct {
	Tool           string `json:"tool" jsonschema:"what would be called: buy_card, top_up_card or buy_esim"`
	AmountUSDCents int64  `json:"amountUsdCents,omitempty" jsonschema:"for top_up_card: what would be paid"`
	PlanID         string `json:"planId,omitempty" jsonschema:"for buy_esim: the plan; without it, the cheapest"`
}

// Price is what a purchase would cost.
type Price struct {
	Tool              string `json:"tool"`
	AmountUSDCents    int64  `json:"amountUsdCents"`
	PayTo             string `json:"payTo"`
	Asset             string `json:"asset"`
	Network           string `json:"network"`
	Allowed           bool   `json:"allowed" jsonschema:"whether the user's limits allow it now"`
	DeniedBecause     string `json:"deniedBecause,omitempty"`
	NeedsApproval     bool   `json:"needsApproval" jsonschema:"whether the user will be asked"`
	LeftTodayUSDCents int64  `json:"leftTodayUsdCents"`
}

func (s *Server) quote(ctx context.Context, _ call, in quoteIn) (Price, error) {
	client, err := s.spender(ctx)
	if err != nil {
		return Price{}, err
	}
	var v roamcard.Verdict
	switch in.Tool {
	case "buy_card":
		v, err = client.Quote.Card(ctx)
	case "top_up_card":
		if in.AmountUSDCents == 0 {
			return Price{}, problem("arguments_invalid", fixArguments,
				"top_up_card needs amountUsdCents, a whole number from %d to %d", leastTopUp, mostTopUp)
		}
		v, err = client.Quote.TopUp(ctx, roamcard.Cents(in.AmountUSDCents))
	default: // the schema knows no more
		v, err = client.Quote.ESIM(ctx, in.PlanID)
	}
	if err != nil {
		return Price{}, err
	}
	budget, err := client.Budget(ctx)
	if err != nil {
		return Price{}, err
	}
	q := Price{
		Tool: in.Tool, AmountUSDCents: int64(v.Quote.Amount), PayTo: v.Quote.PayTo, Asset: v.Quote.Asset,
		Network: v.Quote.Network,
		Allowed: v.Denied == nil, NeedsApproval: v.Asks, LeftTodayUSDCents: int64(budget.Left()),
	}
	switch {
	case s.current().refusal() != "":
		q.DeniedBecause = s.current().refusal()
	case v.Denied != nil:
		q.DeniedBecause = printable(v.Denied.Error(), maxDetail)
	case v.Quote.Amount > budget.Left():
		q.Allowed, q.DeniedBecause = false, "it is more than what is left of the user's limit for a day"
	}
	return q, nil
}
