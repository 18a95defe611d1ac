package checkout

import (
	"errors"
	"fmt"
	"testing"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestChallengeIsMadeOncePerSecondAndRequest(t *testing.T) {
	var c challenges
	ask := func(second int64, q challengeKey) error {
		return c.get(second, q, func() error { return errors.New("made now") })
	}
	card := challengeKey{kind: card.Kind, price: 2500, resource: x402.Resource{URL: "https://a.example/api/card/purchase"}}
	first := ask(1, card)
	if again := ask(1, card); again != first {
		t.Error("the same question in the same second is answered anew")
	}
	for name, q := range map[string]challengeKey{
		"kind":        {kind: esim.Kind, price: card.price, resource: card.resource},
		"request":     {kind: card.kind, price: card.price, resource: card.resource, request: order.Fingerprint{1}},
		"price":       {kind: card.kind, price: 2600, resource: card.resource},
		"resource":    {kind: card.kind, price: card.price, resource: x402.Resource{URL: "https://a.example/other"}},
		"item":        {kind: card.kind, price: card.price, resource: card.resource, item: "{}"},
		"description": {kind: card.kind, price: card.price, resource: card.resource, description: "another"},
	} {
		if ask(1, q) == first {
			t.Errorf("another %s gets the same challenge", name)
		}
	}
	if ask(2, card) == first {
		t.Error("a challenge outlives its second")
	}
}

func TestChallengeCacheIsBounded(t *testing.T) {
	var c challenges
	for i := range 3 * maxChallenges {
		q := challengeKey{item: fmt.Sprint(i)}
		made := errors.New("made")
		if got := c.get(1, q, func() error { return made }); got != made || len(c.made) > maxChallenges {
			t.Fatalf("question %d: %v, %d remembered", i, got, len(c.made))
		}
	}
}
