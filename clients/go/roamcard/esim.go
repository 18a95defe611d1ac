package roamcard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// ESIM is what installs an eSIM. Whoever has it has the eSIM.
type ESIM struct {
	ICCID, SMDPAddress, MatchingID Secret
	// LPA is address and code in one: LPA:1$address$code.
	LPA Secret
	// QRPNG is the LPA as a QR code: a data URI of a PNG picture.
	QRPNG Secret
	// IOS and Android are addresses that install it on a phone.
	IOS, Android Secret
}

// BoughtESIM is a paid eSIM. Its secrets are not in the order.
type BoughtESIM struct {
	Purchase
	// DeliveryToken opens this one order for 30 days, for whoever holds it; see WithDeliveryToken. It is zero when a
	// repeat came without; the wallet's session does as well.
	DeliveryToken Secret
	// Credentials are nil when the eSIM was not ready in time: see InstallESIM.
	Credentials *ESIM
}

// ESIMPresenter shows an eSIM to the person in front of the machine, and to nobody else.
type ESIMPresenter interface {
	// PresentESIM returns once it was seen, or was not and cannot be any more.
	PresentESIM(ctx context.Context, e ESIM) (Presented, error)
}

// Plans lists the eSIM plans that are sold, the cheapest first: those that cover a country of two letters, and
// of the kind country or region, when these are not empty.
func (c *Client) Plans(ctx context.Context, country, kind string) iter.Seq2[*roamcardv1.EsimPlan, error] {
	return pages(func(*string) ([]*roamcardv1.EsimPlan, *string, error) {
		res, err := c.Esim.ListEsimPlans(ctx, &roamcardv1.ListEsimPlansRequest{CountryCode: given(country), Type: given(kind)})
		return res.GetPlans(), nil, err
	})
}

// BuyESIM buys a plan at its published price or, when planID is empty, the cheapest that can be had, at any
// price within the caps. The key is as in BuyCard.
func (c *Client) BuyESIM(ctx context.Context, planID, key string) (*BoughtESIM, error) {
	if planID != "" {
		ctx = expectingOf(ctx, func(ctx context.Context) (Cents, error) { return c.planPrice(ctx, planID) })
	}
	bought, err := c.buy(ctx, key, func(ctx context.Context, key string) (*roamcardv1.Order, error) {
		res, err := c.Esim.PurchaseEsim(ctx, &roamcardv1.PurchaseEsimRequest{IdempotencyKey: key, PlanId: given(planID)})
		return res.GetOrder(), err
	})
	if err != nil {
		return nil, err
	}
	order := bought.Order
	esim := &BoughtESIM{Purchase: *bought, DeliveryToken: NewSecret(order.GetDelivery().GetToken())}
	if e := order.GetCredentials(); e != nil {
		secret := esimOf(e)
		esim.Credentials = &secret
	}
	order.Credentials = nil
	if order.Delivery != nil {
		order.Delivery.Token = nil
	}
	return esim, nil
}

// planPrice is what a plan costs now.
func (c *Client) planPrice(ctx context.Context, planID string) (Cents, error) {
	for p, err := range c.Plans(ctx, "", "") {
		if err != nil {
			return 0, fmt.Errorf("read the catalogue: %w", err)
		}
		if p.GetPlanId() == planID {
			return Cents(p.GetPriceUsdCents()), nil
		}
	}
	return 0, denied(ErrTermsMismatch, "no plan %s is published", planID)
}

// ESIMStatus reads an eSIM order without its secrets, by the delivery token of ctx or the wallet's session.
func (c *Client) ESIMStatus(ctx context.Context, orderID string) (*roamcardv1.Order, error) {
	res, err := c.Esim.GetEsimOrder(ctx, &roamcardv1.GetEsimOrderRequest{OrderId: orderID})
	return res.GetOrder(), err
}

// InstallESIM shows the eSIM of a fulfilled order through a presenter: the caller learns whether it was seen,
// and nothing else. It is read by the delivery token of ctx or the wallet's session.
func (c *Client) InstallESIM(ctx context.Context, orderID string, to ESIMPresenter) (Presented, error) {
	res, err := c.Esim.GetEsimCredentials(ctx, &roamcardv1.GetEsimCredentialsRequest{OrderId: orderID})
	if err != nil {
		return Presented{}, err
	}
	e := res.GetCredentials()
	if e.GetLpa() != "LPA:1$"+e.GetSmdpAddress()+"$"+e.GetMatchingId() || !picture.MatchString(e.GetQrPng()) {
		// What is wrong with it could quote the code.
		return Presented{}, errors.New("what came is not an eSIM")
	}
	return to.PresentESIM(ctx, esimOf(e))
}

var picture = regexp.MustCompile(`^data:image/png;base64,[A-Za-z0-9+/=]+$`)

func esimOf(e *roamcardv1.EsimCredentials) ESIM {
	return ESIM{
		ICCID: NewSecret(e.GetIccid()), SMDPAddress: NewSecret(e.GetSmdpAddress()), MatchingID: NewSecret(e.GetMatchingId()),
		LPA: NewSecret(e.GetLpa()), QRPNG: NewSecret(e.GetQrPng()),
		IOS: NewSecret(e.GetInstallUrls().GetIos()), Android: NewSecret(e.GetInstallUrls().GetAndroid()),
	}
}
