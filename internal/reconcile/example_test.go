package reconcile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/reconcile"
)

const (
	letter      order.Kind  = "letter"
	letterPrice money.Cents = 500
)

// writing names each attempt to write the letter of an order.
var writing = fulfilment.Series{Namespace: uuid.NameSpaceURL, Name: "letter", Step: "write"}

// letterRecords are what the books have to say of letters. Each costs the same.
type letterRecords struct{}

var _ reconcile.Goods = letterRecords{}

func (letterRecords) Differs(s order.Sale) string {
	if s.Price == letterPrice {
		return ""
	}
	return "a letter was sold for " + s.Price.String()
}

func (letterRecords) Postings(sales []order.Sale) (all []ledger.Posting) {
	for _, s := range sales {
		if s.Status == order.Fulfilled {
			all = append(all, ledger.Sold(string(s.ID), s.Price, "revenue:letter"))
		}
	}
	return all
}

func (letterRecords) Calls(sales []order.Sale) (all []order.Call) {
	for _, s := range sales {
		for attempt := 1; attempt <= s.Delivery; attempt++ {
			ref := writing.Ref(string(s.ID), attempt)
			all = append(all, order.Call{Order: s.ID, Reference: uuid.UUID(ref), Provider: "writer"})
		}
	}
	return all
}

// A comparison asks a product what its orders should have come to, and compares the ledger and the provider with that.
func ExampleGoods() {
	sales := []order.Sale{
		{ID: "ord_1", Kind: letter, Status: order.Fulfilled, Price: letterPrice, Delivery: 1},
		{ID: "ord_2", Kind: letter, Status: order.Provisioning, Price: letterPrice - 1, Delivery: 2},
	}
	var records letterRecords
	for _, s := range sales {
		fmt.Printf("%s: %q\n", s.ID, records.Differs(s))
	}
	for _, p := range records.Postings(sales) {
		fmt.Println(p.Order, p.Kind)
	}
	fmt.Println(len(records.Calls(sales)), "calls")
	// Output:
	// ord_1: ""
	// ord_2: "a letter was sold for 4.99"
	// ord_1 sold
	// 3 calls
}

// letters are what the writer has made, as recovery sees them.
type letters struct {
	written []uuid.UUID
}

var _ reconcile.Product = letters{}

func (letters) Kind() order.Kind { return letter }

func (letters) References(o order.Order) []order.Reference { return writing.References(o) }

func (l letters) Made(context.Context) (all []order.Goods, err error) {
	for _, ref := range l.written {
		all = append(all, order.Goods{
			Kind: letter, Reference: ref, Step: "write",
			Costs: func(paid money.USDC) int {
				if paid == letterPrice.USDC() {
					return 2
				}
				return 0
			},
			Item: func(money.USDC) json.RawMessage { return json.RawMessage(`{}`) },
		})
	}
	return all, nil
}

// Recovery finds the order of each thing that the provider has made by its references. Of those that no order has, it
// finds the payment by what they cost.
func ExampleProduct() {
	kept := order.Order{ID: "ord_1", Kind: letter, Delivery: 1}
	lost := order.Order{ID: "ord_2", Kind: letter, Delivery: 1}
	var product letters
	for _, o := range []order.Order{kept, lost} {
		product.written = append(product.written, uuid.UUID(writing.Ref(string(o.ID), 1)))
	}
	made, err := product.Made(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range made {
		ours := g.Reference.String() == product.References(kept)[0].Reference
		fmt.Println("of the order that is left:", ours, "paid by 5.00 USDC:", g.Costs(5_000_000) == 2)
	}
	// Output:
	// of the order that is left: true paid by 5.00 USDC: true
	// of the order that is left: false paid by 5.00 USDC: true
}
