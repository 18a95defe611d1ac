package lithicfake

import (
	"encoding/json"
	"net/http"

	"github.com/roamcard/roamcard/internal/vendorfake"
)

// Reversed is a transfer that was taken back.
const Reversed vendorfake.Mode = "reversed"

// vendor says what requests go through, and how they go wrong.
func (s *Server) vendor() vendorfake.Vendor {
	return vendorfake.Vendor{
		Ops: []string{
			"open", "account", "accounts", "sensitive", "embed", "state", "balance", "stock", "program", "move", "transfers",
			"moved", "events", "purchases",
		},
		Authenticate: s.authenticate,
		Modes: map[vendorfake.Mode][]string{
			vendorfake.UnknownState:  {"account", "open", "move", "moved", "state", "purchases"},
			vendorfake.WrongAmount:   {"move", "moved"},
			vendorfake.Inexact:       {"move", "moved", "balance", "stock", "purchases"},
			vendorfake.WrongCurrency: {"move", "moved", "balance", "stock", "purchases"},
			vendorfake.WrongUnit:     {"move", "moved"},
			vendorfake.WrongOwner: {
				"open", "account", "move", "moved", "sensitive", "program", "state", "purchases",
			},
			vendorfake.Partial:       {"move", "moved"},
			vendorfake.Duplicate:     {"account", "events", "accounts", "transfers", "purchases"},
			vendorfake.Contradiction: {"account"},
			vendorfake.Reordered:     {"account", "events", "purchases"},
			Reversed:                 {"moved"},
			vendorfake.Refused:       {"open", "move", "state", "purchases"},
			vendorfake.Late:          {"open"}, // until Reveal
			vendorfake.Conflict:      nil,
			vendorfake.NotFound:      nil,
		},
		Refuse: refuse,
		Failed: func(text string) vendorfake.Reply { return answered(nil, &problem{http.StatusBadGateway, text}) },
		Conceal: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.cards[len(s.cards)-1].hidden = true
		},
		Huge:  2 << 20,
		Lists: []string{"data"},
		Edit:  edit,
	}
}

// refuse is the vendor's answer to a request that has no effect.
func refuse(fault vendorfake.Fault, _ *http.Request) (vendorfake.Reply, bool) {
	if fault.Mode == vendorfake.NotFound {
		return vendorfake.Text(http.StatusNotFound, "404 page not found"), true // as from something in between
	}
	no, ok := map[vendorfake.Mode]*problem{
		vendorfake.ErrorBefore:  {http.StatusServiceUnavailable, "service unavailable"},
		vendorfake.Refused:      {http.StatusBadRequest, "the request is not valid"},
		vendorfake.Conflict:     {http.StatusConflict, "a request with the same key is being worked on"},
		vendorfake.RateLimited:  {http.StatusTooManyRequests, "too many requests"},
		vendorfake.Unauthorized: {http.StatusUnauthorized, "the API key has expired"},
	}[fault.Mode]
	if !ok {
		return vendorfake.Reply{}, false
	}
	return answered(nil, no), true
}

const strangers = "00000000-0000-4000-8000-000000000000"

// edit changes one object of an answer.
func edit(mode vendorfake.Mode, one map[string]any) {
	if parts, ok := one["amounts"].(map[string]any); ok {
		for _, part := range parts {
			edit(mode, part.(map[string]any))
		}
	}
	switch mode {
	case vendorfake.UnknownState:
		vendorfake.Replace(one, "QUARANTINED", "state", "status")
	case vendorfake.WrongCurrency:
		vendorfake.Replace(one, "EUR", "currency")
	case vendorfake.WrongOwner:
		vendorfake.Replace(one, strangers, "token", "card_token")
		vendorfake.Replace(one, "somebody else's", "memo")
	case vendorfake.Contradiction:
		vendorfake.Replace(one, strangers, "token")
	case vendorfake.Partial:
		if settled, ok := one["settled_amount"].(json.Number); ok {
			cents, _ := settled.Int64() // it is the fake's own
			one["settled_amount"] = cents - 1
		}
	case Reversed:
		vendorfake.Replace(one, "REVERSED", "status")
	default:
		vendorfake.Change(one, mode, "settled_amount", "available_amount")
		if _, rated := one["currency"]; rated {
			vendorfake.Change(one, mode, "amount")
		}
		if events, ok := one["events"].([]any); ok {
			for _, e := range events {
				vendorfake.Change(e.(map[string]any), mode, "amount")
			}
		}
	}
}
