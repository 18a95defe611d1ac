package checkout

import (
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/mutant"
	"github.com/roamcard/roamcard/internal/payment"
)

// heldUp is the answer to a payment that cannot be settled now. The error knows whose fault it is, or nobody does.
// Nothing was claimed or sent, so the same signature will do later.
func heldUp(err error) *fault.Fault {
	return toldOf(err, " Nothing was claimed; repeat the same request with the same payment.", fault.RetrySameRequest)
}

// uninvited is the answer instead of the terms of a payment that would be refused.
func uninvited(err error) *fault.Fault {
	return toldOf(err, " Pay nothing yet; repeat the request later.", fault.WaitAndRetry)
}

func toldOf(err error, advice string, next fault.NextAction) *fault.Fault {
	told := *fault.New(fault.DependencyDown, "Payments cannot be settled now.")
	if f, ok := fault.As(err); ok {
		told = *f
	}
	told.Detail += advice
	return told.Then(next)
}

// blamed is the answer to a payment that the token refuses for no fault of its own, or nil. Each is retried later as it is,
// except a blocked payer's: that wallet can pay nobody.
func blamed(no *payment.Rejection) *fault.Fault {
	switch no.Reason {
	case payment.ReasonTokenPaused:
		return heldUp(fault.New(fault.TokenPaused, "The token's issuer has paused it."))
	case payment.ReasonAccountBlocked:
		return heldUp(fault.New(fault.AccountBlocked, "The token's issuer blocks an account of this service."))
	case payment.ReasonPayerBlocked:
		if mutant.PayerNotTold {
			return nil
		}
		return fault.New(fault.PayerBlacklisted, "The token's issuer blocks the wallet that signed. Nothing was claimed or sent; pay from another wallet.")
	}
	return nil
}
