package main

import (
	"context"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// An agent with the real command: it reads, asks for prices, buys, and is refused what the settings do not allow.
func TestAgentBuysWithinItsSettings(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.settings.MaxPerPaymentUSDCents, s.settings.MaxPerDayUSDCents, s.settings.RPCURL = 2600, 5100, s.RPCURL
	a := s.serve("", nil)
	if w := a.call("get_wallet", nil); !w.MayPay || w.Address != s.signer.Address() || w.BalanceUSDC != "1000.000000" ||
		w.LeftTodayUSDCents != 5100 || w.Mode != "autonomous" {
		t.Errorf("%+v", w)
	}
	if q := a.call("quote", map[string]any{"tool": "buy_card"}); !q.Allowed || q.NeedsApproval ||
		q.AmountUSDCents != 2500 {
		t.Errorf("%+v", q)
	}
	if q := a.call("quote", map[string]any{"tool": "top_up_card", "amountUsdCents": 2700}); q.Failed || q.Allowed ||
		q.DeniedBecause == "" {
		t.Errorf("%+v", q)
	}
	bought := a.call("buy_card", map[string]any{"purchaseKey": "the card"})
	if bought.Failed || bought.PurchaseKey != "the card" {
		t.Fatalf("%+v\n%s", bought, a.stderr)
	}
	order := a.settles("the card").Order.OrderID
	again := a.call("buy_card", map[string]any{"purchaseKey": "the card"})
	if again.Status != "paid" || !again.Replayed || again.Order.OrderID != order {
		t.Errorf("again: %+v", again)
	}
	// null is left out, as some clients write it
	plans := a.call("list_esim_plans", map[string]any{"countryCode": nil, "type": nil})
	if len(plans.Plans) == 0 || len(plans.Plans) > 20 || plans.Total < len(plans.Plans) {
		t.Fatalf("%d plans of %d", len(plans.Plans), plans.Total)
	}
	if e := a.call("buy_esim", map[string]any{"purchaseKey": "the eSIM", "planId": plans.Plans[0].PlanID}); e.Failed {
		t.Errorf("%+v", e)
	}
	a.settles("the eSIM")
	// A day's cap, a payment's cap, a key for something else, and arguments that are none.
	for name, c := range map[string]struct {
		tool, code string
		arguments  map[string]any
	}{
		"the day's cap": {
			"top_up_card", "denied_by_local_policy", map[string]any{"purchaseKey": "k1", "amountUsdCents": 2600},
		},
		"the payment's cap": {
			"top_up_card", "denied_by_local_policy", map[string]any{"purchaseKey": "k2", "amountUsdCents": 2700},
		},
		"another plan's key": {
			"buy_esim", "purchase_key_reused", map[string]any{"purchaseKey": "the eSIM", "planId": plans.Plans[1].PlanID},
		},
		"another tool's key": {
			"buy_esim", "purchase_key_reused", map[string]any{"purchaseKey": "the card", "planId": plans.Plans[0].PlanID},
		},
		"no key":           {"buy_card", "arguments_invalid", nil},
		"a key of null":    {"buy_card", "arguments_invalid", map[string]any{"purchaseKey": nil}},
		"an empty key":     {"buy_card", "arguments_invalid", map[string]any{"purchaseKey": ""}},
		"another argument": {"buy_card", "arguments_invalid", map[string]any{"purchaseKey": "k", "maxPerPaymentUsdCents": 9}},
		"an unknown order": {"get_order", "order_not_found", map[string]any{"orderId": "ord_none"}},
		"an unknown key":   {"get_order", "purchase_not_found", map[string]any{"purchaseKey": "never"}},
	} {
		if got := a.call(c.tool, c.arguments); !got.Failed || got.Code != c.code {
			t.Errorf("%s: %+v, want %s", name, got, c.code)
		}
	}
	w := a.call("get_wallet", nil)
	if len(w.Pending) != 0 || w.SpentTodayUSDCents <= 2500 || w.LeftTodayUSDCents != 5100-w.SpentTodayUSDCents {
		t.Errorf("%+v", w)
	}
	s.paid(2, 2500, w.SpentTodayUSDCents-2500)
}

func TestAgentToolsSayWhatTheyDo(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	res, err := s.serve("", nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"buy_card", "buy_esim", "get_card_balance", "get_card_details", "get_card_limits", "get_esim_profile", "get_order",
		"get_wallet",
		"list_card_transactions", "list_cards",
		"list_esim_plans", "list_esim_topups", "quote", "show_card", "show_esim", "top_up_card",
	}
	var got []string
	for _, tool := range res.Tools {
		got = append(got, tool.Name)
		h, buys := tool.Annotations, slices.Contains([]string{"buy_card", "buy_esim", "top_up_card"}, tool.Name)
		shows := tool.Name == "show_card" || tool.Name == "show_esim"
		if h.ReadOnlyHint != (!buys && !shows) || *h.DestructiveHint != buys || h.IdempotentHint == shows ||
			*h.OpenWorldHint == shows {
			t.Errorf("%s: %+v", tool.Name, h)
		}
		input, _ := tool.InputSchema.(map[string]any)
		output, _ := tool.OutputSchema.(map[string]any)
		required, _ := input["required"].([]any)
		if input["additionalProperties"] == nil || output["type"] != "object" ||
			buys != slices.Contains(required, any("purchaseKey")) {
			t.Errorf("%s: %v, %v", tool.Name, input, output)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// Without pins and caps nothing is paid, whatever is approved.
func TestAgentWithoutPinsAndCapsPaysNothing(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(*stage){
		"no payee":         func(s *stage) { s.settings.PayTo = "" },
		"no asset":         func(s *stage) { s.settings.Asset = "" },
		"no payment's cap": func(s *stage) { s.settings.MaxPerPaymentUSDCents = 0 },
		"no day's cap":     func(s *stage) { s.settings.MaxPerDayUSDCents = 0 },
		"another payee":    func(s *stage) { s.settings.PayTo = "0x000000000000000000000000000000000000dEaD" },
		"another tool":     func(s *stage) { s.settings.Operations = []string{"buy_esim"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.settings.Mode = roamcard.HumanApproval
			take(s)
			yes := 0
			a := s.serve("", &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (
				*mcp.ElicitResult, error) {
				yes++
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}, nil
			}})
			got := a.call("buy_card", map[string]any{"purchaseKey": "k"})
			if !got.Failed || got.Code != "denied_by_local_policy" && got.Code != "terms_mismatch" || !got.SafeToPayAgain ||
				yes > 0 {
				t.Errorf("%+v, asked %d times", got, yes)
			}
			s.paid(0)
		})
	}
}
