package sandbox

import (
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/provider/wire/wiretest"
)

// decoded decodes an answer and reads it.
func decoded[A, T any](of func(A) (T, error)) func(body []byte) (any, error) {
	return func(body []byte) (any, error) {
		var a A
		if err := wire.Decode(body, &a); err != nil {
			return nil, err
		}
		return of(a)
	}
}

// TestAnswersMeanTheSameInEveryForm reads answers in all forms that their values can have.
func TestAnswersMeanTheSameInEveryForm(t *testing.T) {
	const name = "5f1c6f8e-0c51-4a5a-9b55-0e5a3f0a3f11"
	ref := fulfilment.Ref(uuid.MustParse(name))
	words := []string{"status", "currency", "country", "kind", "direction", "smdpAddress", "countries"}
	for what, c := range map[string]struct {
		answer string
		read   func(body []byte) (any, error)
	}{
		"a card": {
			`{"id":"c1","reference":"` + name + `","status":"live","last4":"1234","loadCents":1500,"currency":"USD"}`,
			decoded(func(a cardAnswer) (any, error) { return a.account(ref) }),
		},
		"a movement": {
			`{"id":"m1","reference":"` + name + `","cardId":"c1","direction":"` + outOfCard + `","amountCents":250,` +
				`"limitCents":0,"currency":"USD","status":"done","reason":null}`,
			decoded(func(a movementAnswer) (any, error) { return a.moved(ref) }),
		},
		"a balance": {
			`{"cardId":"c1","availableCents":1500,"currency":"USD","asOf":"2026-11-21T03:04:05Z"}`,
			decoded(func(a balanceAnswer) (any, error) { return a.balance("c1") }),
		},
		"a purchase": {
			`{"id":"p1","cardId":"c1","kind":"purchase","status":"declined","reason":"card_not_usable","amountCents":100,` +
				`"currency":"USD","merchant":"A shop","category":"5411","country":"FR","at":"2026-11-21T03:04:05Z"}`,
			decoded(func(a purchaseAnswer) (any, error) { return a.transaction("c1") }),
		},
		"limits": {
			`{"cardId":"c1","currency":"USD","perTransactionCents":0,"perMonthCents":2500,"allowedCategories":[],` +
				`"blockedCategories":["5411"]}`,
			decoded(func(a limitsAnswer) (any, error) { return a.limits("c1") }),
		},
		"a plan": {
			`{"code":"p1","name":"France","kind":"region","countries":["FR","DE"],"dataMb":1000,"unlimited":false,` +
				`"days":7,"costMicros":490000,"currency":"USD","inStock":true}`,
			decoded(func(a planAnswer) (any, error) { return a.listing() }),
		},
		"a plan's stock": {
			`{"code":"p1","costMicros":490000,"currency":"USD","units":3,"balanceMicros":1000000}`,
			decoded(func(a stockAnswer) (any, error) { return a.stock("p1") }),
		},
		"an eSIM": {
			`{"id":"o1","reference":"` + name + `","plan":"p1","status":"released","costMicros":490000,"currency":"USD",` +
				`"iccid":"8988200000000000121","smdpAddress":"rsp.example.com","matchingId":"AB-12"}`,
			decoded(func(a orderAnswer) (any, error) {
				p, err := a.purchase(ref)
				if err != nil {
					return nil, err
				}
				shown := p.ActivationData.ICCID.Reveal() + " " + esim.LPA(*p.ActivationData)
				p.ActivationData = nil
				return []any{p, shown}, nil
			}),
		},
		"a profile": {
			`{"id":"o1","status":"` + profileReleased + `","usedBytes":0,"totalBytes":1000,` +
				`"measuredAt":"2026-11-21T03:04:05Z","installBy":"2026-12-21T03:04:05Z","currency":"USD"}`,
			decoded(func(a profileAnswer) (any, error) { return a.state("o1") }),
		},
		"a page of the statement": {
			`{"items":[{"seq":7,"balanceCents":1500,"card":{"id":"c1","reference":"` + name + `","status":"live",` +
				`"loadCents":1500,"currency":"USD"}}],"more":true}`,
			decoded(func(a statementAnswer) (any, error) { return a.page(6) }),
		},
	} {
		t.Run(what, func(t *testing.T) {
			wiretest.ReadsAlike(t, c.answer, words, c.read)
		})
	}
}
