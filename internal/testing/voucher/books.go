package voucher

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
)

// Records are what the books have to say of vouchers. They implement reconcile.Goods.
type Records struct{}

// Differs says that a voucher had another price.
func (Records) Differs(s order.Sale) string {
	if s.Kind != Kind || s.Price == Price {
		return ""
	}
	return "a voucher was sold for " + s.Price.String()
}

// Postings are those of the vouchers that were delivered.
func (Records) Postings(sales []order.Sale) (all []ledger.Posting) {
	for _, s := range sales {
		if s.Kind == Kind && s.Status == order.Fulfilled {
			all = append(all, ledger.Sold(string(s.ID), s.Price, Revenue))
		}
	}
	return all
}

// Calls are none: the book of the press is not compared.
func (Records) Calls([]order.Sale) []order.Call { return nil }

// Made is what the press has printed. It implements reconcile.Product.
type Made struct{ Press *Press }

// Kind implements reconcile.Product.
func (m Made) Kind() order.Kind { return Kind }

// References implements reconcile.Product.
func (m Made) References(o order.Order) []order.Reference { return prints.References(o) }

// Made implements reconcile.Product.
func (m Made) Made(context.Context) (all []order.Goods, err error) {
	m.Press.mu.Lock()
	defer m.Press.mu.Unlock()
	for ref, made := range m.Press.printed {
		all = append(all, order.Goods{
			Kind: Kind, Reference: uuid.UUID(ref), Note: made.buyer, Step: PrintStep, Description: "the press has a voucher",
			Costs: func(v money.USDC) int {
				if v == Price.USDC() {
					return 2
				}
				return 0
			},
			Item: func(money.USDC) json.RawMessage { return item },
		})
	}
	return all, nil
}
