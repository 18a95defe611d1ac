package roamcardtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// openFor is how long an unpaid order can be paid, deliveryTime how long a delivery token opens an order.
	openFor      = 30 * time.Minute
	deliveryTime = 30 * 24 * time.Hour
)

// unsigned is a receipt by nobody: what proves something is the service's.
const unsigned = "e30.e30."

// order is one that was made; it is fulfilled once it was paid and looked at.
type order struct {
	id, operation, kind, status, planID, delivery string
	cents                                         int64
	owner                                         x402.Address
	created                                       time.Time
	payment                                       *Transfer
	card                                          *card
	// cancelled says that its eSIM was given back.
	cancelled bool
	// of is the eSIM that more data is for, and addedMB the data that was added to this one.
	of      *order
	addedMB int64
}

type card struct {
	id      string
	cents   int64
	created time.Time
	frozen  bool
	// limits are those that its owner has set, as they were sent.
	limits map[string]any
}

// usable says that there is a card, and that it is not frozen.
func (c *card) usable() bool { return c != nil && !c.frozen }

// id makes a name that no other one has.
func (s *Service) id(what string) string {
	s.counter++
	sum := sha256.Sum256([]byte(what + strconv.Itoa(s.counter)))
	h := hex.EncodeToString(sum[:])
	return fmt.Sprintf("%s-%s-4%s-8%s-%s", h[:8], h[8:12], h[13:16], h[17:20], h[20:32])
}

func (s *Service) stamp(later time.Duration) string {
	return s.now().Add(later).UTC().Format(time.RFC3339Nano)
}

func (s *Service) create(p purchase, owner x402.Address) *order {
	o := &order{
		id: "ord_" + strings.ReplaceAll(s.id("order"), "-", ""), operation: s.id("operation"), kind: p.kind,
		status: "payment_required",
		planID: p.planID, cents: p.cents, owner: owner, created: s.now(), of: p.of,
	}
	s.orders = append(s.orders, o)
	return o
}

func (s *Service) order(id string) *order {
	for _, o := range s.orders {
		if o.id == id {
			return o
		}
	}
	return nil
}

// pay gives what a payment bought; an eSIM at once, and the rest by the next look.
func (s *Service) pay(o *order, moved Transfer) {
	o.payment, o.status = &moved, "settled"
	switch o.kind {
	case "card_issue":
		o.card = &card{id: s.id("card"),
			cents:   s.published.Config.Card.WalletPaymentUSDCents - s.published.Config.Card.CardIssueFeeUSDCents,
			created: s.now()}
		s.cards[o.owner] = o.card
	case "card_topup":
		s.cards[o.owner].cents += o.cents - s.fee(o)
	case "esim_topup":
		o.status = "fulfilled"
		added, _ := s.plan(o.planID)
		o.of.addedMB += added.DataMB
	case "esim":
		o.status = "fulfilled"
	}
}

func (s *Service) fee(o *order) int64 { return o.cents * s.published.Config.Card.LoadFeeBps / 10_000 }

// look shows an order to who owns it; what was on its way has come.
func (s *Service) look(o *order) map[string]any {
	if o.status == "settled" {
		o.status = "fulfilled"
	}
	return s.show(o)
}

