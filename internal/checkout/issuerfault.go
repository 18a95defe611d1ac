package checkout

import (
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/payment"
)

// issuerFault is the answer to a payment that the token's issuer prevents, or nil. The same payment can be retried
// later, except from a blocked payer, whose wallet cannot pay anyone.
func issuerFault(rejection *payment.Rejection) *fault.Fault {
	switch rejection.Reason {
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
