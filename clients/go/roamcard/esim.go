package roamcard

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// Plans lists the eSIM plans that are sold now, cheapest first. country is two letters of ISO 3166-1, or empty
// for all; regional plans that cover it are listed too.
func (c *Client) Plans(ctx context.Context, country string) ([]*roamcardv1.EsimPlan, error) {
	req := &roamcardv1.ListEsimPlansRequest{}
	if country != "" {
		req.CountryCode = &country
	}
	res, err := c.Esim.ListEsimPlans(ctx, req)
	if err != nil {
		return nil, err
	}
	plans := res.GetPlans()
	slices.SortStableFunc(plans, func(a, b *roamcardv1.EsimPlan) int { return cmp.Compare(a.GetPriceUsdCents(), b.GetPriceUsdCents()) })
	return plans, nil
}

// BuyESIM buys a plan at its published price; an empty plan is the cheapest one, at whatever price the caps
// allow. The same key gives the same order. The order's credentials, when they were ready in time, install the
// eSIM on any device: show them to its owner and to nobody else.
func (c *Client) BuyESIM(ctx context.Context, plan, key string) (*roamcardv1.Order, error) {
	if c.config.Signer == nil {
		return nil, ErrNoSigner
	}
	req := &roamcardv1.PurchaseEsimRequest{IdempotencyKey: orNew(key)}
	if plan != "" {
		plans, err := c.Plans(ctx, "")
		if err != nil {
			return nil, fmt.Errorf("read the plans: %w", err)
		}
		i := slices.IndexFunc(plans, func(p *roamcardv1.EsimPlan) bool { return p.GetPlanId() == plan })
		if i >= 0 {
			// A plan that is not listed any more is the service's to refuse, or to answer from its record.
			ctx = expecting(ctx, Cents(plans[i].GetPriceUsdCents()))
		}
		req.PlanId = &plan
	}
	res, err := c.Esim.PurchaseEsim(ctx, req)
	return res.GetOrder(), err
}

// Credentials reads what installs an eSIM: by sign-in, or with the delivery token of WithDeliveryToken.
func (c *Client) Credentials(ctx context.Context, orderID string) (*roamcardv1.EsimCredentials, error) {
	res, err := c.Esim.GetEsimCredentials(ctx, &roamcardv1.GetEsimCredentialsRequest{OrderId: orderID})
	return res.GetCredentials(), err
}
