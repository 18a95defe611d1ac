package app

import (
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/provider/sandbox/trigger"
	"github.com/roamcard/roamcard/internal/settlement"
)

// product is what is sold and delivered.
type product interface {
	checkout.Product
	settlement.Product
}

// listed is the products as one of their users sees them.
func listed[T any](products []product, as func(product) T) []T {
	all := make([]T, len(products))
	for i, p := range products {
		all[i] = as(p)
	}
	return all
}

// triggered is the products. In the sandbox they play the scenarios of idempotency keys.
func (c Config) triggered(cards, topups, esims product) []product {
	if c.Environment != Sandbox {
		return []product{cards, topups, esims}
	}
	return []product{
		trigger.Product{Sold: cards}, trigger.Product{Sold: topups}, trigger.Product{Sold: esims, Requotes: true},
	}
}

// triggeredSettlement is the settlement. In the sandbox it plays the scenarios of idempotency keys.
func (c Config) triggeredSettlement(s *settlement.Settlement) checkout.Settlement {
	if c.Environment != Sandbox {
		return s
	}
	return trigger.Settlement{Settler: s, Wait: c.Wait}
}
