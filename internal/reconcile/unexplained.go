package reconcile

import (
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
)

// unexplained are the goods that a provider made for us and that no order of ours has or expects.
func (r Recovery) unexplained(lost Lost, goods []order.Goods) (found []made) {
	expected := r.expected(lost)
	for _, g := range goods {
		of, ours := expected[g.Reference]
		if g.Closed || (ours && of == nil) || lost.References[g.Reference] {
			continue
		}
		if of != nil {
			g.Owner, g.Known = of.Owner, true
			price := of.Price.USDC()
			g.Costs = func(v money.USDC) int {
				if v == price {
					return 3
				}
				return 0
			}
		}
		found = append(found, made{g, of})
	}
	return found
}

// expected are the references of our orders, including their next delivery. The value is nil where the order explains
// the goods. An order that is unpaid by our records explains no goods: it was paid in data that we have lost.
func (r Recovery) expected(lost Lost) map[uuid.UUID]*order.Order {
	all := map[uuid.UUID]*order.Order{}
	for i := range lost.Orders {
		o := &lost.Orders[i]
		var of *order.Order
		if o.Status == order.PaymentRequired || o.Status == order.Expired {
			of = o
		}
		for _, ref := range r.references(*o) {
			all[ref] = of
		}
	}
	return all
}

// references are the provider's references of an order's delivery, up to the next attempt.
func (r Recovery) references(o order.Order) (all []uuid.UUID) {
	o.Delivery = max(1, o.Delivery) + 1
	for _, p := range r.Products {
		if p.Kind() != o.Kind {
			continue
		}
		for _, ref := range p.References(o) {
			if id, err := uuid.Parse(ref.Reference); err == nil {
				all = append(all, id)
			}
		}
	}
	return all
}
