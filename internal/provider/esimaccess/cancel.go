package esimaccess

import (
	"context"
	"fmt"

	"github.com/roamcard/roamcard/internal/fulfilment"
)

// RefusedInstalled is the refusal to cancel a profile that a device has fetched, or that is no longer the vendor's to
// take back.
const RefusedInstalled = "profile_installed"

// Cancel gives a profile that was never installed back, by its esimTranNo; the vendor credits its price to the balance.
// It is done when the profile is cancelled, by whomever. Its error is a *fulfilment.Refusal when the profile cannot be
// cancelled and nothing happened. Any other error leaves the outcome unknown: calling again is safe, because the vendor
// credits a profile once, when it leaves GOT_RESOURCE.
func (s *Supplier) Cancel(ctx context.Context, id string) error {
	if err := s.cancel(ctx, id); err != nil {
		return fmt.Errorf("cancel an eSIM: %w", err)
	}
	return nil
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
			Code: RefusedInstalled, Message: quote("the profile is " + a.ESIMStatus + " and " + a.SMDPStatus),
		}
	}
	return s.send(ctx, request{
		op: "cancel", path: "esim/cancel", body: map[string]string{"esimTranNo": id},
		known: func(code, message string) error {
			if code == codeStatus {
				return &fulfilment.Refusal{Code: RefusedInstalled, Message: code + ": " + quote(message)}
			}
			return nil
		},
	}, nil)
}
