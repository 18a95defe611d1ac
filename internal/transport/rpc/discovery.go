package rpc

import (
	"context"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

// GetCardDiscovery implements roamcardv1connect.CardServiceHandler.
func (s CardService) GetCardDiscovery(
	ctx context.Context, _ *roamcardv1.GetCardDiscoveryRequest,
) (*roamcardv1.GetCardDiscoveryResponse, error) {
	paused, err := s.Availability[order.CardIssue].Paused(ctx)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetCardDiscoveryResponse{
		Paused:          paused,
		ContractVersion: 1,
		Payment:         s.cardTerms(card.Price, "/api/card/purchase"),
		Ownership:       &roamcardv1.CardOwnership{Owner: "payer", CardsPerOwner: 1},
		Issuance: &roamcardv1.CardIssuanceTerms{
			Asynchronous: true, PaymentRequired: true, Public: true,
			CardIssueFeeUsdCents: uint32(card.Fee), ExpectedAvailableAfterIssueUsdCents: uint32(card.Remaining),
			Poll: []string{"GET /api/orders/{orderId}", "GET /api/cards"},
		},
		Credentials: &roamcardv1.CardCredentialTerms{
			OwnerOnly: true, NoStore: true, FreshSignatureRequired: true,
			Challenge: "POST /api/cards/{id}/reveal-challenge", Reveal: "POST /api/cards/{id}/reveal",
			Sealing: "HPKE base mode, " + handshake.SealSuite + "; info \"" + handshake.RevealInfo +
				"\", aad the card id",
		},
	}, nil
}

// GetTopupDiscovery implements roamcardv1connect.CardServiceHandler.
func (s CardService) GetTopupDiscovery(
	ctx context.Context, _ *roamcardv1.GetTopupDiscoveryRequest,
) (*roamcardv1.GetTopupDiscoveryResponse, error) {
	paused, err := s.Availability[order.CardTopup].Paused(ctx)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetTopupDiscoveryResponse{
		Paused:          paused,
		ContractVersion: 1,
		Payment:         s.cardTerms(card.DefaultOrder, "/api/card/topup"),
		Ownership: &roamcardv1.TopupOwnership{
			Owner: "payer", ActiveCardRequired: true, CardSelectedByServer: true,
		},
		Limits: &roamcardv1.TopupLimits{
			MinOrderUsdCents: uint32(card.MinOrder), DefaultOrderUsdCents: uint32(card.DefaultOrder),
			MaxOrderUsdCents: uint32(card.MaxOrder),
			LoadFeeBps:       card.LoadFeeBPS, LoadFeeRounding: "floor",
		},
		Funding: &roamcardv1.TopupFunding{
			Asynchronous: true, ConfirmedBy: []string{"funding job", "issuer balance"},
			Poll: []string{"GET /api/orders/{orderId}", "GET /api/cards/{id}/balance"},
		},
	}, nil
}

// cardTerms is how something about cards is paid for.
func (s CardService) cardTerms(price money.Cents, path string) *roamcardv1.CardPaymentTerms {
	return &roamcardv1.CardPaymentTerms{
		Protocol: "x402", X402Version: x402.Version, Scheme: x402.Scheme, Network: s.Terms.Network,
		Asset: s.Terms.Asset.String(), PayTo: s.Terms.PayTo.String(),
		WalletPaymentUsdCents: uint32(price), Amount: price.USDC().String(),
		Method: "POST", Resource: s.BaseURL + path, AccountTypes: []string{"eoa"}, MaxSubmissionsPerAttempt: 1,
		ClientNote: "The reference clients of x402 refuse payments above $1 by default: set " +
			"spendControls.maxAmountPerPayment (TypeScript) " +
			"or max_amount_per_payment with set_spend_controls (Python) to what you are ready to pay.",
	}
}
