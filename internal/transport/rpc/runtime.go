package rpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// Describe adds to the public settings those of one product.
type Describe func(ctx context.Context, on availability.Product, res *roamcardv1.GetConfigResponse) error

// RuntimeService reports whether the service runs, whether it can sell, and its public settings.
type RuntimeService struct {
	// Health fails when the process cannot serve.
	Health func(ctx context.Context) error
	// Availability says of each product whether it can be sold now.
	Availability map[order.Kind]availability.Product
	// Described shows the terms of each product.
	Described map[order.Kind]Describe
	// ReadyFor is the product whose readiness is the service's, while no other one is sold.
	ReadyFor order.Kind
	// Board reports how each product stands.
	Board Board
	// BaseURL is the service's own origin, without a slash at the end.
	BaseURL string
	Terms   payment.Terms
	// Explorer is where people look transactions up, and PublicNode a node for wallets that do not know the network; both
	// may be empty.
	Explorer, PublicNode string
	// Environment is production or sandbox.
	Environment string
	Version     string
	// Stopping says that the process is about to end: it still serves, and should get no new callers. Nil is never.
	Stopping func() bool
}

// Board reports how each product stands.
type Board interface {
	// Report fails only when ctx ends.
	Report(ctx context.Context) (availability.Report, error)
}

// GetHealth implements roamcardv1connect.RuntimeServiceHandler.
func (s RuntimeService) GetHealth(
	ctx context.Context, _ *roamcardv1.GetHealthRequest,
) (*roamcardv1.GetHealthResponse, error) {
	if err := s.Health(ctx); err != nil {
		return nil, fmt.Errorf("check the database: %w", errors.Join(err,
			fault.New(fault.DependencyDown, "The database does not answer.")))
	}
	return &roamcardv1.GetHealthResponse{Status: "ok"}, nil
}

// GetLiveness implements roamcardv1connect.RuntimeServiceHandler.
func (s RuntimeService) GetLiveness(
	context.Context, *roamcardv1.GetLivenessRequest,
) (*roamcardv1.GetLivenessResponse, error) {
	return &roamcardv1.GetLivenessResponse{Status: "ok"}, nil
}

// GetReadiness implements roamcardv1connect.RuntimeServiceHandler.
func (s RuntimeService) GetReadiness(
	ctx context.Context, _ *roamcardv1.GetReadinessRequest,
) (*roamcardv1.GetReadinessResponse, error) {
	if s.Stopping != nil && s.Stopping() {
		return nil, fault.New(fault.NotReady, "This process is stopping.")
	}
	checks, err := readiness(s.Availability[s.ReadyFor].Serving(ctx, s.others()...))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetReadinessResponse{Status: "ready", Checks: checks}, nil
}

// others are the products that are sold next to the one that the service is ready for.
func (s RuntimeService) others() (all []availability.Product) {
	for _, kind := range slices.Sorted(maps.Keys(s.Availability)) {
		if kind != s.ReadyFor {
			all = append(all, s.Availability[kind])
		}
	}
	return all
}

// readiness shows checks, or fails with the names of the failing ones that are not passing.
func readiness(checks []availability.Result) ([]*roamcardv1.ReadinessCheck, error) {
	shown := make([]*roamcardv1.ReadinessCheck, len(checks))
	var failing []string
	var errs []error
	for i, c := range checks {
		shown[i] = &roamcardv1.ReadinessCheck{Name: c.Name, Status: "ok"}
		switch {
		case c.Err == nil:
		case c.Passing:
			shown[i].Status = "failing"
		default:
			failing = append(failing, named(c))
			errs = append(errs, fmt.Errorf("%s: %w", c.Name, c.Err))
		}
	}
	if len(failing) > 0 {
		// First in the chain, or the fault of a failing check would be shown instead.
		not := fault.Newf(fault.NotReady, "Failing: %s.", strings.Join(failing, ", "))
		return nil, fmt.Errorf("check readiness: %w", errors.Join(append([]error{not}, errs...)...))
	}
	return shown, nil
}