func (s *Service) show(o *order) map[string]any {
	shown := map[string]any{
		"orderId": o.id, "operationId": o.operation, "kind": o.kind, "status": o.status, "amountUsdCents": o.cents,
		"createdAt": o.created.UTC().Format(time.RFC3339Nano), "updatedAt": o.created.UTC().Format(time.RFC3339Nano),
	}
	if p := o.payment; p != nil {
		shown["updatedAt"] = p.At.UTC().Format(time.RFC3339Nano)
		shown["payment"] = map[string]any{
			"payer": p.Payer, "network": x402.NetworkID, "asset": s.published.Config.Network.Asset,
			"amount":      strconv.FormatInt(p.Amount, 10),
			"transaction": p.Transaction, "settledAt": p.At.UTC().Format(time.RFC3339Nano),
		}
	} else {
		shown["payable_url"] = s.origin + "/pay/" + o.id
		shown["expiresAt"] = o.created.Add(openFor).UTC().Format(time.RFC3339Nano)
	}
	if o.payment != nil && o.status == "fulfilled" {
		shown["receipt"] = unsigned
	}
	stands := map[string]string{"payment_required": "unpaid", "settled": "queued", "fulfilled": ""}[o.status]
	done := func(as string) string {
		if stands == "" {
			return as
		}
		return stands
	}
	terms := s.published.Config.Card
	switch o.kind {
	case "card_issue":
		issuance := map[string]any{
			"status": done("active"), "cardIssueFeeUsdCents": terms.CardIssueFeeUSDCents,
			"expectedAvailableAfterIssueUsdCents": terms.WalletPaymentUSDCents - terms.CardIssueFeeUSDCents,
		}
		if o.status == "fulfilled" {
			issuance["cardId"] = o.card.id
		}
		shown["issuance"] = issuance
	case "card_topup":
		shown["topup"] = map[string]any{
			"status": done("credited"), "grossUsdCents": o.cents, "loadFeeUsdCents": s.fee(o),
			"cardCreditUsdCents": o.cents - s.fee(o),
		}
	case "esim_topup":
		added, _ := s.plan(o.planID)
		shown["esimTopup"] = map[string]any{
			"status": done("fulfilled"), "orderId": o.of.id, "planId": o.planID, "planName": added.Name,
			"dataMb": added.DataMB, "unlimited": false, "validityDays": added.ValidityDays,
		}
	case "esim":
		bought, _ := s.plan(o.planID)
		shown["delivery"] = map[string]any{
			"status": done("fulfilled"), "planId": o.planID, "planName": bought.Name,
		}
	}
	return shown
}

// serveOwner answers what only the owner may ask.
func (s *Service) serveOwner(c call) answer {
	if c.method == "EsimService/GetEsimOrder" || c.method == "EsimService/GetEsimCredentials" ||
		c.method == "EsimService/GetEsimProfile" || c.method == "EsimService/ListEsimTopups" {
		if o := s.order(c.text("orderId")); o != nil && o.delivery != "" &&
			c.header.Get("X-Esim-Delivery-Token") == o.delivery {
			return s.serveESIM(c, o)
		}
	}
	token, in := s.signedIn(c)
	if !in {
		a := c.problem("session_invalid", "Sign in first.")
		a.header = one("WWW-Authenticate", "Bearer")
		return a
	}
	wallet := token.wallet
	switch c.method {
	case "AuthService/GetSession":
		return c.ok(map[string]any{"wallet": wallet.String(), "scopes": scopes,
			"expiresAt": token.expires.UTC().Format(time.RFC3339Nano)})
	case "AuthService/Logout":
		delete(s.sessions, bearer(c))
		return c.ok(map[string]any{"revoked": true})
	case "OrderService/ListOrders":
		return s.listOrders(c, wallet)
	case "OrderService/GetOrder", "EsimService/GetEsimOrder", "EsimService/GetEsimCredentials",
		"EsimService/GetEsimProfile", "EsimService/CancelEsim", "EsimService/ListEsimTopups",
		"EsimService/RotateEsimToken":
		o := s.order(c.text("orderId"))
		if o == nil || o.owner != wallet {
			return c.problem("order_not_found", "There is no such order.")
		}
		return s.serveESIM(c, o)
	case "CardService/ListCards", "CardService/GetCardBalance", "CardService/FreezeCard", "CardService/UnfreezeCard",
		"CardService/ListCardTransactions", "CardService/GetCardLimits", "CardService/SetCardLimits",
		"CardService/GetCardDetails":
		return s.serveCard(c, s.cards[wallet])
	case "CardService/CreateCardOrder", "OrderService/CreateOrder", "EsimService/CreateEsimOrder":
		return s.createUnpaid(c, wallet)
	}
	return c.problem("route_not_found", "The fake does not serve it.")
}

