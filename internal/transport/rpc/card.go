package rpc

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// CardService sells virtual cards and serves their owners.
type CardService struct {
	Sales
	Cards    Cards
	Controls CardControls
	// Capabilities are the issuer's.
	Capabilities card.Capabilities
	Credentials  CardCredentials
	// Links is needed where the issuer shows cards on a page.
	Links   CardLinks
	Reveals Reveals
	// Availability has the kinds of cards and top-ups.
	Availability map[order.Kind]availability.Product
	Terms        payment.Terms
}

// Cards are the cards of a wallet. Another's card is a card_not_found.
type Cards interface {
	List(ctx context.Context, owner x402.Address) ([]card.Card, error)
	// Ensure is the owner's live card, or a paid_issue_required.
	Ensure(ctx context.Context, owner x402.Address) (card.Card, error)
	Own(ctx context.Context, id uuid.UUID, owner x402.Address) (card.Card, error)
	Balance(ctx context.Context, id uuid.UUID, owner x402.Address) (card.Balance, error)
}

// CardControls are what owners do with their cards at the issuer.
type CardControls interface {
	Freeze(ctx context.Context, id uuid.UUID, owner x402.Address) (card.Card, error)
	Unfreeze(ctx context.Context, id uuid.UUID, owner x402.Address) (card.Card, error)
	// Transactions is a page of at most so many, newest first, after the next of the page before.
	Transactions(
		ctx context.Context, id uuid.UUID, owner x402.Address, after string, most int,
	) (page []card.Transaction, next string, err error)
	Limits(ctx context.Context, id uuid.UUID, owner x402.Address) (card.Limits, error)
	SetLimits(ctx context.Context, id uuid.UUID, owner x402.Address, want card.Limits) (card.Limits, error)
	Details(ctx context.Context, id uuid.UUID, owner x402.Address) (card.Details, error)
}

// CardCredentials asks the issuer for the number and security code of an owner's card. Nothing keeps them.
type CardCredentials interface {
	Credentials(ctx context.Context, id uuid.UUID, owner x402.Address) (card.Credentials, error)
}

// CardLinks makes links to pages that show a card once.
type CardLinks interface {
	Link(ctx context.Context, id uuid.UUID, owner x402.Address) (url secret.Text, expiresAt time.Time, err error)
}

// Reveals lets an owner sign for each reveal of a card.
type Reveals interface {
	RevealChallenge(
		ctx context.Context, who auth.Caller, card uuid.UUID, schemes []auth.Scheme, recipientKey []byte,
	) (auth.Challenge, auth.TypedData, error)
	// Reveal takes a signed challenge once, and gives the recipient key that was signed; nil when none was.
	Reveal(ctx context.Context, who auth.Caller, r auth.RevealRequest) (recipientKey []byte, err error)
}

// PurchaseCard implements roamcardv1connect.CardServiceHandler.
func (s CardService) PurchaseCard(
	ctx context.Context, req *roamcardv1.PurchaseCardRequest,
) (*roamcardv1.PurchaseCardResponse, error) {
	paid, err := s.buy(ctx, card.Kind, req.GetIdempotencyKey(), struct{}{})
	if err != nil {
		return nil, err
	}
	o, err := s.shown(ctx, paid)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.PurchaseCardResponse{Order: o}, nil
}

// CreateCardOrder implements roamcardv1connect.CardServiceHandler.
func (s CardService) CreateCardOrder(
	ctx context.Context, _ *roamcardv1.CreateCardOrderRequest,
) (*roamcardv1.CreateCardOrderResponse, error) {
	o, err := s.create(ctx, checkout.CreateRequest{Kind: card.Kind, ReuseUnpaid: true}, struct{}{})
	if f, ok := fault.As(err); ok && f.Code == fault.BINUnavailable {
		// Nothing was to be paid yet: this route calls it a conflict (spec section 7).
		return nil, fault.New(fault.CardBINUnavailable, f.Detail)
	}
	if err != nil {
		return nil, err
	}
	return &roamcardv1.CreateCardOrderResponse{Order: o}, nil
}

// ListCards implements roamcardv1connect.CardServiceHandler.
func (s CardService) ListCards(
	ctx context.Context, _ *roamcardv1.ListCardsRequest,
) (*roamcardv1.ListCardsResponse, error) {
	cards, err := s.Cards.List(ctx, rpcx.Wallet(ctx))
	if err != nil {
		return nil, err
	}
	res := &roamcardv1.ListCardsResponse{Cards: make([]*roamcardv1.Card, len(cards))}
	for i, c := range cards {
		res.Cards[i] = cardMessage(c)
	}
	return res, nil
}

