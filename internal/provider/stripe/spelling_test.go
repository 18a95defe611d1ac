package stripe

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/provider/wire/wiretest"
)

// whole is an answer that says whether it is one.
type whole[A any] interface {
	*A
	whole() error
}

// read decodes an answer and reads it.
func read[A any, P whole[A]](of func(P) (any, error)) func(body []byte) (any, error) {
	return func(body []byte) (any, error) {
		a := P(new(A))
		if err := json.Unmarshal(body, a); err != nil {
			return nil, err
		}
		if err := a.whole(); err != nil {
			return nil, err
		}
		return of(a)
	}
}

// TestAnswersMeanTheSameInEveryForm reads answers in all forms that their values can have.
func TestAnswersMeanTheSameInEveryForm(t *testing.T) {
	const name = "5f1c6f8e-0c51-4a5a-9b55-0e5a3f0a3f11"
	words := []string{"status", "currency", "country", "type", "interval", "spending_limits_currency", "reason"}
	for what, c := range map[string]struct {
		answer string
		read   func(body []byte) (any, error)
	}{
		"a card": {
			`{"id":"ic_1","object":"issuing.card","created":1795230245,"currency":"usd","last4":"1234","status":"active",` +
				`"metadata":{"` + keyRef + `":"` + name + `","` + keyLoad + `":"1500"},"spending_controls":{` +
				`"spending_limits":[{"amount":1500,"categories":[],"interval":"` + allTime + `"}],` +
				`"spending_limits_currency":"usd","allowed_categories":null}}`,
			read(func(a *cardAnswer) (any, error) {
				account, err := a.account(fulfilment.Ref(uuid.MustParse(name)))
				if err != nil {
					return nil, err
				}
				limit, err := a.limit()
				return []any{account, limit, a.created()}, err
			}),
		},
		"a transaction": {
			`{"id":"ipi_1","object":"issuing.transaction","created":1795230245,"currency":"usd","card":"ic_1","amount":-250,` +
				`"type":"capture","authorization":null,"merchant_data":{"name":"A shop","category":"bakeries",` +
				`"category_code":"5462","country":"FR"}}`,
			read(func(a *transactionAnswer) (any, error) { return a.read("ic_1") }),
		},
		"an authorization": {
			`{"id":"iauth_1","object":"issuing.authorization","created":1795230245,"currency":"usd","card":{"id":"ic_1",` +
				`"last4":1234},"amount":0,"approved":false,"status":"closed","request_history":[{"amount":250,` +
				`"approved":false,"reason":"card_inactive"}],"transactions":[]}`,
			read(func(a *authorizationAnswer) (any, error) { return a.read("ic_1") }),
		},
		"a balance": {
			`{"object":"balance","issuing":{"available":[{"amount":5,"currency":"eur"},{"amount":1500,"currency":"usd"}]}}`,
			read(func(a *balanceAnswer) (any, error) { return a.dollars() }),
		},
		"a list": {
			`{"object":"list","data":[],"has_more":false}`,
			read(func(a *listAnswer[*cardAnswer]) (any, error) { return bool(*a.More), nil }),
		},
		"a holder": {
			`{"id":"ich_1","object":"issuing.cardholder","status":"active","name":"A Person","billing":{"address":{` +
				`"line1":"1 Street","city":"Paris","postal_code":"75001","country":"FR"}},"requirements":null}`,
			read(func(a *holderAnswer) (any, error) {
				billing, err := a.billing()
				if err != nil {
					return nil, err
				}
				return billing, a.usable()
			}),
		},
	} {
		t.Run(what, func(t *testing.T) {
			wiretest.ReadsAlike(t, c.answer, words, c.read)
		})
	}
}
