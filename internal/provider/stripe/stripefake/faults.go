package stripefake

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/roamcard/roamcard/internal/provider/wire/spoil"
)

// Mode is a way for one request to go wrong. Before and after speak of the effect: "after" means it happened and the
// client does not learn of it.
type Mode string

// The modes.
const (
	ErrorBefore   Mode = "error_before"   // 503
	ErrorAfter    Mode = "error_after"    // 502, its text repeating what was not to be seen
	TimeoutBefore Mode = "timeout_before" // the connection breaks
	TimeoutAfter  Mode = "timeout_after"
	Late          Mode = "late"         // the connection breaks, and lists do not have the card until Reveal
	Refused       Mode = "refused"      // 400 invalid_request_error
	Idempotency   Mode = "idempotency"  // 400 idempotency_error
	Conflict      Mode = "conflict"     // 409: a request with the same key is under way
	Locked        Mode = "locked"       // 429 with lock_timeout
	RateLimited   Mode = "rate_limited" // 429
	Unauthorized  Mode = "unauthorized" // 401, which is called an invalid request, too
	Forbidden     Mode = "forbidden"    // 403
	Strange       Mode = "strange"      // 400 invalid_request_error with a code that is not documented
	Plain         Mode = "plain"        // 400 without JSON, as of a proxy
	Moved         Mode = "moved"        // 307 to the same place, the right answer as its body
	Accepted      Mode = "accepted"     // 202 with the right answer
	Malformed     Mode = "malformed"    // a page in place of JSON
	Truncated     Mode = "truncated"    // half an answer
	Huge          Mode = "huge"         // a right answer behind 9 MiB of spaces
	UnknownState  Mode = "unknown_state"
	WrongAmount   Mode = "wrong_amount"   // a cent more
	Inexact       Mode = "inexact_amount" // half a cent more
	WrongCurrency Mode = "wrong_currency" // EUR
	WrongUnit     Mode = "wrong_unit"     // dollars
	WrongOwner    Mode = "wrong_owner"    // the answer to somebody else's request
	Repeated      Mode = "repeated"       // every object of a list twice
	Reversed      Mode = "reversed"       // a list from its end
	Partial       Mode = "partial"        // without amounts, limits and balance
)

// edits are the modes that only change what an answer says, with the operations that say it.
var edits = map[Mode][]string{
	UnknownState:  {"open", "move", "lock", "card", "cards", "authorizations", "cardholder"},
	WrongAmount:   {"open", "move", "card"},
	Inexact:       {"open", "move", "card", "cards", "authorizations", "transactions", "balance"},
	WrongCurrency: {"open", "move", "card", "authorizations", "transactions", "balance"},
	WrongUnit:     {"open", "move", "card"},
	WrongOwner:    {"open", "move", "lock", "card", "authorizations", "transactions", "cardholder"},
	Repeated:      {"cards", "authorizations", "transactions"},
	Reversed:      {"cards", "authorizations", "transactions"},
	Partial:       {"open", "move", "lock", "card", "cards", "authorizations", "transactions", "balance"},
}

// refusing are the modes of requests that change something.
var refusing = []Mode{Refused, Idempotency, Conflict, Late}

// Fault spoils the next request of an operation, and says whether it can: an answer that names no amount cannot name a
// wrong one. Faults of one operation queue up.
func (s *Server) Fault(op string, mode Mode) bool {
	ops, edit := edits[mode]
	_, known := plain[mode]
	switch {
	case edit && !slices.Contains(ops, op), !edit && !known && !slices.Contains(spoiling, mode):
		return false
	case slices.Contains(refusing, mode) && op != "open" && op != "move" && op != "lock":
		return false
	}
	s.faults.Add(op, mode)
	return true
}

