package roamcard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"time"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// ESIM is what installs an eSIM. Whoever has it has the eSIM.
type ESIM struct {
	ICCID       Secret `json:"iccid"`
	SMDPAddress Secret `json:"smdpAddress"`
	MatchingID  Secret `json:"matchingId"`
	// LPA is address and code in one: LPA:1$address$code, and $OID after it if the server has an object identifier.
	LPA Secret `json:"lpa"`
	// QRPNG is the LPA as a QR code: a data URI of a PNG picture.
	QRPNG Secret `json:"qrPng"`
	// IOS and Android are addresses that install it on a phone.
	IOS     Secret `json:"ios"`
	Android Secret `json:"android"`
}

// BoughtESIM is a paid eSIM. Its secrets are not in the order.
type BoughtESIM struct {
	Purchase
	// DeliveryToken opens this one order for 30 days, for whoever holds it; see WithDeliveryToken. It is zero when a
	// repeat came without; the wallet's session does as well.
	DeliveryToken Secret `json:"deliveryToken,omitzero"`
	// Credentials are nil when the eSIM was not ready in time: see ESIMs.Install.
	Credentials *ESIM `json:"credentials,omitempty"`
}

// ESIMPresenter shows an eSIM to the person in front of the machine, and to nobody else.
type ESIMPresenter interface {
	// PresentESIM returns once it was seen, or was not and cannot be any more.
	PresentESIM(ctx context.Context, e ESIM) (Presented, error)
}

// Plans is the catalogue of eSIM plans.
type Plans struct{ client *Client }

// List lists the eSIM plans that are sold, the cheapest first: those that cover a country of two letters, and
// of the kind country or region, when these are not empty.
func (p Plans) List(ctx context.Context, country, kind string) iter.Seq2[*roamcardv1.EsimPlan, error] {
	return pages(func(string) (*Page[*roamcardv1.EsimPlan], error) {
		res, err := p.client.Services.Esim.ListEsimPlans(ctx,
			&roamcardv1.ListEsimPlansRequest{CountryCode: given(country), Type: given(kind)})
		return page(res.GetPlans(), nil), err
	})
}

// ESIMs buys eSIMs, and serves those of the wallet.
type ESIMs struct{ client *Client }

// Purchase buys a plan at its published price or, when planID is empty, the cheapest that can be had, which is
// settled before anything is signed and stays the same for the key. The key is as in Cards.Purchase.
func (e ESIMs) Purchase(ctx context.Context, planID, key string) (*BoughtESIM, error) {
	bought, err := e.client.buy(ctx, key, func(ctx context.Context, key string) (*roamcardv1.Order, error) {
		res, err := e.client.Services.Esim.PurchaseEsim(ctx,
			&roamcardv1.PurchaseEsimRequest{IdempotencyKey: key, PlanId: given(planID)})
		return res.GetOrder(), err
	})
	if err != nil {
		return nil, err
	}
	order := bought.Order
	esim := &BoughtESIM{Purchase: *bought, DeliveryToken: NewSecret(order.GetDelivery().GetToken())}
	if credentials := order.GetCredentials(); credentials != nil {
		secret := esimOf(credentials)
		esim.Credentials = &secret
	}
	order.Credentials = nil
	if order.Delivery != nil {
		order.Delivery.Token = nil
	}
	return esim, nil
}

// plan is a published plan and what it costs now; the cheapest, and of those the first by id, when id is empty.
func (c *Client) plan(ctx context.Context, id string) (planID string, price Cents, err error) {
	for p, err := range c.Plans.List(inner(ctx), "", "") {
		if err != nil {
			return "", 0, fmt.Errorf("read the catalogue: %w", err)
		}
		at := Cents(p.GetPriceUsdCents())
		switch {
		case at <= 0:
			continue // there is nothing to hold its 402 to
		case id != "" && p.GetPlanId() == id:
			return id, at, nil
		case id == "" && (planID == "" || at < price || at == price && p.GetPlanId() < planID):
			planID, price = p.GetPlanId(), at
		}
	}
	switch {
	case planID == "" && id == "":
		return "", 0, denied(ErrTermsMismatch, "no plan is published")
	case planID == "":
		return "", 0, denied(ErrTermsMismatch, "no plan %s is published", id)
	}
	return planID, price, nil
}

// Status reads an eSIM order without its secrets, by the delivery token of ctx or the wallet's session.
func (e ESIMs) Status(ctx context.Context, orderID string) (*roamcardv1.Order, error) {
	res, err := e.client.Services.Esim.GetEsimOrder(ctx, &roamcardv1.GetEsimOrderRequest{OrderId: orderID})
	return res.GetOrder(), err
}

