package rpc

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// EsimService sells travel eSIMs and delivers them to whoever paid.
type EsimService struct {
	Sales
	Orders   OwnedOrder
	Plans    EsimPlans
	Delivery EsimDelivery
	Profiles EsimProfiles
	// Cancellations give eSIMs back.
	Cancellations EsimCancellations
	// Topups are what eSIMs take.
	Topups EsimTopups
	// Capabilities are the supplier's.
	Capabilities esim.Capabilities
	// Availability has the kind of eSIMs.
	Availability map[order.Kind]availability.Product
	Terms        payment.Terms
	Now          func() time.Time
}

// OwnedOrder finds one of a wallet's orders, or is an order_not_found.
type OwnedOrder interface {
	Order(ctx context.Context, id order.ID, owner x402.Address) (checkout.PaidOrder, error)
}

// EsimPlans is the catalogue, the cheapest plan first.
type EsimPlans interface {
	Plans(ctx context.Context, f esim.Filter) ([]esim.Plan, error)
}

// EsimDelivery gives the owner what an order delivered.
type EsimDelivery interface {
	// HandOver waits for a paid order until it is decided or the deadline has passed, and gives the proven payer what it
	// delivered.
	HandOver(ctx context.Context, o order.Order, proven bool, until time.Time) (esim.Handed, error)
	// RotateToken makes the order's earlier tokens void.
	RotateToken(ctx context.Context, o order.Order) (esim.Token, error)
	// Credentials is an order_not_fulfilled before there are any.
	Credentials(ctx context.Context, o order.Order) (esim.Credentials, error)
}

// EsimProfiles tells how delivered profiles stand at their supplier.
type EsimProfiles interface {
	// Condition is an order_not_fulfilled before there is a profile, and an esim_control_missing where the supplier does
	// not tell.
	Condition(ctx context.Context, o order.Order) (esim.Condition, error)
}

// EsimCancellations give eSIMs that were never installed back to their supplier, for a refund.
type EsimCancellations interface {
	// Begin is an esim_installed when a device has the eSIM. Asked again, it tells how far the cancellation is.
	Begin(ctx context.Context, o order.Order) (esim.Cancellation, error)
	// Cancellation is that of an order, if there is one.
	Cancellation(ctx context.Context, id order.ID) (c esim.Cancellation, ok bool, err error)
}

// GetEsimDiscovery implements roamcardv1connect.EsimServiceHandler.
func (s EsimService) GetEsimDiscovery(
	ctx context.Context, _ *roamcardv1.GetEsimDiscoveryRequest,
) (*roamcardv1.GetEsimDiscoveryResponse, error) {
	paused, err := s.Availability[esim.Kind].Paused(ctx)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetEsimDiscoveryResponse{
		Paused:          paused,
		ContractVersion: 1,
		Catalog: &roamcardv1.EsimCatalogTerms{
			Plans: s.BaseURL + "/api/esim/plans", Filters: []string{"countryCode", "type"},
			Types: []string{string(esim.Country), string(esim.Region)}, DefaultPlan: "cheapest",
		},
		Payment: &roamcardv1.EsimPaymentTerms{
			Protocol: "x402", X402Version: x402.Version, Scheme: x402.Scheme, Network: s.Terms.Network,
			Asset: s.Terms.Asset.String(), PayTo: s.Terms.PayTo.String(), Price: "dynamic",
			MinPriceUsdCents: uint32(esim.MinPrice), MaxPriceUsdCents: uint32(esim.MaxPrice),
			Method: "POST", Resource: s.BaseURL + "/api/esim/purchase", AccountTypes: s.Terms.AccountTypes(),
			MaxSubmissionsPerAttempt: 1,
		},
		Ownership: &roamcardv1.EsimOwnership{Owner: "payer"},
		Fulfillment: &roamcardv1.EsimFulfillmentTerms{
			Asynchronous: true, InlineWaitMs: uint32(esim.InlineWait.Milliseconds()),
			Status:   "GET /api/esim/orders/{orderId}",
			Statuses: []string{"pending", "fulfilled", "cancelled", "review", "refund_pending", "refunded"},
		},
		Credentials: &roamcardv1.EsimCredentialTerms{
			OwnerOnly: true, NoStore: true, DeliveryTokenHeader: rpcx.HeaderDeliveryToken,
			DeliveryTokenDays: uint32(esim.TokenLifetime.Hours() / 24),
			Credentials:       "GET /api/esim/orders/{orderId}/credentials",
			Rotate:            "POST /api/esim/orders/{orderId}/rotate-token",
		},
		Profile: profileTerms(s.Capabilities),
	}, nil
}

