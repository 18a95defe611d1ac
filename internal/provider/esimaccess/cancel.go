package esimaccess

import (
	"context"
	"fmt"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/esim"
)

var _ esim.Canceller = (*Supplier)(nil)

// Cancel implements esim.Canceller, by the esimTranNo. The vendor credits the price that the order was made at, and
// does not say how much that is. Calling again is safe, because it credits a profile once, when it leaves GOT_RESOURCE.
func (s *Supplier) Cancel(ctx context.Context, h esim.Held) (money.USDC, error) {
	if err := s.cancel(ctx, h.ID); err != nil {
		return 0, fmt.Errorf("cancel an eSIM: %w", err)
	}
	return h.Cost, nil
}

func (s *Supplier) cancel(ctx context.Context, id string) error {
	if !isName(id) {
		return &fulfilment.Refusal{Code: fulfilment.RefusedRequest, Message: "that is no name of a profile"}
	}
	a, err := s.one(ctx, id)
	if err != nil {
		return err
	}
	switch {
	case a.ESIMStatus == cancelled:
		return nil
	case a.ESIMStatus != gotResource || a.SMDPStatus != released:
		return &fulfilment.Refusal{
			Code: esim.RefusedInstalled, Message: quote(string("the profile is " + a.ESIMStatus + " and " + a.SMDPStatus)),
		}
	}
	return s.send(ctx, request{
		op: "cancel", path: "esim/cancel", body: map[string]string{"esimTranNo": id},
		known: func(code, message string) error {
			if code == codeStatus {
				return &fulfilment.Refusal{Code: esim.RefusedInstalled, Message: code + ": " + quote(message)}
			}
			return nil
		},
	}, nil)
}
