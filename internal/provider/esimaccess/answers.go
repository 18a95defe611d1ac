package esimaccess

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/secret"
)

// The codes that mean something to us. Every other code leaves the outcome unknown.
const (
	codePrice      = "200005" // the price of a package is another
	codeAmount     = "200006" // the total is another
	codeBalance    = "200007"
	codeAllocating = "200010"
	codeStock      = "200011"
	codeNoPackage  = "310241"
	codeNoPlan     = "310243"
	codeStatus     = "200002" // not allowed in the order's status
	codeNotJSON    = "000104"
	codeMissing    = "000105"
	codeNull       = "000106"
	codeLength     = "000107"
)

// refusalOfOrder is the definite refusal of an order, or that it is taken. What concerns the account and not the order
// (the signature, the address, the clock) is no refusal: it would refund every buyer until somebody fixes it.
func refusalOfOrder(code, message string) error {
	neutral := ""
	switch code {
	case codeAllocating:
		return errAllocating
	case codePrice, codeAmount:
		neutral = esim.RefusedPrice
	case codeBalance:
		neutral = fulfilment.RefusedFloat
	case codeStock:
		neutral = esim.RefusedStock
	case codeNoPackage, codeNoPlan:
		neutral = esim.RefusedPlan
	case codeNotJSON, codeMissing, codeNull, codeLength:
		neutral = fulfilment.RefusedRequest
	default:
		return nil
	}
	return &fulfilment.Refusal{Code: neutral, Message: code + ": " + quote(message)}
}

// understand sorts an answer. It settles the outcome when it is a success, or a code that the request knows.
func understand(status int, answer []byte, rq request, into any) (settled bool, err error) {
	if status != http.StatusOK {
		return false, wire.Unclear(fmt.Sprintf("status %d", status))
	}
	var e struct {
		Success      *wire.Flag      `json:"success"`
		ErrorCode    wire.Text       `json:"errorCode"`
		ErrorMsg     wire.Text       `json:"errorMsg"`
		ErrorMessage wire.Text       `json:"errorMessage"`
		Obj          json.RawMessage `json:"obj"`
	}
	if wire.Decode(answer, &e) != nil {
		return false, wire.Undocumented
	}
	if e.Success == nil {
		return false, wire.Undocumented
	}
	switch {
	case bool(*e.Success) && (e.ErrorCode == "" || e.ErrorCode == "0"):
		if into != nil && wire.Decode(e.Obj, into) != nil {
			return false, wire.Undocumented
		}
		return true, nil
	case bool(*e.Success) || !code.MatchString(string(e.ErrorCode)):
		return false, wire.Undocumented
	}
	message := string(e.ErrorMsg)
	if message == "" {
		message = string(e.ErrorMessage)
	}
	if rq.known != nil {
		if err := rq.known(string(e.ErrorCode), message); err != nil {
			return true, err
		}
	}
	if rq.confidential {
		return false, wire.Unclear("code " + string(e.ErrorCode))
	}
	return false, wire.Unclear(fmt.Sprintf("code %s: %s", e.ErrorCode, quote(message)))
}

var (
	code = regexp.MustCompile(`^\d{1,6}$`)
	name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	// long could be the number of a profile or the code that fetches it.
	long = regexp.MustCompile(`[0-9A-Za-z]{18,}`)
)

// isName takes what the vendor names packages, orders and profiles by.
func isName(s string) bool { return name.MatchString(s) }

// quote makes a vendor's text fit for an error and a log, without numbers of profiles.
func quote(s string) string {
	return wire.Quote(s, func(s string) string { return long.ReplaceAllString(s, secret.Redacted) })
}