// profileTerms are what owners may do with a delivered eSIM.
func profileTerms(of esim.Capabilities) *roamcardv1.EsimProfileTerms {
	m := &roamcardv1.EsimProfileTerms{
		Usage: of.Usage, MaxAgeSeconds: uint32(esim.ConditionTTL.Seconds()), Statuses: []string{},
	}
	if of.Status {
		m.Status = proto.String("GET /api/esim/orders/{orderId}/profile")
	}
	if of.Cancel {
		m.Cancel = proto.String("POST /api/esim/orders/{orderId}/cancel")
	}
	if of.Topup {
		m.Topups = proto.String("GET /api/esim/orders/{orderId}/topups")
		m.Topup = proto.String("POST /api/esim/orders/{orderId}/topup")
	}
	for _, s := range esim.ProfileStatuses() {
		m.Statuses = append(m.Statuses, string(s))
	}
	return m
}

// GetEsimReadiness implements roamcardv1connect.EsimServiceHandler.
func (s EsimService) GetEsimReadiness(
	ctx context.Context, _ *roamcardv1.GetEsimReadinessRequest,
) (*roamcardv1.GetEsimReadinessResponse, error) {
	checks, err := readiness(s.Availability[esim.Kind].Ready(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetEsimReadinessResponse{Status: "ready", Checks: checks}, nil
}

// ListEsimPlans implements roamcardv1connect.EsimServiceHandler.
func (s EsimService) ListEsimPlans(
	ctx context.Context, req *roamcardv1.ListEsimPlansRequest,
) (*roamcardv1.ListEsimPlansResponse, error) {
	// The message's rules allow any two letters. A country without plans has an empty list.
	f := esim.Filter{Type: esim.Type(req.GetType()), Country: strings.ToUpper(req.GetCountryCode())}
	plans, err := s.Plans.Plans(ctx, f)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListEsimPlansResponse{Plans: s.plans(plans)}, nil
}

func (s EsimService) plans(plans []esim.Plan) []*roamcardv1.EsimPlan {
	all := make([]*roamcardv1.EsimPlan, len(plans))
	for i, p := range plans {
		all[i] = &roamcardv1.EsimPlan{
			PlanId: string(p.ID), Name: p.Name, Type: string(p.Type), CountryCodes: p.Countries,
			ValidityDays: uint32(p.ValidityDays), PriceUsdCents: uint32(p.Price), Amount: p.Price.USDC().String(),
			Asset: s.Terms.Asset.String(), Network: s.Terms.Network, Unlimited: p.Unlimited,
		}
		if !p.Unlimited {
			all[i].DataMb = proto.Uint32(uint32(p.DataMB))
		}
		if p.FairUse != "" {
			all[i].FairUse = proto.String(p.FairUse)
		}
	}
	return all
}

// PurchaseEsim implements roamcardv1connect.EsimServiceHandler.
func (s EsimService) PurchaseEsim(
	ctx context.Context, req *roamcardv1.PurchaseEsimRequest,
) (*roamcardv1.PurchaseEsimResponse, error) {
	until := s.Now().Add(esim.InlineWait)
	paid, err := s.buy(ctx, esim.Kind, req.GetIdempotencyKey(),
		esim.PurchaseRequest{Plan: esim.PlanID(req.GetPlanId())})
	if err != nil {
		return nil, err
	}
	handed, err := s.Delivery.HandOver(ctx, paid.Order, paid.ProvenCaller, until)
	if err != nil {
		return nil, unshown(paid.Order.ID, err)
	}
	paid.Order = handed.Order
	m, err := s.shown(ctx, paid)
	if err != nil {
		return nil, err
	}
	if handed.Token != nil {
		showToken(m.Delivery, *handed.Token)
	}
	if handed.Credentials != nil {
		m.Credentials = esimCredentials(*handed.Credentials)
	}
	return &roamcardv1.PurchaseEsimResponse{Order: m}, nil
}

// CreateEsimOrder implements roamcardv1connect.EsimServiceHandler.
func (s EsimService) CreateEsimOrder(
	ctx context.Context, req *roamcardv1.CreateEsimOrderRequest,
) (*roamcardv1.CreateEsimOrderResponse, error) {
	o, err := s.create(ctx, checkout.CreateRequest{Kind: esim.Kind},
		esim.PurchaseRequest{Plan: esim.PlanID(req.GetPlanId())})
	if err != nil {
		return nil, err
	}
	if o.PayableUrl != nil {
		r := s.Terms.Requirements(money.Cents(o.GetAmountUsdCents()).USDC(), nil)
		o.PaymentRequirements = &roamcardv1.PaymentRequirements{
			X402Version: x402.Version, Scheme: r.Scheme, Network: r.Network, Asset: r.Asset, Amount: r.Amount,
			PayTo:    r.PayTo,
			Resource: o.GetPayableUrl(), MaxTimeoutSeconds: uint32(r.MaxTimeoutSeconds),
		}
	}
	return &roamcardv1.CreateEsimOrderResponse{Order: o}, nil
}

// GetEsimOrder implements roamcardv1connect.EsimServiceHandler.
func (s EsimService) GetEsimOrder(
	ctx context.Context, req *roamcardv1.GetEsimOrderRequest,
) (*roamcardv1.GetEsimOrderResponse, error) {
	paid, err := s.owned(ctx, req.GetOrderId())
	if err != nil {
		return nil, err
	}
	orders, err := s.orders(ctx, paid)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetEsimOrderResponse{Order: orders[0]}, nil
}

// GetEsimCredentials implements roamcardv1connect.EsimServiceHandler.
func (s EsimService) GetEsimCredentials(
	ctx context.Context, req *roamcardv1.GetEsimCredentialsRequest,
) (*roamcardv1.GetEsimCredentialsResponse, error) {
	paid, err := s.owned(ctx, req.GetOrderId())
	if err != nil {
		return nil, err
	}
	c, err := s.Delivery.Credentials(ctx, paid.Order)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetEsimCredentialsResponse{Credentials: esimCredentials(c)}, nil
}

// GetEsimProfile implements roamcardv1connect.EsimServiceHandler.
func (s EsimService) GetEsimProfile(
	ctx context.Context, req *roamcardv1.GetEsimProfileRequest,
) (*roamcardv1.GetEsimProfileResponse, error) {
	paid, err := s.owned(ctx, req.GetOrderId())
	if err != nil {
		return nil, err
	}
	c, err := s.Profiles.Condition(ctx, paid.Order)
	if err != nil {
		return nil, err
	}
	m := esimProfile(paid.Order.ID, c)
	switch cancelling, ok, err := s.Cancellations.Cancellation(ctx, paid.Order.ID); {
	case err != nil:
		return nil, err
	case ok:
		m.Cancellation = esimCancellation(cancelling)
	}
	return &roamcardv1.GetEsimProfileResponse{Profile: m}, nil
}

// CancelEsim implements roamcardv1connect.EsimServiceHandler.
func (s EsimService) CancelEsim(
	ctx context.Context, req *roamcardv1.CancelEsimRequest,
) (*roamcardv1.CancelEsimResponse, error) {
	paid, err := s.owned(ctx, req.GetOrderId())
	if err != nil {
		return nil, err
	}
	c, err := s.Cancellations.Begin(ctx, paid.Order)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.CancelEsimResponse{Cancellation: esimCancellation(c)}, nil
}

func esimCancellation(c esim.Cancellation) *roamcardv1.EsimCancellation {
	m := &roamcardv1.EsimCancellation{OrderId: string(c.Order), Status: string(c.Stage), Since: timestamp(c.Since)}
	if c.Job == job.OperatorReview {
		m.Status = "review"
	}
	if c.Refund > 0 {
		m.RefundAmount = proto.String(c.Refund.String())
	}
	if c.Transaction != (x402.Hash{}) {
		m.Transaction = proto.String(c.Transaction.String())
	}
	return m
}

// Cancellations let operators go on with what owners have begun.
type Cancellations interface {
	// Retry lets a cancellation that waits for an operator go on with its stage.
	Retry(ctx context.Context, id order.ID, act order.OperatorContext) (esim.Cancellation, error)
	// Conclude ends one whose refund a transaction has done by hand.
	Conclude(ctx context.Context, id order.ID, transaction x402.Hash, act order.OperatorContext) (esim.Cancellation, error)
	List(ctx context.Context, q job.Query, act order.OperatorContext) ([]job.Row, error)
}

// ListEsimCancellations implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ListEsimCancellations(
	ctx context.Context, req *roamcardv1.ListEsimCancellationsRequest,
) (*roamcardv1.ListEsimCancellationsResponse, error) {
	asked := pageAsked{req.GetStatus(), req.GetPageSize(), req.PageToken}
	cancellations, next, err := jobPage(ctx, asked, s.Cancellations.List, cancellationJob)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListEsimCancellationsResponse{Cancellations: cancellations, NextPageToken: next}, nil
}

func cancellationJob(row job.Row) (*roamcardv1.EsimCancellationJob, error) {
	a, err := job.Decode[esim.CancelArgs](row)
	if err != nil {
		return nil, err
	}
	m := &roamcardv1.EsimCancellationJob{
		Id: row.ID.String(), OrderId: string(a.Order), Status: string(row.Status), Stage: string(a.Stage),
		Since: timestamp(a.Since), CreatedAt: timestamp(row.CreatedAt), FinishedAt: optionalTimestamp(row.FinishedAt),
	}
	if a.Credit > 0 {
		m.CreditAmount, m.RefundAmount = proto.String(a.Credit.String()), proto.String(a.Refund.String())
	}
	if row.Status == job.Queued && row.Step != "" {
		m.Status = string(job.Processing)
	}
	if row.Status == job.OperatorReview && row.LastError != "" {
		m.Reason = proto.String(row.LastError)
	}
	return m, nil
}

// RetryEsimCancellation implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) RetryEsimCancellation(
	ctx context.Context, req *roamcardv1.RetryEsimCancellationRequest,
) (*roamcardv1.RetryEsimCancellationResponse, error) {
	c, err := s.Cancellations.Retry(ctx, order.ID(req.GetOrderId()), actOnce(ctx, req.GetReason()))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.RetryEsimCancellationResponse{Cancellation: esimCancellation(c)}, nil
}

