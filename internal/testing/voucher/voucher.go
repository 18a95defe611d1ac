// Package voucher is a product for tests: a code at a fixed price, from a press that keeps its books in memory. It is
// the model of a product without tables of its own, in one folder, and is added to the program in one line, see
// Press.Register.
//
//	voucher.go   what is sold: price, delivery, postings
//	press.go     its provider
//	books.go     what the books are compared with
//	http.go      how it is bought
//	register.go  its registration
package voucher

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// Kind names orders for vouchers.
const Kind order.Kind = "voucher"

// Price is what a voucher costs.
const Price money.Cents = 300

// Revenue is where the ledger has what was earned with vouchers.
const Revenue ledger.Account = "revenue:voucher"

// Path is where a voucher is bought.
const Path = "/api/voucher/purchase"

// PrintStep is the printing of a voucher in a delivery.
const PrintStep = "print"

var prints = fulfilment.Series{
	Namespace: uuid.MustParse("0b6b7c02-5a3c-5c7e-8a43-6f2f6f1c9a11"), Name: PrintStep, Step: PrintStep,
}

// Ref is the reference of an attempt at a delivery, by the order's name.
func Ref(name string, attempt int) fulfilment.Ref { return prints.Ref(name, attempt) }

// Vouchers sells vouchers.
type Vouchers struct {
	Press *Press
	// Paused closes the sale.
	Paused bool
	// Switches, Payments and Workers are what the sale depends on; see availability.Product.
	Switches *availability.Switches
	Payments *availability.Payments
	Workers  availability.Check
	Now      func() time.Time
}

// Kind implements checkout.Product.
func (v Vouchers) Kind() order.Kind { return Kind }

// Path implements checkout.Product.
func (v Vouchers) Path() string { return Path }

// Jobs are none: a voucher is printed by its delivery.
func (v Vouchers) Jobs() []job.Work { return nil }

// Availability implements checkout.Product.
func (v Vouchers) Availability() availability.Product {
	needs := []availability.Check{v.Workers}
	return availability.Product{
		Kind: Kind, Refusal: fault.NotReady, Detail: "No vouchers are sold at the moment.", Closed: v.Paused,
		Switches: v.Switches,
		Payments: v.Payments, Needs: needs, Shown: needs,
	}
}

// item is what an order names: nothing, because all vouchers are the same.
var item = json.RawMessage(`{}`)

// Offer implements checkout.Product: the price never changes.
func (v Vouchers) Offer(context.Context, order.OfferRequest) (order.Offer, error) {
	return order.Offer{Price: Price, Item: item, Description: "A voucher"}, nil
}

// Reserve implements checkout.Product: everybody may have any number.
func (v Vouchers) Reserve(_ context.Context, _ x402.Address, o order.Offer) (order.Claim, error) {
	return order.Claim{Item: o.Item}, nil
}

// Deliver implements settlement.Product. The code stays at the press, where its buyer reads it.
func (v Vouchers) Deliver(ctx context.Context, l *job.Lease, o order.Order) (order.Progress, error) {
	ref := Ref(o.Name(), o.Delivery)
	attempt := fulfilment.Attempt{
		Provider: v.provider(), Since: o.UpdatedAt, Evidence: map[string]string{"reference": ref.String()},
		NoTrace: "the press shows no trace of the voucher",
		TooLong: "the press left the voucher pending for too long",
	}
	got, err := fulfilment.Make(ctx, l, v.provider(), fulfilment.Call[Code]{
		Step: prints.Marker(o.Delivery),
		Send: func(context.Context) (Code, error) { return v.Press.Print(ref, order.BuyerOf(o.Owner)) },
		Read: func(context.Context) (Code, error) { return v.Press.Printed(ref) },
	})
	if err != nil {
		return order.Progress{}, fmt.Errorf("print the voucher: %w", err)
	}
	switch got.Kind {
	case fulfilment.Known:
		return attempt.Delivered("voucher printed"), nil
	case fulfilment.Refused:
		return attempt.Refused(got.Refusal), nil
	case fulfilment.Untraceable:
		return attempt.Untraceable(), nil
	case fulfilment.Unknown:
	}
	return attempt.Pending(), nil
}

// provider is the press, as the one who is called.
func (v Vouchers) provider() fulfilment.Provider {
	return fulfilment.Provider{
		Name: "press", Traits: v.Press.Traits(), CallTimeout: time.Second, Poll: 50 * time.Millisecond,
		Deadline: time.Hour, Now: v.Now,
	}
}

// Postings implements settlement.Product.
func (v Vouchers) Postings(o order.Order) ([]ledger.Posting, error) {
	return []ledger.Posting{ledger.Sold(string(o.ID), o.Price, Revenue)}, nil
}

// References are what the press knows an order's delivery by.
func (v Vouchers) References(o order.Order) []order.Reference { return prints.References(o) }