// serveESIM answers with an order, or with the eSIM that it bought.
func (s *Service) serveESIM(c call, o *order) answer {
	if !strings.HasPrefix(c.method, "EsimService/") || c.method == "EsimService/GetEsimOrder" {
		return c.ok(map[string]any{"order": s.look(o)})
	}
	if o.kind != "esim" || o.status != "fulfilled" {
		return c.problem("order_not_fulfilled", "The order has no eSIM.")
	}
	switch {
	case c.method == "EsimService/GetEsimProfile":
		return c.ok(map[string]any{"profile": s.profile(o)})
	case c.method == "EsimService/RotateEsimToken":
		return c.ok(map[string]any{"delivery": s.deliver(o)})
	case c.method == "EsimService/CancelEsim" && o.addedMB > 0:
		return c.problemOn(o, "esim_topped_up", "More data was bought for the eSIM.")
	case c.method == "EsimService/CancelEsim":
		shown := s.cancellation(o)
		o.cancelled = true
		return c.ok(map[string]any{"cancellation": shown})
	case o.cancelled:
		return c.problem("esim_cancelled", "The eSIM was cancelled.")
	case c.method == "EsimService/ListEsimTopups":
		all, _ := s.published.all["plans"].([]any)
		taken := []any{}
		for _, at := range s.taken() {
			taken = append(taken, all[at])
		}
		return c.ok(map[string]any{"plans": taken})
	}
	return c.ok(map[string]any{"credentials": s.published.raw("esim")})
}

// profile is the eSIM of an order, which nobody installs.
func (s *Service) profile(o *order) map[string]any {
	if o.cancelled {
		return map[string]any{
			"orderId": o.id, "status": "cancelled", "readAt": s.stamp(0), "cancellation": s.cancellation(o),
		}
	}
	return map[string]any{
		"orderId": o.id, "status": "not_installed", "readAt": s.stamp(0), "expiresAt": s.stamp(180 * 24 * time.Hour),
		"usage": map[string]any{"usedBytes": "0", "totalBytes": strconv.FormatInt((500+o.addedMB)<<20, 10),
			"measuredAt": s.stamp(0)},
	}
}

// cancellation of an order's eSIM is done by the second look. The supplier grants all that was paid.
func (s *Service) cancellation(o *order) map[string]any {
	shown := map[string]any{"orderId": o.id, "status": "cancelling", "since": s.stamp(0)}
	if o.cancelled {
		shown["status"], shown["refundAmount"] = "refunded", strconv.FormatInt(o.payment.Amount, 10)
		shown["transaction"] = "0x" + strings.Repeat("f", 64)
	}
	return shown
}

func (s *Service) serveCard(c call, held *card) answer {
	if c.method == "CardService/ListCards" {
		cards := []any{}
		if held != nil {
			cards = append(cards, held.show())
		}
		return c.ok(map[string]any{"cards": cards})
	}
	if held == nil || held.id != c.text("id") {
		return c.problem("card_not_found", "There is no such card.")
	}
	switch c.method {
	case "CardService/FreezeCard", "CardService/UnfreezeCard":
		held.frozen = c.method == "CardService/FreezeCard"
		return c.ok(map[string]any{"card": held.show()})
	case "CardService/ListCardTransactions":
		return c.ok(map[string]any{"cardId": held.id, "currency": "USD", "transactions": []any{}})
	case "CardService/GetCardDetails":
		return c.ok(map[string]any{"details": held.showDetails()})
	case "CardService/GetCardLimits":
		return c.ok(map[string]any{"limits": held.showLimits()})
	case "CardService/SetCardLimits":
		limits := map[string]any{}
		for _, name := range []string{
			"perTransactionUsdCents", "perMonthUsdCents", "allowedCategories", "blockedCategories",
		} {
			if value, given := c.asked[name]; given {
				limits[name] = value
			}
		}
		allowed, _ := limits["allowedCategories"].([]any)
		blocked, _ := limits["blockedCategories"].([]any)
		if len(allowed) > 0 && len(blocked) > 0 {
			return c.problem("schema_invalid", "allowedCategories and blockedCategories cannot be given both.")
		}
		held.limits = limits
		return c.ok(map[string]any{"limits": held.showLimits()})
	}
	if held.frozen {
		told := c.problem("card_not_active", "The card is FROZEN. Unfreeze it first.")
		told.body["retryable"], told.body["nextAction"] = false, "fix_request"
		return told
	}
	return c.ok(map[string]any{"cardId": held.id, "availableUsdCents": held.cents, "currency": "USD", "asOf": s.stamp(0)})
}

