package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// soldBody is one line of the supplier's statement. It holds nothing of the profile.
type soldBody struct {
	Seq       int        `json:"seq"`
	Reference string     `json:"reference"`
	ID        string     `json:"id"`
	Plan      string     `json:"plan"`
	Status    allocation `json:"status"`
	Cost      int64      `json:"costMicros"`
	Note      string     `json:"note,omitempty"`
	Profile   string     `json:"profile,omitempty"`
}

// getStatement shows a page of all orders, oldest first.
func (s *supplier) getStatement(c call) (any, error) {
	after, err := strconv.Atoi(cmp.Or(c.URL.Query().Get("after"), "0"))
	if err != nil || after < 0 {
		return nil, invalid("after is the seq of a line")
	}
	rows, err := s.books.since(after)
	if err != nil {
		return nil, err
	}
	page := struct {
		Items []soldBody `json:"items"`
		More  bool       `json:"more"`
	}{Items: []soldBody{}}
	if len(rows) > statementPage {
		rows, page.More = rows[:statementPage], true
	}
	for _, row := range rows {
		page.Items = append(page.Items, soldBody{
			row.Seq, row.Reference, row.ID, row.Plan, row.Status, row.Cost, row.Note, row.Onto,
		})
	}
	return page, nil
}

type soldAnswer struct {
	Seq       wire.Int   `json:"seq"`
	Reference string     `json:"reference"`
	ID        string     `json:"id"`
	Plan      string     `json:"plan"`
	Status    wire.Lower `json:"status"`
	Cost      *wire.Int  `json:"costMicros"`
	Note      string     `json:"note"`
	Profile   string     `json:"profile"`
}

var _ esim.Book = (*Supplier)(nil)

// Purchases implements esim.Book.
func (s *Supplier) Purchases(ctx context.Context) ([]esim.Purchase, error) {
	var all []esim.Purchase
	for after := 0; ; {
		var page struct {
			Items *[]soldAnswer `json:"items"`
			More  wire.Flag     `json:"more"`
		}
		err := s.call(ctx, request{
			op: "statement", method: http.MethodGet, under: supplierAPI, path: []string{"statement"},
			route: "/esim/v1/statement",
			query: url.Values{"after": {strconv.Itoa(after)}},
		}, &page)
		if err == nil && (page.Items == nil || bool(page.More) && len(*page.Items) == 0) {
			err = wire.Unclear("the statement in the answer does not match the documentation")
		}
		if err != nil {
			return nil, fmt.Errorf("read the supplier's statement: %w", err)
		}
		for _, line := range *page.Items {
			p, err := line.purchase()
			if err == nil && int(line.Seq) <= after {
				err = wire.Unclear("the lines of the statement are out of order")
			}
			if err != nil {
				return nil, fmt.Errorf("read the supplier's statement: %w", err)
			}
			after, all = int(line.Seq), append(all, p)
		}
		if !page.More {
			return all, nil
		}
	}
}

func (a soldAnswer) purchase() (esim.Purchase, error) {
	ref, err := uuid.Parse(a.Reference)
	if err != nil || !isID(a.ID) || !isID(a.Plan) || a.Status == "" || a.Cost == nil || *a.Cost < 0 {
		return esim.Purchase{}, wire.Unclear("a line of the statement does not match the documentation")
	}
	p := esim.Purchase{
		ID: a.ID, Ref: fulfilment.Ref(ref), Code: a.Plan, State: esim.PurchasePending, Cost: money.USDC(*a.Cost),
		Buyer: a.Note, Onto: a.Profile,
	}
	switch allocation(a.Status) {
	case released:
		p.State = esim.PurchaseReady
	case cancelled:
		p.State, p.Refusal = esim.PurchaseRejected, &fulfilment.Refusal{Code: fulfilment.RefusedUnstated}
	case allocating:
	}
	return p, nil
}
