package lithic

import (
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/provider/wire/wiretest"
)

// TestAnswersMeanTheSameInEveryForm reads answers in all forms that their values can have.
func TestAnswersMeanTheSameInEveryForm(t *testing.T) {
	const one, other = "5f1c6f8e-0c51-4a5a-9b55-0e5a3f0a3f11", "7f1c6f8e-0c51-4a5a-9b55-0e5a3f0a3f12"
	for name, c := range map[string]struct {
		answer string
		words  []string
		read   func(body []byte) (any, error)
	}{
		"a transfer": {
			`{"token":"` + one + `","status":"SETTLED","result":"APPROVED","currency":"USD","settled_amount":2500,` +
				`"from_financial_account_token":"` + one + `","to_financial_account_token":"` + other + `",` +
				`"events":[{"amount":2500,"memo":"` + string(load) + `","detailed_results":["APPROVED"]}]}`,
			[]string{"status", "result", "currency", "detailed_results"},
			func(body []byte) (any, error) {
				var a transferAnswer
				if err := wire.Decode(body, &a); err != nil {
					return nil, err
				}
				return a.read()
			},
		},
		"a declined transaction": {
			`{"token":"` + one + `","card_token":"` + other + `","status":"DECLINED","result":"DECLINED",` +
				`"created":"2026-11-21T03:04:05Z","amounts":{"cardholder":{"amount":100,"currency":"USD"},` +
				`"hold":{"amount":0,"currency":"USD"},"settlement":{"amount":0,"currency":"USD"}},` +
				`"merchant":{"descriptor":"A shop","mcc":"5411","country":"USA"},"events":[{"effective_polarity":"DEBIT",` +
				`"result":"CARD_PAUSED","detailed_results":["CARD_PAUSED"],` +
				`"amounts":{"cardholder":{"amount":100,"currency":"USD"}}}]}`,
			[]string{"status", "result", "currency", "country", "effective_polarity", "detailed_results"},
			func(body []byte) (any, error) {
				var a transactionAnswer
				if err := wire.Decode(body, &a); err != nil {
					return nil, err
				}
				return a.read(uuid.MustParse(other))
			},
		},
		"balances": {
			`{"data":[{"available_amount":-100,"pending_amount":5,"total_amount":-95,"currency":"USD"}],"has_more":false}`,
			[]string{"currency"},
			func(body []byte) (any, error) {
				var a list[balanceAnswer]
				if err := wire.Decode(body, &a); err != nil {
					return nil, err
				}
				b := (*a.Data)[0]
				return []any{a.complete(), bool(*a.HasMore), *b.Available, *b.Pending, *b.Total, b.Currency == currencyUSD}, nil
			},
		},
		"a card": {
			`{"token":"` + one + `","card_program_token":"` + other + `","state":"OPEN","substatus":null,"last_four":"1234",` +
				`"memo":"` + memo{load: 1500}.String() + `","spend_limit":0,"spend_limit_duration":"TRANSACTION"}`,
			[]string{"state", "spend_limit_duration"},
			func(body []byte) (any, error) {
				var a cardAnswer
				if err := wire.Decode(body, &a); err != nil {
					return nil, err
				}
				f, err := a.read()
				if err != nil {
					return nil, err
				}
				return []any{f.unloaded(), *f.limit, f.duration}, err
			},
		},
		"a card's number": {
			`{"token":"` + one + `","last_four":"1111","pan":"4111111111111111","cvv":"123","exp_month":7,` +
				`"exp_year":2030}`, nil,
			func(body []byte) (any, error) {
				var a sensitiveAnswer
				if err := wire.Decode(body, &a); err != nil {
					return nil, err
				}
				c, err := a.read(uuid.MustParse(one))
				return []any{c.Number.Reveal(), c.SecurityCode.Reveal(), c.ExpiryMonth, c.ExpiryYear}, err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wiretest.ReadsAlike(t, c.answer, c.words, c.read)
		})
	}
}