// ConcludeEsimCancellation implements roamcardv1connect.OperatorServiceHandler.
func (s OperatorService) ConcludeEsimCancellation(
	ctx context.Context, req *roamcardv1.ConcludeEsimCancellationRequest,
) (*roamcardv1.ConcludeEsimCancellationResponse, error) {
	transaction, err := x402.ParseHash(req.GetTransaction())
	if err != nil {
		return nil, rpcx.Invalid("transaction", "string.pattern", "must be a transaction's hash")
	}
	c, err := s.Cancellations.Conclude(ctx, order.ID(req.GetOrderId()), transaction, actOnce(ctx, req.GetReason()))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ConcludeEsimCancellationResponse{Cancellation: esimCancellation(c)}, nil
}

func esimProfile(id order.ID, c esim.Condition) *roamcardv1.EsimProfile {
	m := &roamcardv1.EsimProfile{OrderId: string(id), Status: string(c.Status), ReadAt: timestamp(c.ReadAt)}
	if !c.ExpiresAt.IsZero() {
		m.ExpiresAt = timestamp(c.ExpiresAt)
	}
	if u := c.Usage; u != nil {
		m.Usage = &roamcardv1.EsimUsage{UsedBytes: strconv.FormatInt(u.Used, 10)}
		if u.Total > 0 {
			m.Usage.TotalBytes = proto.String(strconv.FormatInt(u.Total, 10))
		}
		if !u.MeasuredAt.IsZero() {
			m.Usage.MeasuredAt = timestamp(u.MeasuredAt)
		}
	}
	return m
}

