package roamcard

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"google.golang.org/protobuf/proto"

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

// BoughtESIM is a paid eSIM.
type BoughtESIM struct {
	// Order is the order without its secrets.
	Order *roamcardv1.Order
	// Token opens this one order for 30 days, for whoever holds it; see WithDeliveryToken. It is zero when a
	// repeat came without; the wallet's session does as well.
	Token Secret
	// ESIM is nil when it was not ready in time: see InstallESIM.
	ESIM *ESIM
}

// ESIMPresenter shows an eSIM to the person in front of the machine, and to nobody else.
type ESIMPresenter interface {
	// PresentESIM returns once it was seen, or was not and cannot be any more.
	PresentESIM(ctx context.Context, e ESIM) (Presented, error)
}

// Plans lists the eSIM plans that are sold, the cheapest first: those that cover a country of two letters, and
// of the kind country or region, when these are not empty.
func (c *Client) Plans(ctx context.Context, country, kind string) ([]*roamcardv1.EsimPlan, error) {
	req := &roamcardv1.ListEsimPlansRequest{}
	if country != "" {
		req.CountryCode = &country
	}
	if kind != "" {
		req.Type = &kind
	}
	res, err := c.Esim.ListEsimPlans(ctx, req)
	return res.GetPlans(), err
}

// BuyESIM buys a plan at its published price or, when planID is empty, the cheapest that can be had, at any
// price within the caps. The key is as in BuyCard.
func (c *Client) BuyESIM(ctx context.Context, planID, key string) (*BoughtESIM, error) {
	if c.config.Signer == nil {
		return nil, ErrNoSigner
	}
	req := &roamcardv1.PurchaseEsimRequest{IdempotencyKey: orNew(key)}
	if planID != "" {
		req.PlanId = &planID
		ctx = expectingOf(ctx, func(ctx context.Context) (Cents, error) { return c.planPrice(ctx, planID) })
	}
	res, err := c.Esim.PurchaseEsim(ctx, req)
	if err != nil {
		return nil, err
	}
	bought := &BoughtESIM{Order: proto.CloneOf(res.GetOrder()), Token: NewSecret(res.GetOrder().GetDelivery().GetToken())}
	bought.Order.Credentials = nil
	if d := bought.Order.GetDelivery(); d != nil {
		d.Token = nil
	}
	if esim := res.GetOrder().GetCredentials(); esim != nil {
		secret := esimOf(esim)
		bought.ESIM = &secret
	}
	return bought, nil
}

// planPrice is what a plan costs now.
func (c *Client) planPrice(ctx context.Context, planID string) (Cents, error) {
	plans, err := c.Plans(ctx, "", "")
	if err != nil {
		return 0, fmt.Errorf("read the catalogue: %w", err)
	}
	for _, p := range plans {
		if p.GetPlanId() == planID {
			return Cents(p.GetPriceUsdCents()), nil
		}
	}
	return 0, fmt.Errorf("%w: no plan %s is published", ErrTermsMismatch, planID)
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
