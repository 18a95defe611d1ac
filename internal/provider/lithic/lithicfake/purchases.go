package lithicfake

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/vendorfake"
)

// Purchase is what a merchant charged to a card or gave back, or tried to: a card transaction in the books.
type Purchase struct {
	Token, Card string
	// Status and Polarity are the vendor's; Result is that of the whole, and Why that of its one event.
	Status, Polarity, Result, Why string
	Amount                        int64
	Merchant                      Merchant
	Created                       time.Time

	event string
}

// Merchant is whom a card was used at, with its country in three letters.
type Merchant struct{ Name, Category, Country string }

// AShop is where cards are used that nobody names a merchant for.
var AShop = Merchant{Name: "A SHOP", Category: "5999", Country: "USA"}

// Charge is a merchant's attempt at a card: declined where the card is not open, is limited, or has not enough.
func (s *Server) Charge(card string, cents int64, at Merchant) Purchase {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.find(card)
	p := &Purchase{Card: card, Polarity: "DEBIT", Amount: cents, Merchant: at}
	switch {
	case c.State == "PAUSED":
		p.Result, p.Why = "CARD_PAUSED", "CARD_PAUSED"
	case c.State != "OPEN":
		p.Result, p.Why = "CARD_CLOSED", "CARD_CLOSED"
	case s.limited(c, cents):
		p.Result, p.Why = "DECLINED", "CARD_SPEND_LIMIT_EXCEEDED"
	case c.Balance < cents:
		p.Result, p.Why = "INSUFFICIENT_FUNDS", "INSUFFICIENT_FUNDS"
	}
	return *s.used(c, p)
}

// limited reports whether a purchase is beyond the card's limit. Its month is the trailing one, and begins six days
// after this day of the month before.
func (s *Server) limited(c *Card, cents int64) bool {
	from := time.Time{}
	switch {
	case c.Limit == 0:
		return false
	case c.Duration == "TRANSACTION":
		return cents > c.Limit
	case c.Duration == "MONTHLY":
		from = s.now().AddDate(0, -1, 6)
	case c.Duration == "ANNUALLY":
		from = s.now().AddDate(-1, 0, 0)
	}
	for _, p := range s.purchases {
		if p.Card == c.Token && p.Polarity == "DEBIT" && p.Status != "DECLINED" && p.Created.After(from) {
			cents += p.Amount
		}
	}
	return cents > c.Limit
}

// Hold is a merchant's hold of a part of a card's balance. What is returned ends it: the merchant takes it, or does
// not.
func (s *Server) Hold(token string, cents int64) (release func(taken bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.find(token)
	p := s.used(c, &Purchase{Card: token, Polarity: "DEBIT", Amount: cents, Merchant: AShop})
	p.Status = "PENDING"
	c.Held += cents
	return func(taken bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.Held -= cents
		if p.Status = "SETTLED"; !taken {
			p.Status = "VOIDED"
			c.Balance += cents
		}
	}
}

// Spend takes an amount off a card, as a merchant does: also more than is on it.
func (s *Server) Spend(token string, cents int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used(s.find(token), &Purchase{Card: token, Polarity: "DEBIT", Amount: cents, Merchant: AShop})
}

// Return gives an amount back to a card.
func (s *Server) Return(token string, cents int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used(s.find(token), &Purchase{Card: token, Polarity: "CREDIT", Amount: cents, Merchant: AShop})
}

// EditPurchase changes what the books say of a purchase, and nothing of its card.
func (s *Server) EditPurchase(token string, how func(*Purchase)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how(s.purchases[slices.IndexFunc(s.purchases, func(p *Purchase) bool { return p.Token == token })])
}

// Purchases are all that were tried with cards, the oldest first.
func (s *Server) Purchases() []Purchase {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Purchase, len(s.purchases))
	for n, p := range s.purchases {
		all[n] = *p
	}
	return all
}

// used books a purchase, settled at once unless it has a reason not to.
func (s *Server) used(c *Card, p *Purchase) *Purchase {
	p.Token, p.event, p.Created = uuid.NewString(), uuid.NewString(), s.now().UTC()
	if p.Status = "DECLINED"; p.Why == "" {
		p.Status, p.Result, p.Why = "SETTLED", "APPROVED", "APPROVED"
		if p.Polarity == "CREDIT" {
			c.Balance += p.Amount
		} else {
			c.Balance -= p.Amount
		}
	}
	s.purchases = append(s.purchases, p)
	s.happened("card_transaction.updated", map[string]any{"token": p.Token, "card_token": c.Token})
	return p
}