// plain are the modes that answer without an effect.
var plain = map[Mode]*problem{
	ErrorBefore: {http.StatusServiceUnavailable, "api_error", "", "", "Something went wrong."},
	Refused:     {http.StatusBadRequest, "invalid_request_error", "", "", "Your request cannot be run."},
	Idempotency: {http.StatusBadRequest, "idempotency_error", "", "", "The key was used with other parameters."},
	Conflict: {
		http.StatusConflict, "idempotency_error", "idempotency_key_in_use", "", "Another request is under way.",
	},
	Locked:      {http.StatusTooManyRequests, "invalid_request_error", "lock_timeout", "", "The object is locked."},
	RateLimited: {http.StatusTooManyRequests, "invalid_request_error", "rate_limit", "", "Too many requests."},
	Unauthorized: {
		http.StatusUnauthorized, "invalid_request_error", "api_key_expired", "", "Expired API Key provided: sk_***",
	},
	Forbidden: {http.StatusForbidden, "invalid_request_error", "", "", "The key has no permission."},
	Strange:   {http.StatusBadRequest, "invalid_request_error", "moon_in_wrong_phase", "", "Try when it is full."},
}

// spoiling are the other modes.
var spoiling = []Mode{
	ErrorAfter, TimeoutBefore, TimeoutAfter, Late, Plain, Moved, Accepted, Malformed, Truncated, Huge,
}

// misbehave answers a request as a fault says.
func (s *Server) misbehave(w http.ResponseWriter, mode Mode, run func() answer) {
	if no, ok := plain[mode]; ok {
		write(w, answered(nil, no))
		return
	}
	switch mode {
	case TimeoutBefore:
		spoil.HangUp(w)
	case Plain:
		http.Error(w, "bad request", http.StatusBadRequest)
	default:
		s.spoil(w, mode, run())
	}
}

// spoil changes the answer to a request that has had its effect.
func (s *Server) spoil(w http.ResponseWriter, mode Mode, a answer) {
	switch mode {
	case TimeoutAfter:
		spoil.HangUp(w)
	case Late:
		s.change(func() { s.books.Cards[len(s.books.Cards)-1].Hidden = true })
		spoil.HangUp(w)
	case ErrorAfter:
		http.Error(w, "while answering "+string(a.Body), http.StatusBadGateway)
	case Moved:
		w.Header().Set("Location", "/v1/balance")
		write(w, answer{http.StatusTemporaryRedirect, a.Body})
	case Accepted:
		write(w, answer{http.StatusAccepted, a.Body})
	case Malformed:
		spoil.Page(w, a.Body)
	case Truncated:
		spoil.Half(w, a.Body)
	case Huge:
		spoil.Huge(w, a.Body, 9<<20)
	default:
		write(w, answer{a.Status, edit(mode, a.Body)})
	}
}

// edit changes members of an answer, or of each object of its list.
func edit(mode Mode, encoded []byte) []byte {
	var body map[string]any
	if err := json.Unmarshal(encoded, &body); err != nil {
		panic("stripefake: edit an answer: " + err.Error())
	}
	items, listed := body["data"].([]any)
	switch {
	case !listed:
		editOne(mode, body)
	case mode == Repeated:
		var twice []any
		for _, item := range items {
			twice = append(twice, item, item)
		}
		body["data"] = twice
	case mode == Reversed:
		slices.Reverse(items)
	default:
		for _, item := range items {
			editOne(mode, item.(map[string]any))
		}
	}
	return encode(body)
}

func editOne(mode Mode, one map[string]any) {
	switch mode {
	case UnknownState:
		one["status"] = "under_a_cloud"
	case WrongCurrency:
		if _, has := one["currency"]; has {
			one["currency"] = "eur"
		}
	case WrongOwner:
		one["id"] = "x_strangers"
		if _, has := one["card"]; has {
			one["card"] = "ic_strangers"
		}
		one["metadata"] = map[string]any{}
	case Partial:
		delete(one, "spending_controls")
		delete(one, "amount")
		delete(one, "issuing")
	}
	controls, _ := one["spending_controls"].(map[string]any)
	limits, _ := controls["spending_limits"].([]any)
	issuing, _ := one["issuing"].(map[string]any)
	available, _ := issuing["available"].([]any)
	for _, amount := range append(append([]any{one}, limits...), available...) {
		editAmount(mode, amount.(map[string]any))
	}
}

func editAmount(mode Mode, one map[string]any) {
	amount, ok := one["amount"].(float64)
	if !ok {
		return
	}
	switch mode {
	case WrongAmount:
		one["amount"] = amount + 1
	case Inexact:
		one["amount"] = amount + 0.5
	case WrongUnit:
		one["amount"] = amount / 100
	case WrongCurrency:
		if _, has := one["currency"]; has {
			one["currency"] = "eur"
		}
	}
}