// showDetails are those of the service's sandbox.
func (c *card) showDetails() map[string]any {
	return map[string]any{
		"cardId": c.id, "threeDSecure": map[string]any{"method": "automatic"},
		"billingAddress": map[string]any{
			"name": "Sandbox Programme", "line1": "1 Example Street", "line2": "Suite 100", "city": "Dover", "region": "DE",
			"postalCode": "19901", "country": "US",
		},
	}
}

func (c *card) showLimits() map[string]any {
	shown := map[string]any{
		"cardId": c.id, "currency": "USD", "allowedCategories": []any{}, "blockedCategories": []any{},
	}
	maps.Copy(shown, c.limits)
	return shown
}

func (c *card) show() map[string]any {
	status := roamcard.CardActive
	if c.frozen {
		status = roamcard.CardFrozen
	}
	return map[string]any{"id": c.id, "status": status, "last4": "4242",
		"createdAt": c.created.UTC().Format(time.RFC3339Nano)}
}

func (s *Service) listOrders(c call, wallet x402.Address) answer {
	shown, kind := []any{}, c.text("kind")
	for _, o := range slices.Backward(s.orders) {
		if o.owner == wallet && (c.text("status") != "active" || o.status != "fulfilled") &&
			(kind == "" || kind == o.kind) {
			shown = append(shown, s.look(o))
		}
	}
	return c.ok(map[string]any{"orders": shown})
}

// createUnpaid creates an order that is paid later; the same key gives the same one.
func (s *Service) createUnpaid(c call, wallet x402.Address) answer {
	p, refused := s.priced(c, purchase{}, c.method)
	switch {
	case refused != nil:
		return *refused
	case p.kind == "card_issue" && s.cards[wallet] != nil:
		return c.problem("card_already_exists", "The wallet already has a card.")
	case p.kind == "card_topup" && !s.cards[wallet].usable():
		return c.problem("active_card_missing", "The wallet has no active card.")
	}
	name := "open " + p.kind + " " + wallet.Lower() + " " + c.header.Get("Idempotency-Key")
	o := s.bought[name]
	if o != nil && !p.same(o) {
		return c.problem("idempotency_key_reused", "The key belongs to another request.")
	}
	if o == nil {
		o = s.create(p, wallet)
		s.bought[name] = o
	}
	shown := s.look(o)
	if p.kind == "esim" {
		offer := s.offer(p)
		shown["paymentRequirements"] = map[string]any{
			"x402Version": x402.Version, "scheme": offer.Scheme, "network": offer.Network, "asset": offer.Asset,
			"amount": offer.Amount,
			"payTo":  offer.PayTo, "resource": s.origin + "/pay/" + o.id, "maxTimeoutSeconds": offer.MaxTimeoutSeconds,
		}
	}
	return c.ok(map[string]any{"order": shown})
}

// plan is a plan by its id, the cheapest when id is empty.
func (s *Service) plan(id string) (found plan, ok bool) {
	for _, p := range s.published.Plans {
		if p.PlanID == id || id == "" && (!ok || p.PriceUSDCents < found.PriceUSDCents) {
			found, ok = p, true
		}
	}
	return found, ok
}

func (s *Service) listPlans(c call) answer {
	all, _ := s.published.all["plans"].([]any)
	kept := []any{}
	for i, p := range s.published.Plans {
		country, kind := c.text("countryCode"), c.text("type")
		if (country == "" || slices.Contains(p.CountryCodes, country)) && (kind == "" || p.Type == kind) {
			kept = append(kept, all[i])
		}
	}
	return c.ok(map[string]any{"plans": kept})
}
