package esimgofake

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// The modes that are this vendor's own.
const (
	BadRequest vendorfake.Mode = "bad_request"
	Processing vendorfake.Mode = "processing"
)

// lists are the members that are lists.
var lists = []string{"bundles", "orders", "esims"}

// Fault spoils the next request of a kind, and says whether it can. Faults of one kind queue up. An order that is
// refused is one whose validate says no.
func (s *Server) Fault(op string, mode vendorfake.Mode) bool {
	if mode == vendorfake.Refused {
		op = opCheck
	}
	return s.Front.Fault(op, mode)
}

// vendor says what requests go through, and how they go wrong.
func (s *Server) vendor() vendorfake.Vendor {
	return vendorfake.Vendor{
		Ops: Ops(),
		Authenticate: func(c vendorfake.Call) (vendorfake.Reply, bool) {
			if secret.New(c.Header.Get("X-API-Key")).Equal(s.cfg.APIKey) {
				return vendorfake.Reply{}, false
			}
			return no(http.StatusForbidden, "access denied"), true
		},
		Modes: map[vendorfake.Mode][]string{
			vendorfake.Refused: {opCheck}, vendorfake.UnknownState: nil, vendorfake.WrongAmount: nil, vendorfake.Inexact: nil,
			vendorfake.WrongCurrency: nil, vendorfake.WrongOwner: nil, vendorfake.Duplicate: nil, BadRequest: nil,
			Processing: nil,
		},
		Refuse: refuse,
		Failed: func(text string) vendorfake.Reply { return no(http.StatusBadGateway, text) },
		Huge:   8 << 20,
		Lists:  lists,
		Edit:   func(mode vendorfake.Mode, one map[string]any) { within(mode, "", one) },
	}
}

// refuse is the vendor's answer to a request that has no effect.
func refuse(fault vendorfake.Fault, _ *http.Request) (vendorfake.Reply, bool) {
	switch fault.Mode {
	case vendorfake.ErrorBefore:
		return no(http.StatusInternalServerError, "internal error"), true
	case BadRequest:
		return no(http.StatusBadRequest, "bad request"), true
	case vendorfake.RateLimited:
		return later(http.StatusTooManyRequests, "too many requests", 3), true
	case vendorfake.Unauthorized:
		return no(http.StatusForbidden, "access denied"), true
	case Processing:
		return later(http.StatusServiceUnavailable, "processing", 1), true
	}
	return vendorfake.Reply{}, false
}

// within changes the members of an answer, wherever they are.
func within(mode vendorfake.Mode, name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for member, inner := range v {
			v[member] = within(mode, member, inner)
		}
		return v
	case []any:
		for i := range v {
			v[i] = within(mode, "", v[i])
		}
		if mode == vendorfake.Duplicate && slices.Contains(lists, name) {
			v = append(v, v...)
		}
		return v
	}
	if change, ok := edits[mode][name]; ok {
		return change(value)
	}
	return value
}

var edits = map[vendorfake.Mode]map[string]func(any) any{
	vendorfake.Refused:       {"valid": always(false)},
	vendorfake.UnknownState:  {"status": always("quarantined"), "bundleState": always("Quarantined")},
	vendorfake.WrongAmount:   {"total": more("1"), "subTotal": more("1"), "pricePerUnit": more("1"), "price": more("1")},
	vendorfake.Inexact:       {"total": always(json.Number("1.0000005")), "balance": always(json.Number("1.0000005"))},
	vendorfake.WrongCurrency: {"currency": always("EUR")},
	vendorfake.WrongOwner: {
		"orderReference": always("00000000-0000-4000-8000-000000000000"), "item": always("esim_of_another"),
		"iccid": always("8900000000000000000"), "name": always("esim_of_another"),
	},
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
