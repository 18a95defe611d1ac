package esimgofake

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/provider/wire/spoil"
)

// Mode is a way for one request to go wrong. Before and after speak of the effect: "after" means that it happened and
// the caller does not learn of it.
type Mode string

// The modes.
const (
	ErrorBefore   Mode = "error_before"
	ErrorAfter    Mode = "error_after"
	TimeoutBefore Mode = "timeout_before"
	TimeoutAfter  Mode = "timeout_after"
	// Refused makes validate say no. A fault of the order is one of its validate.
	Refused       Mode = "refused"
	BadRequest    Mode = "bad_request"
	Malformed     Mode = "malformed"
	Truncated     Mode = "truncated"
	Huge          Mode = "huge"
	RateLimited   Mode = "rate_limited"
	Unauthorized  Mode = "unauthorized"
	Processing    Mode = "processing"
	UnknownState  Mode = "unknown_state"
	WrongAmount   Mode = "wrong_amount"
	Inexact       Mode = "inexact_amount"
	WrongCurrency Mode = "wrong_currency"
	WrongOwner    Mode = "wrong_owner"
	Duplicate     Mode = "duplicate"
)

var modes = []Mode{
	ErrorBefore, ErrorAfter, TimeoutBefore, TimeoutAfter, Refused, BadRequest, Malformed, Truncated, Huge, RateLimited,
	Unauthorized, Processing, UnknownState, WrongAmount, Inexact, WrongCurrency, WrongOwner, Duplicate,
}

// Fault spoils the next request of a kind, and says whether it can. Faults of one kind queue up.
func (s *Server) Fault(op string, mode Mode) bool {
	if !ops[op] || !slices.Contains(modes, mode) {
		return false
	}
	if mode == Refused {
		op = opCheck
	}
	s.faults.Add(op, mode)
	return true
}

// before is the answer to a request that has no effect.
func before(mode Mode) (r reply, done bool) {
	switch mode {
	case ErrorBefore:
		return no(http.StatusInternalServerError, "internal error"), true
	case TimeoutBefore:
		return reply{}, true
	case BadRequest:
		return no(http.StatusBadRequest, "bad request"), true
	case RateLimited:
		return reply{http.StatusTooManyRequests, map[string]string{"message": "too many requests"}, 3}, true
	case Unauthorized:
		return no(http.StatusForbidden, "access denied"), true
	case Processing:
		return reply{http.StatusServiceUnavailable, map[string]string{"message": "processing"}, 1}, true
	}
	return reply{}, false
}

// send writes an answer, spoiled.
func send(w http.ResponseWriter, mode Mode, r reply) {
	encoded := encode(r.body)
	switch mode {
	case TimeoutBefore, TimeoutAfter:
		spoil.HangUp(w)
	case ErrorAfter:
		// Its text repeats what was not to be seen.
		write(w, no(http.StatusBadGateway, "while answering "+string(encoded)))
	case Malformed:
		spoil.Page(w, encoded)
	case Truncated:
		spoil.Half(w, encoded)
	case Huge:
		spoil.Huge(w, encoded, 8<<20)
	case Refused, UnknownState, WrongAmount, Inexact, WrongCurrency, WrongOwner, Duplicate:
		r.body = edited(mode, encoded)
		write(w, r)
	default:
		write(w, r)
	}
}

// edited changes members of an answer, wherever they are.
func edited(mode Mode, encoded []byte) any {
	var body any
	decoder := json.NewDecoder(strings.NewReader(string(encoded)))
	decoder.UseNumber()
	if err := decoder.Decode(&body); err != nil {
		panic("esimgofake: edit an answer: " + err.Error())
	}
	return edit(mode, "", body)
}

func edit(mode Mode, name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for member, inner := range v {
			v[member] = edit(mode, member, inner)
		}
		return v
	case []any:
		for i := range v {
			v[i] = edit(mode, "", v[i])
		}
		if mode == Duplicate && slices.Contains([]string{"bundles", "orders", "esims"}, name) {
			v = append(v, v...)
		}
		return v
	}
	if change, ok := edits[mode][name]; ok {
		return change(value)
	}
	return value
}

var edits = map[Mode]map[string]func(any) any{
	Refused:       {"valid": always(false)},
	UnknownState:  {"status": always("quarantined"), "bundleState": always("Quarantined")},
	WrongAmount:   {"total": more("1"), "subTotal": more("1"), "pricePerUnit": more("1"), "price": more("1")},
	Inexact:       {"total": always(json.Number("1.0000005")), "balance": always(json.Number("1.0000005"))},
	WrongCurrency: {"currency": always("EUR")},
	WrongOwner: {"orderReference": always("00000000-0000-4000-8000-000000000000"), "item": always("esim_of_another"),
		"iccid": always("8900000000000000000"), "name": always("esim_of_another")},
}

func always(v any) func(any) any { return func(any) any { return v } }

// more puts digits before a number: 1.12 becomes 11.12.
func more(digits string) func(any) any {
	return func(v any) any {
		if n, ok := v.(json.Number); ok {
			return json.Number(digits + n.String())
		}
		return v
	}
}
