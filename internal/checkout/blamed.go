package checkout

import (
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/payment"
)

// blamed is the answer to a payment that the token refuses for no fault of its own, or nil. Each is retried later as it
// is, except a blocked payer's: that wallet can pay nobody.
func blamed(no *payment.Rejection) *fault.Fault {
	switch no.Reason {
	case payment.ReasonTokenPaused:
		return availability.SettleLater(fault.New(fault.TokenPaused, "The token's issuer has paused it."))
	case payment.ReasonAccountBlocked:
		blocked := fault.New(fault.AccountBlocked, "The token's issuer blocks an account of this service.")
		return availability.SettleLater(blocked)
	case payment.ReasonPayerBlocked:
		return fault.New(fault.PayerBlacklisted, "The token's issuer blocks the wallet that signed. "+
			"Nothing was claimed or sent; pay from another wallet.")
	}
	return nil
}
