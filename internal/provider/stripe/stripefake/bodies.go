package stripefake

import "time"

func (s *Server) cardBody(c *Card) any {
	limits := []any{}
	for _, l := range c.Limits {
		categories := []string{}
		limits = append(limits, map[string]any{
			"amount": l.Amount, "interval": l.Interval, "categories": append(categories, l.Categories...),
		})
	}
	named := func(names []string) any { // as the vendor shows none
		if len(names) == 0 {
			return nil
		}
		return names
	}
	metadata := map[string]string{}
	for key, value := range c.Metadata {
		metadata[key] = value
	}
	return map[string]any{
		"id": c.ID, "object": "issuing.card", "brand": "Visa", "cancellation_reason": nil, "cardholder": s.holderBody(),
		"created": c.Created, "currency": currency, "exp_month": 12, "exp_year": time.Unix(c.Created, 0).UTC().Year() + 3,
		"last4": c.Last4, "latest_fraud_warning": nil, "lifecycle_controls": nil, "livemode": false,
		"metadata": metadata, "personalization_design": nil, "replaced_by": nil, "replacement_for": nil,
		"replacement_reason": nil, "second_line": nil, "shipping": nil, "status": c.Status, "type": "virtual",
		"spending_controls": map[string]any{
			"allowed_categories": named(c.Allowed), "allowed_merchant_countries": nil, "blocked_categories": named(c.Blocked),
			"blocked_merchant_countries": nil, "spending_limits": limits, "spending_limits_currency": currency,
		},
		"wallets": map[string]any{
			"apple_pay":                  map[string]any{"eligible": false, "ineligible_reason": "missing_agreement"},
			"google_pay":                 map[string]any{"eligible": false, "ineligible_reason": "missing_agreement"},
			"primary_account_identifier": nil,
		},
	}
}

func (s *Server) holderBody() any {
	requirements := map[string]any{"disabled_reason": nil, "past_due": []any{}}
	if s.books.Disabled != "" {
		requirements["disabled_reason"] = s.books.Disabled
	}
	return map[string]any{
		"id": s.cardholder, "object": "issuing.cardholder", "company": map[string]any{"tax_id_provided": true},
		"billing": map[string]any{"address": map[string]any{
			"city": "Dover", "country": "US", "line1": "1 Programme Street", "line2": nil, "postal_code": "19901",
			"state": "DE",
		}},
		"created": 1_700_000_000, "email": text(s.books.Email), "individual": nil, "livemode": false,
		"metadata": map[string]any{}, "name": "Programme Inc", "phone_number": text(s.books.Phone),
		"preferred_locales": []any{},
		"requirements":      requirements, "spending_controls": nil, "status": s.books.Holder, "type": "company",
	}
}

// text is null where it is empty.
func text(of string) any {
	if of == "" {
		return nil
	}
	return of
}

// body is the merchant on the wire.
func (m Merchant) body() any {
	return map[string]any{
		"category": m.category(), "category_code": m.Category, "city": "Dover",
		"country": m.Country, "name": m.Name, "network_id": "1234567890", "postal_code": "19901", "state": "DE",
		"tax_id": nil, "terminal_id": nil, "url": nil,
	}
}

func (s *Server) authorizationBody(a *Authorization) any {
	captures := []any{}
	for _, t := range s.books.Transactions {
		if t.Authorization == a.ID {
			captures = append(captures, s.transactionBody(t))
		}
	}
	return map[string]any{
		"id": a.ID, "object": "issuing.authorization", "amount": a.Amount, "amount_details": nil, "approved": a.Approved,
		"authorization_method": "online", "balance_transactions": []any{}, "card": s.cardBody(s.must(a.Card)),
		"cardholder": s.cardholder, "created": a.Created, "currency": currency, "fleet": nil, "fuel": nil,
		"livemode": false, "merchant_amount": a.Amount, "merchant_currency": currency,
		"merchant_data": a.Merchant.body(), "metadata": map[string]any{}, "network_data": nil, "pending_request": nil,
		"request_history": []any{map[string]any{
			"amount": a.Asked, "amount_details": nil, "approved": a.Approved, "authorization_code": nil, "created": a.Created,
			"currency": currency, "merchant_amount": a.Asked, "merchant_currency": currency, "network_risk_score": nil,
			"reason": a.Reason, "reason_message": nil, "requested_at": a.Created,
		}},
		"status": a.Status, "transactions": captures, "verification_data": map[string]any{
			"address_line1_check": "not_provided", "address_postal_code_check": "not_provided",
			"authentication_exemption": nil, "cvc_check": "match", "expiry_check": "match", "postal_code": nil,
			"three_d_secure": nil,
		},
		"verified_by_fraud_challenge": nil, "wallet": nil,
	}
}

func (s *Server) transactionBody(t *Transaction) any {
	body := map[string]any{
		"id": t.ID, "object": "issuing.transaction", "amount": t.Amount, "amount_details": nil, "authorization": nil,
		"balance_transaction": nil, "card": t.Card, "cardholder": s.cardholder, "created": t.Created,
		"currency": currency, "dispute": nil, "livemode": false, "merchant_amount": t.Amount,
		"merchant_currency": currency, "merchant_data": aShop.body(), "metadata": map[string]any{}, "network_data": nil,
		"type": t.Type, "wallet": nil,
	}
	if t.Authorization != "" {
		body["authorization"] = t.Authorization
	}
	return body
}