// RotateEsimToken implements roamcardv1connect.EsimServiceHandler.
func (s EsimService) RotateEsimToken(
	ctx context.Context, req *roamcardv1.RotateEsimTokenRequest,
) (*roamcardv1.RotateEsimTokenResponse, error) {
	paid, err := s.owned(ctx, req.GetOrderId())
	if err != nil {
		return nil, err
	}
	orders, err := s.orders(ctx, paid)
	if err != nil {
		return nil, err
	}
	m := orders[0].GetDelivery()
	token, err := s.Delivery.RotateToken(ctx, paid.Order)
	if err != nil {
		return nil, err
	}
	showToken(m, token)
	return &roamcardv1.RotateEsimTokenResponse{Delivery: m}, nil
}

// owned finds an eSIM order of the caller, who has a session or a delivery token.
func (s EsimService) owned(ctx context.Context, id string) (checkout.PaidOrder, error) {
	paid, err := s.Orders.Order(ctx, order.ID(id), rpcx.Wallet(ctx))
	if err == nil && paid.Order.Kind != esim.Kind {
		err = fault.New(fault.OrderNotFound, "This wallet has no eSIM order with this id.")
	}
	return paid, err
}

func showToken(m *roamcardv1.EsimDelivery, t esim.Token) {
	m.Token, m.TokenExpiresAt = proto.String(t.Text.Reveal()), timestamp(t.ExpiresAt)
}

