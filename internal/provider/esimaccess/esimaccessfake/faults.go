package esimaccessfake

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/roamcard/roamcard/internal/vendorfake"
)

// The modes that are this vendor's own.
const (
	BusyBefore vendorfake.Mode = "busy_before" // the envelope of a system that is busy
	Documented vendorfake.Mode = "documented"  // success as the text that the documentation shows, no error code
)

// vendor says what requests go through, and how they go wrong.
func (s *Server) vendor() vendorfake.Vendor {
	return vendorfake.Vendor{
		Ops: []string{
			"plans", "check", "balance", "order", "ordered", "profile", "usage", "cancel", "topups", "topup",
		},
		Authenticate: s.authenticate,
		Modes: map[vendorfake.Mode][]string{
			vendorfake.UnknownState:  {"ordered", "profile"},
			vendorfake.WrongAmount:   {"check"},
			vendorfake.Inexact:       {"plans", "check"},
			vendorfake.WrongCurrency: {"plans", "check"},
			vendorfake.WrongUnit:     {"plans", "check"},
			vendorfake.WrongOwner:    {"order", "ordered", "profile", "check", "topup"},
			vendorfake.Duplicate:     {"ordered"},
			vendorfake.Contradiction: {"ordered"},
			vendorfake.Reordered:     {"plans", "ordered"},
			vendorfake.Partial:       {"ordered"}, // a profile without its activation code
			vendorfake.Refused:       {"order", "topup"},
			vendorfake.Late:          nil, // lists by time do not have the effect yet
			BusyBefore:               nil,
			Documented:               nil,
		},
		Refuse: refuse,
		Failed: func(text string) vendorfake.Reply { return vendorfake.Text(http.StatusBadGateway, text) },
		Replace: func(mode vendorfake.Mode, a vendorfake.Reply) (vendorfake.Reply, bool) {
			a.Body = bytes.Replace(a.Body, []byte(`"success":true,"errorCode":"0"`),
				[]byte(`"success":"true","errorCode":null`), 1)
			return a, mode == Documented
		},
		Conceal: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.orders[len(s.orders)-1].Hidden = true
		},
		Huge:   33 << 20,
		Inside: "obj",
		Lists:  []string{"packageList", "esimList"},
		Edit:   edit,
	}
}

// refuse is the vendor's answer to a request that has no effect.
func refuse(fault vendorfake.Fault, _ *http.Request) (vendorfake.Reply, bool) {
	switch fault.Mode {
	case vendorfake.ErrorBefore:
		return vendorfake.Text(http.StatusServiceUnavailable, "service unavailable"), true
	case vendorfake.RateLimited:
		no := vendorfake.Text(http.StatusTooManyRequests, "too many requests")
		no.Header["Retry-After"] = "1"
		return no, true
	}
	no, ok := map[vendorfake.Mode]*problem{
		BusyBefore:              {"900001", "the system is busy, please try again later"},
		vendorfake.Refused:      {codeStock, "insufficient available profiles for the package"},
		vendorfake.Unauthorized: {codeSignature, "request signature mismatch"},
	}[fault.Mode]
	if !ok {
		return vendorfake.Reply{}, false
	}
	return answered(nil, no), true
}

const strangers = "00000000-0000-4000-8000-000000000000-1"

// edit changes one object of an answer.
func edit(mode vendorfake.Mode, one map[string]any) {
	switch mode {
	case vendorfake.UnknownState:
		vendorfake.Replace(one, "QUARANTINED", "esimStatus")
	case vendorfake.WrongUnit:
		if price, ok := one["price"].(json.Number); ok {
			units, _ := price.Float64() // it is the fake's own
			one["price"] = units/10_000 + 0.001
		}
	case vendorfake.WrongCurrency:
		vendorfake.Replace(one, "EUR", "currencyCode")
	case vendorfake.WrongOwner:
		vendorfake.Replace(one, strangers, "transactionId")
		vendorfake.Replace(one, "SOMEBODYELSES", "packageCode")
		vendorfake.Replace(one, "99999999999999", "esimTranNo")
	case vendorfake.Contradiction:
		vendorfake.Replace(one, "99999999999999", "esimTranNo")
	case vendorfake.Partial:
		delete(one, "ac")
	default:
		vendorfake.Change(one, mode, "price")
	}
}
