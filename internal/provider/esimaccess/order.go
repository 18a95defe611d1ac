package esimaccess

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// transaction names an order at the vendor: our reference, and the price that the order was made at, which the vendor
// shows nowhere.
type transaction struct {
	ref  fulfilment.Ref
	cost money.USDC
}

// String is at most 46 characters; the vendor takes 50.
func (t transaction) String() string {
	return t.ref.String() + "-" + strconv.FormatInt(int64(t.cost)/microsPerUnit, 10)
}

// parseTransaction reads a name; ok is false when it is not one of ours.
func parseTransaction(s string) (t transaction, ok bool) {
	const length = 36
	if len(s) <= length || s[length] != '-' {
		return transaction{}, false
	}
	ref, err := uuid.Parse(s[:length])
	price, priced := wire.Text(s[length+1:]).Units(maxUnits)
	t = transaction{ref: fulfilment.Ref(ref), cost: money.USDC(price * microsPerUnit)}
	return t, err == nil && priced && t.String() == s
}

// Order implements esim.Supplier. It asks at the price that the package has now, and the vendor refuses when it has
// changed by then. What is ordered is always pending: the vendor allocates profiles later.
func (s *Supplier) Order(ctx context.Context, r esim.Request) (esim.Purchase, error) {
	plan, err := s.planToOrder(ctx, r.Code)
	switch {
	case errors.Is(err, esim.ErrNoPlan):
		err = &fulfilment.Refusal{Code: esim.RefusedPlan, Message: "the package is not listed"}
	case err == nil && plan.Cost > r.MaxCost:
		err = &fulfilment.Refusal{Code: esim.RefusedPrice, Message: "the package is listed at a higher price"}
	}
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("order an eSIM: %w", err)
	}
	named, price := transaction{ref: r.Ref, cost: plan.Cost}, int64(plan.Cost)/microsPerUnit
	var got struct {
		OrderNo     wire.Text `json:"orderNo"`
		Transaction string    `json:"transactionId"`
	}
	p := esim.Purchase{Ref: r.Ref, Code: r.Code, State: esim.PurchasePending, Cost: plan.Cost}
	line := map[string]any{"packageCode": r.Code, "count": 1, "price": price}
	if plan.Unlimited {
		line["periodNum"] = plan.ValidityDays
	}
	err = s.send(ctx, request{
		op: "order", path: "esim/order", known: refusalOfOrder,
		body: map[string]any{
			"transactionId": named.String(), "amount": price, "packageInfoList": []map[string]any{line},
		},
	}, &got)
	if errors.Is(err, errAllocating) {
		return p, nil
	}
	if err == nil && (!isName(string(got.OrderNo)) || (got.Transaction != "" && got.Transaction != named.String())) {
		err = wire.Unclear("the answer is about another order")
	}
	if err != nil {
		return esim.Purchase{}, fmt.Errorf("order an eSIM: %w", err)
	}
	s.placed.Put(p.Ref, placement{orderNo: string(got.OrderNo), pending: p})
	return p, nil
}

// placement is an order that this process knows the number of.
type placement struct {
	orderNo string
	// pending is the order until its profile is allocated.
	pending esim.Purchase
}

// maxPlacements bounds what is remembered. What is forgotten is found by time.
const maxPlacements = 4096

// isOf says whether an order's name begins with a reference, whatever follows.
func isOf(name string, ref fulfilment.Ref) bool { return strings.HasPrefix(name, ref.String()) }
