package stripefake

import (
	"net/http"

	"github.com/roamcard/roamcard/internal/vendorfake"
)

// The modes that are this vendor's own.
const (
	Idempotency vendorfake.Mode = "idempotency" // 400 idempotency_error
	Locked      vendorfake.Mode = "locked"      // 429 with lock_timeout
	Forbidden   vendorfake.Mode = "forbidden"   // 403
	Strange     vendorfake.Mode = "strange"     // 400 invalid_request_error with a code that is not documented
	Plain       vendorfake.Mode = "plain"       // 400 without JSON, as of a proxy
	Moved       vendorfake.Mode = "moved"       // 307 to the same place, the right answer as its body
	Accepted    vendorfake.Mode = "accepted"    // 202 with the right answer
)

// vendor says what requests go through, and how they go wrong.
func (s *Server) vendor() vendorfake.Vendor {
	changing := []string{"open", "move", "lock"}
	lists := []string{"cards", "authorizations", "transactions"}
	return vendorfake.Vendor{
		Ops: []string{
			"open", "move", "lock", "card", "cards", "authorizations", "transactions", "cardholder", "balance", "embed",
		},
		Authenticate: s.authenticate,
		Modes: map[vendorfake.Mode][]string{
			vendorfake.UnknownState:  {"open", "move", "lock", "card", "cards", "authorizations", "cardholder"},
			vendorfake.WrongAmount:   {"open", "move", "card"},
			vendorfake.Inexact:       {"open", "move", "card", "cards", "authorizations", "transactions", "balance"},
			vendorfake.WrongCurrency: {"open", "move", "card", "authorizations", "transactions", "balance"},
			vendorfake.WrongUnit:     {"open", "move", "card"},
			vendorfake.WrongOwner:    {"open", "move", "lock", "card", "authorizations", "transactions", "cardholder"},
			vendorfake.Partial: {
				"open", "move", "lock", "card", "cards", "authorizations", "transactions", "balance",
			},
			vendorfake.Repeated: lists, vendorfake.Reordered: lists,
			vendorfake.Refused: changing, vendorfake.Conflict: changing, Idempotency: changing,
			vendorfake.Late: changing, // until Reveal
			Locked:          nil, Forbidden: nil, Strange: nil, Plain: nil, Moved: nil, Accepted: nil,
		},
		Refuse: refuse,
		Failed: func(text string) vendorfake.Reply { return vendorfake.Text(http.StatusBadGateway, text) },
		Replace: func(mode vendorfake.Mode, a vendorfake.Reply) (vendorfake.Reply, bool) {
			switch mode {
			case Moved:
				return vendorfake.Reply{
					Status: http.StatusTemporaryRedirect, Body: a.Body, Header: map[string]string{"Location": "/v1/balance"},
				}, true
			case Accepted:
				a.Status = http.StatusAccepted
				return a, true
			}
			return a, false
		},
		Conceal: func() { s.change(func() { s.books.Cards[len(s.books.Cards)-1].Hidden = true }) },
		Huge:    9 << 20,
		Lists:   []string{"data"},
		Edit:    edit,
	}
}

// refuse is the vendor's answer to a request that has no effect.
func refuse(fault vendorfake.Fault, _ *http.Request) (vendorfake.Reply, bool) {
	if fault.Mode == Plain {
		return vendorfake.Text(http.StatusBadRequest, "bad request"), true
	}
	no, ok := plain[fault.Mode]
	if !ok {
		return vendorfake.Reply{}, false
	}
	return answered(nil, no), true
}

// plain are the modes that answer without an effect.
var plain = map[vendorfake.Mode]*problem{
	vendorfake.ErrorBefore: {http.StatusServiceUnavailable, "api_error", "", "", "Something went wrong."},
	vendorfake.Refused:     {http.StatusBadRequest, "invalid_request_error", "", "", "Your request cannot be run."},
	Idempotency: {
		http.StatusBadRequest, "idempotency_error", "", "", "The key was used with other parameters.",
	},
	vendorfake.Conflict: {
		http.StatusConflict, "idempotency_error", "idempotency_key_in_use", "", "Another request is under way.",
	},
	Locked: {
		http.StatusTooManyRequests, "invalid_request_error", "lock_timeout", "", "The object is locked.",
	},
	vendorfake.RateLimited: {http.StatusTooManyRequests, "invalid_request_error", "rate_limit", "", "Too many requests."},
	vendorfake.Unauthorized: {
		http.StatusUnauthorized, "invalid_request_error", "api_key_expired", "", "Expired API Key provided: sk_***",
	},
	Forbidden: {http.StatusForbidden, "invalid_request_error", "", "", "The key has no permission."},
	Strange:   {http.StatusBadRequest, "invalid_request_error", "moon_in_wrong_phase", "", "Try when it is full."},
}

// edit changes one object of an answer.
func edit(mode vendorfake.Mode, one map[string]any) {
	switch mode {
	case vendorfake.UnknownState:
		one["status"] = "under_a_cloud"
	case vendorfake.WrongCurrency:
		vendorfake.Replace(one, "eur", "currency")
	case vendorfake.WrongOwner:
		one["id"] = "x_strangers"
		vendorfake.Replace(one, "ic_strangers", "card")
		one["metadata"] = map[string]any{}
	case vendorfake.Partial:
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

func editAmount(mode vendorfake.Mode, one map[string]any) {
	if _, has := one["amount"]; !has {
		return
	}
	vendorfake.Change(one, mode, "amount")
	if mode == vendorfake.WrongCurrency {
		vendorfake.Replace(one, "eur", "currency")
	}
}
