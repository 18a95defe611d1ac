package esimaccessfake

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/provider/wire/spoil"
)

// Mode is a way for one request to go wrong. Before and after speak of the effect: "after" means it happened and the
// client does not learn of it.
type Mode string

// The modes.
const (
	ErrorBefore   Mode = "error_before"   // 503
	ErrorAfter    Mode = "error_after"    // 502, its text repeating what was not to be seen
	BusyBefore    Mode = "busy_before"    // the envelope of a system that is busy
	TimeoutBefore Mode = "timeout_before" // the connection breaks
	TimeoutAfter  Mode = "timeout_after"
	Late          Mode = "late"           // the connection breaks, and lists by time do not have the effect yet
	Refused       Mode = "refused"        // out of stock
	Malformed     Mode = "malformed"      // a page in place of JSON
	Truncated     Mode = "truncated"      // half an answer
	Huge          Mode = "huge"           // a right answer behind 33 MiB of spaces
	RateLimited   Mode = "rate_limited"   // 429
	Unauthorized  Mode = "unauthorized"   // the signature is not accepted
	UnknownState  Mode = "unknown_state"  // a status that is not documented
	WrongAmount   Mode = "wrong_amount"   // a ten thousandth of a dollar more
	Inexact       Mode = "inexact_amount" // a part of one more
	WrongCurrency Mode = "wrong_currency" // EUR
	WrongUnit     Mode = "wrong_unit"     // dollars, with a fraction
	WrongOwner    Mode = "wrong_owner"    // the answer to somebody else's request
	Duplicate     Mode = "duplicate"      // every profile of a list twice
	Contradiction Mode = "contradiction"  // every profile of a list twice, the second another
	Reversed      Mode = "reversed"       // a list from its end
	Partial       Mode = "partial"        // a profile without its activation code
	Documented    Mode = "documented"     // success as the text that the documentation shows, no error code
)

// edits are the modes that only change what an answer says, with the operations that say it.
var edits = map[Mode][]string{
	UnknownState: {"ordered", "profile"}, WrongAmount: {"check"}, Inexact: {"plans", "check"},
	WrongCurrency: {"plans", "check"},
	WrongUnit:     {"plans", "check"}, WrongOwner: {"order", "ordered", "profile", "check", "topup"},
	Duplicate:     {"ordered"},
	Contradiction: {"ordered"}, Reversed: {"plans", "ordered"}, Partial: {"ordered"},
}

// Fault makes the next request of an operation fail, and says whether it can: an answer without an amount cannot have
// a wrong one. Faults of one operation queue up.
func (s *Server) Fault(op string, mode Mode) bool {
	if ops, edit := edits[mode]; (edit && !slices.Contains(ops, op)) ||
		(mode == Refused && op != "order" && op != "topup") {
		return false
	}
	s.faults.Add(op, mode)
	return true
}

// misbehave answers a request as a fault says.
func (s *Server) misbehave(w http.ResponseWriter, mode Mode, do func() envelope) {
	refuse := func(code, message string) { write(w, http.StatusOK, answered(nil, &problem{code, message})) }
	switch mode {
	case ErrorBefore:
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
	case BusyBefore:
		refuse("900001", "the system is busy, please try again later")
	case TimeoutBefore:
		spoil.HangUp(w)
	case Refused:
		refuse(codeStock, "insufficient available profiles for the package")
	case RateLimited:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	case Unauthorized:
		refuse(codeSignature, "request signature mismatch")
	default:
		s.corrupt(w, mode, do())
	}
}

// corrupt changes the answer to a request that has had its effect.
func (s *Server) corrupt(w http.ResponseWriter, mode Mode, e envelope) {
	encoded := encode(e)
	switch mode {
	case TimeoutAfter:
		spoil.HangUp(w)
	case Late:
		s.mu.Lock()
		s.orders[len(s.orders)-1].Hidden = true
		s.mu.Unlock()
		spoil.HangUp(w)
	case ErrorAfter:
		http.Error(w, "while answering "+string(encoded), http.StatusBadGateway)
	case Malformed:
		spoil.Page(w, encoded)
	case Truncated:
		spoil.Half(w, encoded)
	case Huge:
		spoil.Huge(w, encoded, 33<<20)
	case Documented:
		_, _ = w.Write([]byte(strings.Replace(string(encoded), `"success":true,"errorCode":"0"`,
			`"success":"true","errorCode":null`, 1)))
	default:
		write(w, http.StatusOK, edit(mode, encoded))
	}
}

// edit changes members of a successful answer and of each item of its list.
func edit(mode Mode, encoded []byte) any {
	var answer map[string]any
	if err := json.Unmarshal(encoded, &answer); err != nil {
		panic("esimaccessfake: edit an answer: " + err.Error())
	}
	obj, ok := answer["obj"].(map[string]any)
	if !ok {
		return answer
	}
	if mode == WrongOwner {
		replace(obj, strangers, "transactionId")
	}
	for _, name := range []string{"packageList", "esimList"} {
		items, ok := obj[name].([]any)
		if !ok {
			continue
		}
		switch mode {
		case Reversed:
			slices.Reverse(items)
		case Duplicate, Contradiction:
			for _, item := range items {
				again := copied(item)
				if mode == Contradiction {
					replace(again, "99999999999999", "esimTranNo")
				}
				items = append(items, again)
			}
			obj[name] = items
		default:
			for _, item := range items {
				editOne(mode, item.(map[string]any))
			}
		}
	}
	return answer
}

const strangers = "00000000-0000-4000-8000-000000000000-1"

func editOne(mode Mode, one map[string]any) {
	switch mode {
	case UnknownState:
		replace(one, "QUARANTINED", "esimStatus")
	case WrongAmount, Inexact, WrongUnit:
		if price, ok := one["price"].(float64); ok {
			one["price"] = map[Mode]float64{WrongAmount: price + 1, Inexact: price + 0.5, WrongUnit: price/10_000 + 0.001}[mode]
		}
	case WrongCurrency:
		replace(one, "EUR", "currencyCode")
	case WrongOwner:
		replace(one, strangers, "transactionId")
		replace(one, "SOMEBODYELSES", "packageCode")
		replace(one, "99999999999999", "esimTranNo")
	case Partial:
		delete(one, "ac")
	}
}

func replace(one map[string]any, value, name string) {
	if _, has := one[name]; has {
		one[name] = value
	}
}

func copied(item any) map[string]any {
	again := map[string]any{}
	for name, value := range item.(map[string]any) {
		again[name] = value
	}
	return again
}
