package esimgo

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
)

var _ esim.Book = (*Supplier)(nil)

// unexplained is the namespace of references of orders that the journal does not know.
var unexplained = uuid.MustParse("5d0c2a3e-7a0b-5b64-9d0e-3f3a5f1c7e21")

// Purchases implements esim.Book: every order of the organisation. One that the journal does not know, such as from
// before a data loss or from the vendor's portal, has a reference that nobody uses: our books cannot explain it.
func (s *Supplier) Purchases(ctx context.Context) ([]esim.Purchase, error) {
	listed, err := s.listed(ctx, time.Time{})
	if err != nil {
		return nil, fmt.Errorf("list orders: %w", err)
	}
	named, err := s.journal.Named(ctx, references(listed))
	if err != nil {
		return nil, fmt.Errorf("look into the journal: %w", err)
	}
	all := make([]esim.Purchase, len(listed))
	for i, e := range listed {
		sent, known := named[e.reference]
		if !known {
			sent.Ref = fulfilment.DeriveRef(unexplained, e.reference)
		}
		all[i] = esim.Purchase{
			ID: e.reference, Ref: sent.Ref, Code: e.bundle, State: esim.PurchasePending, Cost: e.total, Onto: sent.Onto,
		}
	}
	return all, nil
}
