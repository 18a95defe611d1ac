package sandbox

import (
	"net/http"
	"strconv"
	"time"

	"github.com/roamcard/roamcard/internal/vendorfake"
)

// The fault modes that are the sandbox's own.
const (
	modeEarly vendorfake.Mode = "early" // the end is reported before it is reached
	modeStale vendorfake.Mode = "stale" // the beginning is reported after the end
)

var issuerOps = []string{
	"open", "account", "move", "moved", "balance", "sensitive", "stock", "statement", "lock", "purchases", "left", "end",
	"limits", "set_limits", "details",
}

// misbehaving is how requests go wrong.
func misbehaving() vendorfake.Vendor {
	return vendorfake.Vendor{
		Modes: map[vendorfake.Mode][]string{
			vendorfake.Late: nil, vendorfake.Refused: nil, vendorfake.NotFound: nil, vendorfake.UnknownState: nil,
			vendorfake.WrongAmount: nil, vendorfake.Inexact: nil, vendorfake.WrongCurrency: nil, vendorfake.WrongOwner: nil,
			vendorfake.Duplicate: nil, modeEarly: nil, modeStale: nil,
		},
		Refuse: refuse,
		Failed: func(text string) vendorfake.Reply {
			return answered(nil, &problem{http.StatusBadGateway, codeInternal, text})
		},
		Hold: time.Minute,
		Huge: 8 << 20,
		// Answers are in an envelope.
		Inside: "data",
		Lists:  []string{"items"},
		Edit:   edit,
	}
}

// refuse is the vendor's answer to a request that has no effect.
func refuse(f vendorfake.Fault, r *http.Request) (vendorfake.Reply, bool) {
	no := func(status int, code, message string) (vendorfake.Reply, bool) {
		return answered(nil, &problem{status, code, message}), true
	}
	switch f.Mode {
	case vendorfake.ErrorBefore:
		return no(http.StatusServiceUnavailable, codeInternal, "try again later")
	case vendorfake.Refused:
		return no(http.StatusUnprocessableEntity, codeDeclined, "the request is declined")
	case vendorfake.NotFound:
		// The vendor's answer when it has nothing: an empty list to a look-up.
		if r.Method == http.MethodGet && r.URL.Query().Has("reference") {
			return answered(listBody[cardBody]{Items: []cardBody{}}, nil), true
		}
		return answered(nil, errNoCard), true
	case vendorfake.RateLimited:
		many, _ := no(http.StatusTooManyRequests, codeRateLimited, "too many requests")
		many.Header["Retry-After"] = strconv.Itoa(int(f.Delay(time.Second).Seconds() + 1))
		return many, true
	case vendorfake.Unauthorized:
		return no(http.StatusUnauthorized, codeUnauthorized, "the API key has expired")
	}
	return vendorfake.Reply{}, false
}

// edit changes one object of an answer.
func edit(mode vendorfake.Mode, one map[string]any) {
	switch mode {
	case vendorfake.UnknownState:
		vendorfake.Replace(one, "quarantined", "status")
	case vendorfake.WrongCurrency:
		vendorfake.Replace(one, "EUR", "currency")
	case vendorfake.WrongOwner:
		vendorfake.Replace(one, "00000000-0000-4000-8000-000000000000", "reference")
		vendorfake.Replace(one, "crd_somebody_else", "cardId")
		if _, profile := one["usedBytes"]; profile {
			vendorfake.Replace(one, "esm_somebody_else", "id")
		}
	case modeEarly:
		editStatus(one, string(cardLive), string(moveDone))
	case modeStale:
		editStatus(one, string(cardPreparing), string(moveQueued))
	default:
		vendorfake.Change(one, mode, "loadCents", "amountCents", "availableCents", "costMicros")
	}
}

func editStatus(one map[string]any, card, movement string) {
	status := card
	if _, moves := one["direction"]; moves {
		status = movement
	}
	vendorfake.Replace(one, status, "status")
	delete(one, "reason")
}