// EnsureCard implements roamcardv1connect.CardServiceHandler.
func (s CardService) EnsureCard(
	ctx context.Context, _ *roamcardv1.EnsureCardRequest,
) (*roamcardv1.EnsureCardResponse, error) {
	c, err := s.Cards.Ensure(ctx, rpcx.Wallet(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.EnsureCardResponse{Card: cardMessage(c)}, nil
}

// GetCardBalance implements roamcardv1connect.CardServiceHandler.
func (s CardService) GetCardBalance(
	ctx context.Context, req *roamcardv1.GetCardBalanceRequest,
) (*roamcardv1.GetCardBalanceResponse, error) {
	id, err := cardID(req.GetId())
	if err != nil {
		return nil, err
	}
	b, err := s.Cards.Balance(ctx, id, rpcx.Wallet(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetCardBalanceResponse{
		CardId: id.String(), Currency: "USD", AvailableUsdCents: int32(b.Available), AsOf: timestamp(b.AsOf),
	}, nil
}

// FreezeCard implements roamcardv1connect.CardServiceHandler.
func (s CardService) FreezeCard(
	ctx context.Context, req *roamcardv1.FreezeCardRequest,
) (*roamcardv1.FreezeCardResponse, error) {
	id, err := cardID(req.GetId())
	if err != nil {
		return nil, err
	}
	c, err := s.Controls.Freeze(ctx, id, rpcx.Wallet(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.FreezeCardResponse{Card: cardMessage(c)}, nil
}

// UnfreezeCard implements roamcardv1connect.CardServiceHandler.
func (s CardService) UnfreezeCard(
	ctx context.Context, req *roamcardv1.UnfreezeCardRequest,
) (*roamcardv1.UnfreezeCardResponse, error) {
	id, err := cardID(req.GetId())
	if err != nil {
		return nil, err
	}
	c, err := s.Controls.Unfreeze(ctx, id, rpcx.Wallet(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.UnfreezeCardResponse{Card: cardMessage(c)}, nil
}

// ListCardTransactions implements roamcardv1connect.CardServiceHandler.
func (s CardService) ListCardTransactions(
	ctx context.Context, req *roamcardv1.ListCardTransactionsRequest,
) (*roamcardv1.ListCardTransactionsResponse, error) {
	id, err := cardID(req.GetId())
	if err != nil {
		return nil, err
	}
	page, next, err := s.Controls.Transactions(ctx, id, rpcx.Wallet(ctx), req.GetPageToken(), limitOf(req.GetPageSize()))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.ListCardTransactionsResponse{
		CardId: id.String(), Currency: "USD", Transactions: messages(page, transactionMessage),
		NextPageToken: optionalText(next),
	}, nil
}

func transactionMessage(t card.Transaction) *roamcardv1.CardTransaction {
	m := &roamcardv1.CardTransaction{
		Id: t.ID, At: timestamp(t.At), Kind: string(t.Kind), Status: string(t.Status), AmountUsdCents: int32(t.Amount),
		Merchant: &roamcardv1.CardMerchant{Name: t.Merchant.Name},
	}
	if t.Merchant.Category != "" {
		m.Merchant.Category = proto.String(t.Merchant.Category)
	}
	if t.Merchant.Country != "" {
		m.Merchant.Country = proto.String(t.Merchant.Country)
	}
	if t.Status == card.TransactionDeclined {
		m.DeclineReason = proto.String(string(cmp.Or(t.Declined, card.DeclinedOther)))
	}
	return m
}

// GetCardLimits implements roamcardv1connect.CardServiceHandler.
func (s CardService) GetCardLimits(
	ctx context.Context, req *roamcardv1.GetCardLimitsRequest,
) (*roamcardv1.GetCardLimitsResponse, error) {
	id, err := cardID(req.GetId())
	if err != nil {
		return nil, err
	}
	l, err := s.Controls.Limits(ctx, id, rpcx.Wallet(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetCardLimitsResponse{Limits: limitsMessage(id, l)}, nil
}

// SetCardLimits implements roamcardv1connect.CardServiceHandler.
func (s CardService) SetCardLimits(
	ctx context.Context, req *roamcardv1.SetCardLimitsRequest,
) (*roamcardv1.SetCardLimitsResponse, error) {
	id, err := cardID(req.GetId())
	if err != nil {
		return nil, err
	}
	l, err := s.Controls.SetLimits(ctx, id, rpcx.Wallet(ctx), card.Limits{
		Transaction: money.Cents(req.GetPerTransactionUsdCents()), Month: money.Cents(req.GetPerMonthUsdCents()),
		Allowed: req.GetAllowedCategories(), Blocked: req.GetBlockedCategories(),
	})
	if err != nil {
		return nil, err
	}
	return &roamcardv1.SetCardLimitsResponse{Limits: limitsMessage(id, l)}, nil
}

func limitsMessage(id uuid.UUID, l card.Limits) *roamcardv1.CardLimits {
	m := &roamcardv1.CardLimits{
		CardId: id.String(), Currency: "USD", AllowedCategories: l.Allowed, BlockedCategories: l.Blocked,
	}
	if l.Transaction > 0 {
		m.PerTransactionUsdCents = proto.Uint32(uint32(l.Transaction))
	}
	if l.Month > 0 {
		m.PerMonthUsdCents = proto.Uint32(uint32(l.Month))
	}
	return m
}

// GetCardDetails implements roamcardv1connect.CardServiceHandler.
func (s CardService) GetCardDetails(
	ctx context.Context, req *roamcardv1.GetCardDetailsRequest,
) (*roamcardv1.GetCardDetailsResponse, error) {
	id, err := cardID(req.GetId())
	if err != nil {
		return nil, err
	}
	d, err := s.Controls.Details(ctx, id, rpcx.Wallet(ctx))
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetCardDetailsResponse{Details: detailsMessage(id, d)}, nil
}

func detailsMessage(id uuid.UUID, d card.Details) *roamcardv1.CardDetails {
	m := &roamcardv1.CardDetails{CardId: id.String()}
	if b := d.Billing; b != nil {
		m.BillingAddress = &roamcardv1.CardBillingAddress{
			Name: b.Name, Line1: b.Line1, Line2: optional(b.Line2), City: b.City, Region: optional(b.Region),
			PostalCode: b.PostalCode, Country: b.Country,
		}
	}
	if c := d.Challenge; c.Method != "" {
		m.ThreeDSecure = &roamcardv1.CardThreeDSecure{
			Method: string(c.Method), Destination: optional(c.Destination), Instructions: optional(c.Instructions),
		}
	}
	return m
}

// optional is nil for an empty text.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// controlTerms are what owners can do with cards of an issuer.
func controlTerms(of card.Capabilities) *roamcardv1.CardControlTerms {
	m := &roamcardv1.CardControlTerms{}
	if of.Freeze {
		m.Freeze = proto.String("POST /api/cards/{id}/freeze")
		m.Unfreeze = proto.String("POST /api/cards/{id}/unfreeze")
	}
	if of.Transactions {
		m.Transactions = proto.String("GET /api/cards/{id}/transactions")
	}
	if of.Limits.Any() {
		m.Limits = proto.String("GET /api/cards/{id}/limits")
		m.SetLimits = proto.String("PUT /api/cards/{id}/limits")
		m.OneLimitAmount = of.Limits.OneAmount
	}
	if of.Details.Any() {
		m.Details = proto.String("GET /api/cards/{id}/details")
		m.BillingAddress = of.Details.Billing
	}
	for _, method := range of.Details.Challenges {
		m.ThreeDSecureMethods = append(m.ThreeDSecureMethods, string(method))
	}
	for _, kind := range []struct {
		offered bool
		name    string
	}{
		{of.Limits.Transaction, "per_transaction"}, {of.Limits.Month, "per_month"},
		{of.Limits.Merchants, "merchant_categories"},
	} {
		if kind.offered {
			m.LimitKinds = append(m.LimitKinds, kind.name)
		}
	}
	return m
}

// CreateRevealChallenge implements roamcardv1connect.CardServiceHandler.
func (s CardService) CreateRevealChallenge(
	ctx context.Context, req *roamcardv1.CreateRevealChallengeRequest,
) (*roamcardv1.CreateRevealChallengeResponse, error) {
	id, err := cardID(req.GetId())
	if err != nil {
		return nil, err
	}
	key, err := auth.ParseRecipientKey(req.GetRecipientKey())
	if err != nil {
		return nil, err
	}
	who := rpcx.Caller(ctx)
	if _, err := s.Cards.Own(ctx, id, who.Wallet); err != nil {
		return nil, err
	}
	ch, typed, err := s.Reveals.RevealChallenge(ctx, who, id, schemes(req.GetPreferredMessageSchemes()), key)
	if err != nil {
		return nil, err
	}
	doc, err := typedData(typed)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.CreateRevealChallengeResponse{
		IntentId: ch.ID.String(), MessageScheme: string(ch.Scheme), Message: ch.Message, TypedData: doc,
		ExpiresAt: timestamp(ch.ExpiresAt),
	}, nil
}

// RevealCard implements roamcardv1connect.CardServiceHandler. The credentials are not stored.
func (s CardService) RevealCard(
	ctx context.Context, req *roamcardv1.RevealCardRequest,
) (res *roamcardv1.RevealCardResponse, err error) {
	defer func() {
		outcome := "shown"
		if err != nil {
			outcome = "refused"
		}
		s.Metrics.Revealed(ctx, outcome)
	}()
	id, err := cardID(req.GetId())
	if err != nil {
		return nil, err
	}
	intent, err := uuid.Parse(req.GetIntentId())
	if err != nil {
		return nil, rpcx.Invalid("intentId", "string.uuid", "must be a uuid")
	}
	named, err := auth.ParseRecipientKey(req.GetRecipientKey())
	if err != nil {
		return nil, err
	}
	who := rpcx.Caller(ctx)
	key, err := s.Reveals.Reveal(ctx, who, auth.RevealRequest{
		CardID: id, IntentID: intent, Signature: req.GetSignature(), Scheme: auth.Scheme(req.GetMessageScheme()),
		RecipientKey: named,
	})
	if err != nil {
		return nil, err
	}
	res = &roamcardv1.RevealCardResponse{CardId: id.String()}
	if s.Capabilities.Reveal == card.RevealEmbed {
		url, expiresAt, err := s.Links.Link(ctx, id, who.Wallet)
		if err != nil {
			return nil, challengeSpent(err)
		}
		res.Embed = &roamcardv1.CardPage{Url: url.Reveal(), ExpiresAt: timestamp(expiresAt)}
		return res, nil
	}
	credentials, err := s.Credentials.Credentials(ctx, id, who.Wallet)
	if err != nil {
		return nil, challengeSpent(err)
	}
	if key == nil {
		res.Credentials = credentialsMessage(credentials)
		return res, nil
	}
	res.Sealed, err = seal(key, id, credentials)
	return res, err
}

// challengeSpent is what failed once a reveal had its owner's signature: the same request cannot succeed any more.
func challengeSpent(err error) error {
	f, ok := fault.As(err)
	if !ok || f.NextAction == fault.FixRequest {
		return err
	}
	said := *f
	said.Retryable, said.NextAction = false, fault.SignIn
	said.Detail = strings.TrimSpace(said.Detail + " The challenge is spent: ask for another one and sign that.")
	return fmt.Errorf("reveal the card: %w", errors.Join(&said, err))
}

func credentialsMessage(c card.Credentials) *roamcardv1.CardCredentials {
	return &roamcardv1.CardCredentials{
		Number: c.Number.Reveal(), SecurityCode: c.SecurityCode.Reveal(),
		ExpiryMonth: uint32(c.ExpiryMonth), ExpiryYear: uint32(c.ExpiryYear),
	}
}

func seal(key []byte, id uuid.UUID, c card.Credentials) (*roamcardv1.SealedCredentials, error) {
	plain, err := json.Marshal(struct {
		Number       string `json:"number"`
		ExpiryMonth  int    `json:"expiryMonth"`
		ExpiryYear   int    `json:"expiryYear"`
		SecurityCode string `json:"securityCode"`
	}{c.Number.Reveal(), c.ExpiryMonth, c.ExpiryYear, c.SecurityCode.Reveal()})
	if err != nil {
		return nil, fmt.Errorf("marshal the credentials: %w", err)
	}
	defer clear(plain)
	enc, sealed, err := handshake.Seal(key, []byte(handshake.RevealInfo), []byte(id.String()), plain)
	if err != nil {
		return nil, fmt.Errorf("seal the credentials: %w", err)
	}
	return &roamcardv1.SealedCredentials{
		Suite: handshake.SealSuite,
		Enc:   base64.StdEncoding.EncodeToString(enc), Ciphertext: base64.StdEncoding.EncodeToString(sealed),
	}, nil
}

func cardMessage(c card.Card) *roamcardv1.Card {
	m := &roamcardv1.Card{Id: c.ID.String(), Status: string(c.Status), CreatedAt: timestamp(c.CreatedAt)}
	if c.Last4 != "" {
		m.Last4 = proto.String(c.Last4)
	}
	return m
}

// GetCardDiscovery implements roamcardv1connect.CardServiceHandler.
func (s CardService) GetCardDiscovery(
	ctx context.Context, _ *roamcardv1.GetCardDiscoveryRequest,
) (*roamcardv1.GetCardDiscoveryResponse, error) {
	paused, err := s.Availability[card.Kind].Paused(ctx)
	if err != nil {
		return nil, err
	}
	return &roamcardv1.GetCardDiscoveryResponse{
		Paused:          paused,
		Controls:        controlTerms(s.Capabilities),
		ContractVersion: 1,
		Payment:         s.cardTerms(card.Price, "/api/card/purchase"),
		Ownership:       &roamcardv1.CardOwnership{Owner: "payer", CardsPerOwner: 1},
		Issuance: &roamcardv1.CardIssuanceTerms{
			Asynchronous: true, PaymentRequired: true, Public: true,
			CardIssueFeeUsdCents: uint32(card.Fee), ExpectedAvailableAfterIssueUsdCents: uint32(card.Remaining),
			Poll: []string{"GET /api/orders/{orderId}", "GET /api/cards"},
		},
		Credentials: credentialTerms(s.Capabilities),
	}, nil
}

// credentialTerms are how the number and the code of a card reach its owner.
func credentialTerms(of card.Capabilities) *roamcardv1.CardCredentialTerms {
	sealing := "HPKE base mode, " + handshake.SealSuite + "; info \"" + handshake.RevealInfo + "\", aad the card id"
	if of.Reveal == card.RevealEmbed {
		sealing = "none"
	}
	return &roamcardv1.CardCredentialTerms{
		OwnerOnly: true, NoStore: true, FreshSignatureRequired: true,
		Challenge: "POST /api/cards/{id}/reveal-challenge", Reveal: "POST /api/cards/{id}/reveal",
		Sealing: sealing, RevealKind: string(of.Reveal),
	}
}

// cardTerms is how something about cards is paid for.
func (s CardService) cardTerms(price money.Cents, path string) *roamcardv1.CardPaymentTerms {
	return &roamcardv1.CardPaymentTerms{
		Protocol: "x402", X402Version: x402.Version, Scheme: x402.Scheme, Network: s.Terms.Network,
		Asset: s.Terms.Asset.String(), PayTo: s.Terms.PayTo.String(),
		WalletPaymentUsdCents: uint32(price), Amount: price.USDC().String(),
		Method: "POST", Resource: s.BaseURL + path, AccountTypes: s.Terms.AccountTypes(), MaxSubmissionsPerAttempt: 1,
		ClientNote: "The reference clients of x402 refuse payments above $1 by default: set " +
			"spendControls.maxAmountPerPayment (TypeScript) " +
			"or max_amount_per_payment with set_spend_controls (Python) to what you are ready to pay.",
	}
}

// CardView shows the state of the cards of orders.
func CardView(cards IssuedCards) View {
	return func(ctx context.Context, orders []order.Order, messages []*roamcardv1.Order) error {
		ids := make([]order.ID, len(orders))
		for i, o := range orders {
			ids[i] = o.ID
		}
		issued, err := cards.Issued(ctx, ids...)
		if err != nil {
			return err
		}
		for i, o := range orders {
			var latest *card.Card
			if of, ok := issued[o.ID]; ok {
				latest = &of
			}
			messages[i].Issuance = issuance(card.IssuanceOf(o.Status, latest))
		}
		return nil
	}
}

// IssuedCards finds the latest card of each order; an order without one is left out.
type IssuedCards interface {
	Issued(ctx context.Context, orders ...order.ID) (map[order.ID]card.Card, error)
}

func issuance(i card.Issuance) *roamcardv1.Issuance {
	m := &roamcardv1.Issuance{
		Status: string(i.Status), CardIssueFeeUsdCents: uint32(i.Fee),
		ExpectedAvailableAfterIssueUsdCents: uint32(i.Expected),
	}
	if i.Card != uuid.Nil {
		m.CardId = proto.String(i.Card.String())
	}
	return m
}

// DescribeCards shows the terms of cards.
func DescribeCards(ctx context.Context, on availability.Product, res *roamcardv1.GetConfigResponse) (err error) {
	c := cardConfig(res)
	c.WalletPaymentUsdCents, c.CardIssueFeeUsdCents = uint32(card.Price), uint32(card.Fee)
	c.ExpectedAvailableAfterIssueUsdCents = uint32(card.Remaining)
	c.IssuePaused, err = on.Paused(ctx)
	return err
}

// cardConfig is what the configuration shows of cards and of what is done with them.
func cardConfig(res *roamcardv1.GetConfigResponse) *roamcardv1.CardConfig {
	if res.Card == nil {
		res.Card = &roamcardv1.CardConfig{}
	}
	return res.Card
}