func esimCredentials(c esim.Credentials) *roamcardv1.EsimCredentials {
	return &roamcardv1.EsimCredentials{
		Iccid: c.ICCID.Reveal(), SmdpAddress: c.SMDPAddress.Reveal(), MatchingId: c.MatchingID.Reveal(),
		Lpa:   c.LPA.Reveal(),
		QrSvg: c.QRSVG.Reveal(), QrPng: "data:image/png;base64," +
			base64.StdEncoding.EncodeToString([]byte(c.QRPNG.Reveal())),
		InstallUrls: &roamcardv1.EsimInstallUrls{Ios: c.IOS.Reveal(), Android: c.Android.Reveal()},
	}
}

// PlanNames finds the names of plans; one that is not known is left out.
type PlanNames interface {
	PlanNames(ctx context.Context, ids ...esim.PlanID) (map[esim.PlanID]string, error)
}

// DeliveredEsims are the eSIMs of orders.
type DeliveredEsims interface {
	PlanNames
	// Deliveries are how the deliveries of some orders stand.
	Deliveries(ctx context.Context, orders ...order.Order) (map[order.ID]esim.DeliveryStatus, error)
}

// EsimView shows the state of the eSIMs of orders.
func EsimView(esims DeliveredEsims) View {
	return func(ctx context.Context, orders []order.Order, messages []*roamcardv1.Order) error {
		bought := make([]esim.PlanID, len(orders))
		for i, o := range orders {
			item, err := esim.ItemOf(o)
			if err != nil {
				return fmt.Errorf("order %s: %w", o.ID, err)
			}
			bought[i] = item.Plan
		}
		names, err := esims.PlanNames(ctx, bought...)
		if err != nil {
			return err
		}
		stand, err := esims.Deliveries(ctx, orders...)
		if err != nil {
			return err
		}
		for i, o := range orders {
			messages[i].Delivery = &roamcardv1.EsimDelivery{
				Status: string(stand[o.ID]), PlanId: string(bought[i]), PlanName: optionalText(names[bought[i]]),
			}
		}
		return nil
	}
}

// DescribeEsims shows the terms of eSIMs.
func DescribeEsims(ctx context.Context, on availability.Product, res *roamcardv1.GetConfigResponse) error {
	paused, err := on.Paused(ctx)
	c := esimConfig(res)
	c.MinPriceUsdCents, c.MaxPriceUsdCents = uint32(esim.MinPrice), uint32(esim.MaxPrice)
	c.PurchasePaused = paused
	return err
}

// esimConfig is the part of the settings that the products share which are about eSIMs.
func esimConfig(res *roamcardv1.GetConfigResponse) *roamcardv1.EsimConfig {
	if res.Esim == nil {
		res.Esim = &roamcardv1.EsimConfig{}
	}
	return res.Esim
}
