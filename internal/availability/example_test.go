package availability_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/order"
)

// A product can be sold while each of its needs is there; a buyer is told of the first that is not.
func ExampleProduct_Open() {
	stock := 1
	product := availability.Product{
		Kind: order.Kind("map"),
		Needs: []availability.Check{{Name: "stock", Run: func(context.Context) error {
			if stock == 0 {
				return errors.New("no map is left")
			}
			return nil
		}}},
	}
	fmt.Println(product.Open(context.Background()))
	stock = 0
	fmt.Println(product.Open(context.Background()) != nil)
	// Output:
	// <nil>
	// true
}

// A Memo reads once for many callers, until the value is older than its TTL.
func ExampleMemo() {
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	reads := 0
	balance := availability.NewMemo(availability.MemoConfig[int]{
		Read: func(context.Context) (int, error) { reads++; return 100 * reads, nil },
		TTL:  5 * time.Second,
		Now:  func() time.Time { return now },
	})
	for _, pause := range []time.Duration{0, time.Second, time.Minute} {
		now = now.Add(pause)
		value, err := balance.Get(context.Background())
		fmt.Println(value, err)
	}
	// Output:
	// 100 <nil>
	// 100 <nil>
	// 200 <nil>
}