// named is the name of a failing check, with its code when it is about the chain or the facilitator: a
// provider's detail stays in the log.
func named(c availability.Result) string {
	f, ok := fault.As(c.Err)
	if !ok {
		return c.Name
	}
	switch f.Code {
	case fault.TokenPaused, fault.AccountBlocked, fault.FacilitatorDown, fault.ChainUnsettled:
		return fmt.Sprintf("%s (%s)", c.Name, f.Code)
	default:
		return c.Name
	}
}

// GetConfig implements roamcardv1connect.RuntimeServiceHandler.
func (s RuntimeService) GetConfig(
	ctx context.Context, _ *roamcardv1.GetConfigRequest,
) (*roamcardv1.GetConfigResponse, error) {
	purchase, err := rpcx.PolicyOf(purchaseCard())
	if err != nil {
		return nil, err
	}
	res := &roamcardv1.GetConfigResponse{
		BaseUrl: s.BaseURL,
		Network: &roamcardv1.NetworkConfig{
			Network: s.Terms.Network, ChainId: uint32(s.Terms.Domain.ChainID), Asset: s.Terms.Asset.String(),
			AssetSymbol: "USDC", AssetDecimals: 6, AssetName: s.Terms.Domain.Name, AssetVersion: s.Terms.Domain.Version,
			PayTo: s.Terms.PayTo.String(), Protocol: "x402", X402Version: x402.Version, Scheme: x402.Scheme,
			SmartAccountKinds: s.Terms.SmartAccountKinds,
		},
		Limits: &roamcardv1.LimitConfig{
			IdempotencyKeyMaxLength: rpcx.MaxIdempotencyKey, PurchaseBodyMaxBytes: purchase.GetMaxBodyBytes(),
			PaymentHeaderMaxBytes:  x402.MaxHeader,
			SessionSeconds:         uint32(auth.DefaultSessionTTL.Seconds()),
			SignInChallengeSeconds: uint32(auth.DefaultSignInTTL.Seconds()),
			RevealChallengeSeconds: uint32(auth.DefaultRevealTTL.Seconds()),
		},
		TreasuryMode: "manual", Environment: s.Environment, Version: s.Version,
	}
	if s.Explorer != "" {
		res.Network.ExplorerUrl = proto.String(s.Explorer)
	}
	if s.PublicNode != "" {
		res.Network.RpcUrl = proto.String(s.PublicNode)
	}
	for kind, describe := range s.Described {
		if err := describe(ctx, s.Availability[kind], res); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// GetStatus implements roamcardv1connect.RuntimeServiceHandler.
func (s RuntimeService) GetStatus(
	ctx context.Context, _ *roamcardv1.GetStatusRequest,
) (*roamcardv1.GetStatusResponse, error) {
	report, err := s.Board.Report(ctx)
	if err != nil {
		return nil, err
	}
	res := &roamcardv1.GetStatusResponse{Status: string(report.State()), AsOf: timestamp(report.At)}
	for _, p := range report.Products {
		m := &roamcardv1.ProductStatus{
			Product: string(p.Product), Title: p.Title, Status: string(p.State), Reason: optionalText(p.Reason),
			Since: timestamp(p.Since),
		}
		if d := p.Delivery; d.Count > 0 {
			m.Delivery = &roamcardv1.DeliveryTime{MedianMs: uint32(d.Median.Milliseconds()), Count: uint32(d.Count)}
		}
		res.Products = append(res.Products, m)
	}
	return res, nil
}

// purchaseCard is the method whose limits stand for those of every purchase.
func purchaseCard() protoreflect.MethodDescriptor {
	return roamcardv1.File_roamcard_v1_card_proto.Services().ByName("CardService").Methods().ByName("PurchaseCard")
}