// show is a purchase on the wire. What is spent is negative where it is held, as in the vendor's example.
func (p *Purchase) show() map[string]any {
	inUSD := func(cents int64) map[string]any { return map[string]any{"amount": cents, "currency": "USD"} }
	rated := func(cents int64) map[string]any {
		return map[string]any{"amount": cents, "currency": "USD", "conversion_rate": "1.000000"}
	}
	sign := int64(1)
	if p.Polarity == "CREDIT" {
		sign = -1
	}
	held, settled, kind := int64(0), int64(0), "AUTHORIZATION"
	switch p.Status {
	case "PENDING":
		held = -sign * p.Amount
	case "SETTLED":
		settled = sign * p.Amount
	}
	event := map[string]any{"cardholder": rated(sign * p.Amount), "merchant": inUSD(sign * p.Amount), "settlement": nil}
	if p.Polarity == "CREDIT" {
		kind = "RETURN"
	}
	if settled != 0 {
		event["settlement"] = rated(settled)
	}
	return map[string]any{
		"token": p.Token, "account_token": Account, "card_token": p.Card, "acquirer_fee": 0,
		"acquirer_reference_number": nil, "amount": sign * p.Amount, "authorization_amount": sign * p.Amount,
		"amounts": map[string]any{
			"cardholder": rated(settled), "hold": inUSD(held), "merchant": inUSD(settled), "settlement": inUSD(settled),
		},
		"authorization_code": "071471", "avs": nil, "cardholder_authentication": nil, "created": stamp(p.Created),
		"financial_account_token": p.Card, "merchant": map[string]any{
			"acceptor_id": "452322000053360", "acquiring_institution_id": "333301802529120", "city": "Dover",
			"country": p.Merchant.Country, "descriptor": p.Merchant.Name, "mcc": p.Merchant.Category, "state": "DE",
			"postal_code": "19901", "street_address": nil, "phone_number": nil,
		},
		"service_location": nil, "merchant_amount": sign * p.Amount, "merchant_authorization_amount": sign * p.Amount,
		"merchant_currency": "USD", "network": "VISA", "network_risk_score": nil, "pos": pos(), "result": p.Result,
		"settled_amount": settled, "status": p.Status, "tags": map[string]any{}, "token_info": nil,
		"updated": stamp(p.Created), "events": []map[string]any{{
			"token": p.event, "amount": sign * p.Amount, "amounts": event, "created": stamp(p.Created), "type": kind,
			"detailed_results": []string{p.Why}, "effective_polarity": p.Polarity, "network_info": nil,
			"result": p.Result, "rule_results": []any{},
		}},
	}
}

// pos is how the number was entered: on a page.
func pos() any {
	return map[string]any{
		"entry_mode": map[string]any{
			"card": "NOT_PRESENT", "cardholder": "NOT_PRESENT", "pan": "ECOMMERCE", "pin_entered": false,
		},
		"terminal": map[string]any{
			"attended": false, "card_retention_capable": false, "on_premise": false, "operator": "UNKNOWN",
			"partial_approval_capable": false, "pin_capability": "NOT_CAPABLE", "type": "UNKNOWN",
		},
	}
}

// getTransactions lists what cards were used for, the latest first.
func (s *Server) getTransactions(r *http.Request, _ []byte) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := r.URL.Query().Get("card_token")
	var all []map[string]any
	for _, p := range slices.Backward(s.purchases) {
		if of == "" || of == p.Card {
			all = append(all, p.show())
		}
	}
	return s.page(r, all)
}

// postCharge plays a merchant, for this machine.
func (s *Server) postCharge(c vendorfake.Call) (any, error) {
	var asked struct {
		Amount                      int64 `json:"amountCents"`
		Merchant, Category, Country string
	}
	if vendorfake.Read(c.Body, &asked) != nil || asked.Amount <= 0 {
		return nil, invalid("amountCents is an amount")
	}
	token := c.PathValue("token")
	s.mu.Lock()
	known := s.find(token) != nil
	s.mu.Unlock()
	if !known {
		return nil, absent()
	}
	p := s.Charge(token, asked.Amount, Merchant{
		cmp.Or(asked.Merchant, AShop.Name), cmp.Or(asked.Category, AShop.Category), cmp.Or(asked.Country, AShop.Country),
	})
	return p.show(), nil
}
