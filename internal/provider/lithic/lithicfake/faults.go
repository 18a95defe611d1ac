package lithicfake

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
	Late          Mode = "late"           // the connection breaks, and lists do not have the card until Reveal
	Refused       Mode = "refused"        // 400, in the vendor's form
	Conflict      Mode = "conflict"       // 409, in the vendor's form
	Malformed     Mode = "malformed"      // a page in place of JSON
	Truncated     Mode = "truncated"      // half an answer
	Huge          Mode = "huge"           // a right answer behind 2 MiB of spaces
	RateLimited   Mode = "rate_limited"   // 429
	Unauthorized  Mode = "unauthorized"   // 401
	NotFound      Mode = "not_found"      // 404 with a page, as from something in between
	UnknownState  Mode = "unknown_state"  // a state that is not documented
	WrongAmount   Mode = "wrong_amount"   // a cent more
	Inexact       Mode = "inexact_amount" // half a cent more
	WrongCurrency Mode = "wrong_currency" // EUR
	WrongUnit     Mode = "wrong_unit"     // dollars
	WrongOwner    Mode = "wrong_owner"    // the answer to somebody else's request
	Partial       Mode = "partial"        // a part of a transfer has settled
	Duplicate     Mode = "duplicate"      // everything of a list twice
	Contradiction Mode = "contradiction"  // everything of a list twice, the second another
	Reordered     Mode = "reordered"      // a list from its end
	Reversed      Mode = "reversed"       // a transfer that was taken back
)

// edits are the modes that only change what an answer says, with the operations that say it.
var edits = map[Mode][]string{
	UnknownState:  {"account", "open", "move", "moved", "state", "purchases"},
	WrongAmount:   {"move", "moved"},
	Inexact:       {"move", "moved", "balance", "stock", "purchases"},
	WrongCurrency: {"move", "moved", "balance", "stock", "purchases"},
	WrongUnit:     {"move", "moved"},
	WrongOwner:    {"open", "account", "move", "moved", "sensitive", "program", "state", "purchases"},
	Partial:       {"move", "moved"},
	Duplicate:     {"account", "events", "accounts", "transfers", "purchases"},
	Contradiction: {"account"},
	Reordered:     {"account", "events", "purchases"},
	Reversed:      {"moved"},
	Refused:       {"open", "move", "state", "purchases"},
	Late:          {"open"},
}

// Fault spoils the next request of an operation, and says whether it can: an answer that names no amount cannot name a
// wrong one. Faults of one operation queue up.
func (s *Server) Fault(op string, mode Mode) bool {
	if ops, edit := edits[mode]; edit && !slices.Contains(ops, op) {
		return false
	}
	s.faults.Add(op, mode)
	return true
}

// misbehave answers a request as a fault says.
func (s *Server) misbehave(w http.ResponseWriter, mode Mode, do func() reply) {
	refuse := func(status int, message string) { write(w, answered(nil, &problem{status, message})) }
	switch mode {
	case ErrorBefore:
		refuse(http.StatusServiceUnavailable, "service unavailable")
	case TimeoutBefore:
		spoil.HangUp(w)
	case Refused:
		refuse(http.StatusBadRequest, "the request is not valid")
	case Conflict:
		refuse(http.StatusConflict, "a request with the same key is being worked on")
	case RateLimited:
		refuse(http.StatusTooManyRequests, "too many requests")
	case Unauthorized:
		refuse(http.StatusUnauthorized, "the API key has expired")
	case NotFound:
		http.NotFound(w, nil)
	default:
		s.spoil(w, mode, do())
	}
}

// spoil changes the answer to a request that has had its effect.
func (s *Server) spoil(w http.ResponseWriter, mode Mode, r reply) {
	encoded := encode(r.body)
	switch mode {
	case TimeoutAfter:
		spoil.HangUp(w)
	case Late:
		s.mu.Lock()
		s.cards[len(s.cards)-1].hidden = true
		s.mu.Unlock()
		spoil.HangUp(w)
	case ErrorAfter:
		write(w, answered(nil, &problem{http.StatusBadGateway, "while answering " + string(encoded)}))
	case Malformed:
		spoil.Page(w, encoded)
	case Truncated:
		spoil.Half(w, encoded)
	case Huge:
		spoil.Huge(w, encoded, 2<<20)
	default:
		write(w, reply{r.status, edit(mode, encoded)})
	}
}

const strangers = "00000000-0000-4000-8000-000000000000"

// edit changes members of a successful answer, and of each item of its list.
func edit(mode Mode, encoded []byte) any {
	var answer map[string]any
	if err := json.Unmarshal(encoded, &answer); err != nil {
		panic("lithicfake: edit an answer: " + err.Error())
	}
	items, ok := answer["data"].([]any)
	if !ok {
		editOne(mode, answer)
		return answer
	}
	switch mode {
	case Reordered:
		slices.Reverse(items)
	case Duplicate, Contradiction:
		for _, item := range slices.Clone(items) {
			again := map[string]any{}
			for name, value := range item.(map[string]any) {
				again[name] = value
			}
			if mode == Contradiction {
				again["token"] = strangers
			}
			items = append(items, again)
		}
	default:
		for _, item := range items {
			editOne(mode, item.(map[string]any))
		}
	}
	answer["data"] = items
	return answer
}

func editOne(mode Mode, one map[string]any) {
	if parts, ok := one["amounts"].(map[string]any); ok {
		for _, part := range parts {
			editOne(mode, part.(map[string]any))
		}
	}
	switch mode {
	case UnknownState:
		replace(one, "QUARANTINED", "state")
		replace(one, "QUARANTINED", "status")
	case WrongCurrency:
		replace(one, "EUR", "currency")
	case WrongOwner:
		replace(one, strangers, "token")
		replace(one, strangers, "card_token")
		replace(one, "somebody else's", "memo")
	case Partial:
		amounts(one, func(cents float64) float64 { return cents - 1 }, "settled_amount")
	case Reversed:
		replace(one, "REVERSED", "status")
	default:
		change := map[Mode]func(float64) float64{
			WrongAmount: func(cents float64) float64 { return cents + 1 },
			Inexact:     func(cents float64) float64 { return cents + 0.5 },
			WrongUnit:   func(cents float64) float64 { return cents / 100 },
		}[mode]
		amounts(one, change, "settled_amount", "available_amount")
		if _, rated := one["currency"]; rated {
			amounts(one, change, "amount")
		}
		if events, ok := one["events"].([]any); ok {
			for _, e := range events {
				amounts(e.(map[string]any), change, "amount")
			}
		}
	}
}

func amounts(one map[string]any, change func(float64) float64, names ...string) {
	for _, name := range names {
		if cents, ok := one[name].(float64); ok {
			one[name] = change(cents)
		}
	}
}

func replace(one map[string]any, value, name string) {
	if _, has := one[name]; has {
		one[name] = value
	}
}