// Profile reads how the eSIM of a fulfilled order stands at its supplier: whether it is installed, how much data is
// used and when it expires, by the delivery token of ctx or the wallet's session. The service asks the supplier once a
// minute at most; ReadAt says when it did.
func (e ESIMs) Profile(ctx context.Context, orderID string) (*roamcardv1.EsimProfile, error) {
	res, err := e.client.Services.Esim.GetEsimProfile(ctx, &roamcardv1.GetEsimProfileRequest{OrderId: orderID})
	return res.GetProfile(), err
}

// RotateToken makes a new delivery token for an eSIM that the wallet owns, and says when it ends. Those it had before
// open the eSIM no more. It needs the wallet's session.
func (e ESIMs) RotateToken(ctx context.Context, orderID string) (token Secret, until time.Time, err error) {
	res, err := e.client.Services.Esim.RotateEsimToken(ctx, &roamcardv1.RotateEsimTokenRequest{OrderId: orderID})
	if err != nil {
		return Secret{}, time.Time{}, err
	}
	delivery := res.GetDelivery()
	return NewSecret(delivery.GetToken()), delivery.GetTokenExpiresAt().AsTime(), nil
}

// Cancel gives an eSIM that was never installed back, for the refund that its supplier grants: it goes back on chain to
// who paid, once the supplier has taken the eSIM back. It needs the wallet's session; Profile tells how far it is.
// Asked again it answers with how far it is, and nothing is refunded twice.
func (e ESIMs) Cancel(ctx context.Context, orderID string) (*roamcardv1.EsimCancellation, error) {
	res, err := e.client.Services.Esim.CancelEsim(ctx, &roamcardv1.CancelEsimRequest{OrderId: orderID})
	return res.GetCancellation(), err
}

// TopUps lists the plans that can be added to the eSIM of a fulfilled order, the cheapest first, by the delivery token
// of ctx or the wallet's session.
func (e ESIMs) TopUps(ctx context.Context, orderID string) iter.Seq2[*roamcardv1.EsimPlan, error] {
	return pages(func(string) (*Page[*roamcardv1.EsimPlan], error) {
		res, err := e.client.Services.Esim.ListEsimTopups(ctx, &roamcardv1.ListEsimTopupsRequest{OrderId: orderID})
		return page(res.GetPlans(), nil), err
	})
}

// TopUp buys more data for an eSIM that the wallet owns, by the id of its order: a plan of TopUps, or the cheapest when
// planID is empty. Nothing publishes its price to everybody, so the caps of the policy decide. The key is as in
// Cards.Purchase. Profile shows the data once the order is fulfilled.
func (e ESIMs) TopUp(ctx context.Context, orderID, planID, key string) (*Purchase, error) {
	return e.client.buy(ctx, key, func(ctx context.Context, key string) (*roamcardv1.Order, error) {
		asked := &roamcardv1.TopUpEsimRequest{OrderId: orderID, IdempotencyKey: key, PlanId: given(planID)}
		res, err := e.client.Services.Esim.TopUpEsim(ctx, asked)
		return res.GetOrder(), err
	})
}

// Install shows the eSIM of a fulfilled order through a presenter: the caller learns whether it was seen,
// and nothing else. It is read by the delivery token of ctx or the wallet's session.
func (e ESIMs) Install(ctx context.Context, orderID string, to ESIMPresenter) (Presented, error) {
	res, err := e.client.Services.Esim.GetEsimCredentials(ctx, &roamcardv1.GetEsimCredentialsRequest{OrderId: orderID})
	if err != nil {
		return Presented{}, err
	}
	got := res.GetCredentials()
	// The server's object identifier may follow the address and the matching id.
	oid, whole := strings.CutPrefix(got.GetLpa(), "LPA:1$"+got.GetSmdpAddress()+"$"+got.GetMatchingId())
	if !whole || !serverOID.MatchString(oid) || !picture.MatchString(got.GetQrPng()) ||
		!printable.MatchString(got.GetLpa()+got.GetIccid()) {
		// What is wrong with it could quote the code, and a terminal would obey what is none.
		return Presented{}, errors.New("what came is not an eSIM")
	}
	return to.PresentESIM(ctx, esimOf(got))
}

var serverOID = regexp.MustCompile(`^(\$[0-9]+(\.[0-9]+)+)?$`)

var picture, printable = regexp.MustCompile(`^data:image/png;base64,[A-Za-z0-9+/=]+$`), regexp.MustCompile(`^[!-~]+$`)

func esimOf(e *roamcardv1.EsimCredentials) ESIM {
	return ESIM{
		ICCID: NewSecret(e.GetIccid()), SMDPAddress: NewSecret(e.GetSmdpAddress()), MatchingID: NewSecret(e.GetMatchingId()),
		LPA: NewSecret(e.GetLpa()), QRPNG: NewSecret(e.GetQrPng()),
		IOS: NewSecret(e.GetInstallUrls().GetIos()), Android: NewSecret(e.GetInstallUrls().GetAndroid()),
	}
}
