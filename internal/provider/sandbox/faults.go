package sandbox

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/provider/wire/spoil"
)

// The fault modes. Before and after speak of the effect: "after" means it happened and the caller
// does not learn of it.
const (
	modeErrorBefore   = "error_before"   // 503
	modeErrorAfter    = "error_after"    // 502, its text repeating what was not to be seen
	modeTimeoutBefore = "timeout_before" // no answer, for delayMs or until the client leaves
	modeTimeoutAfter  = "timeout_after"
	modeLate          = "late"           // no answer; the effect is found only after delayMs
	modeRefused       = "refused"        // a definite refusal
	modeSlow          = "slow"           // the right answer, delayMs late
	modeHang          = "hang"           // timeout_before, but after the header was sent
	modeMalformed     = "malformed"      // a page in place of JSON
	modeTruncated     = "truncated"      // half an answer
	modeHuge          = "huge"           // a right answer of 8 MiB
	modeNotFound      = "not_found"      // look-ups find nothing, the rest is 404
	modeRateLimited   = "rate_limited"   // 429 with Retry-After
	modeUnauthorized  = "unauthorized"   // 401: the key has expired
	modeUnknownState  = "unknown_state"  // a status that is not documented
	modeWrongAmount   = "wrong_amount"   // a cent more
	modeInexact       = "inexact_amount" // half a cent more
	modeWrongCurrency = "wrong_currency" // EUR
	modeWrongOwner    = "wrong_owner"    // the answer to somebody else's request
	modeDuplicate     = "duplicate"      // every item of a list twice
	modeEarly         = "early"          // the end is reported before it is reached
	modeStale         = "stale"          // the beginning is reported after the end
)

var (
	faultOps = []string{
		"*", "open", "account", "move", "moved", "balance", "sensitive", "stock", "statement", "lock", "purchases",
		"left", "end", "limits", "set_limits", "details",
	}
	faultModes = []string{
		modeErrorBefore, modeErrorAfter, modeTimeoutBefore, modeTimeoutAfter, modeLate, modeRefused, modeSlow, modeHang,
		modeMalformed, modeTruncated, modeHuge, modeNotFound, modeRateLimited, modeUnauthorized, modeUnknownState,
		modeWrongAmount, modeInexact, modeWrongCurrency, modeWrongOwner, modeDuplicate, modeEarly, modeStale,
	}
)

// defaultHold is how long a request is held when the fault does not say.
const defaultHold = time.Minute

// fault is one instruction to misbehave.
type fault struct {
	Op      string `json:"op"`
	Mode    string `json:"mode"`
	DelayMS int64  `json:"delayMs,omitempty"`
	// Times is how many more requests fail; with 0 all do until it is cleared.
	Times int `json:"times"`
}

func (f fault) delay(otherwise time.Duration) time.Duration {
	if f.DelayMS > 0 {
		return time.Duration(f.DelayMS) * time.Millisecond
	}
	return otherwise
}

// faults are the active faults; the oldest that fits a request is used.
type faults struct {
	mu   sync.Mutex
	list []fault
}

func (f *faults) add(one fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, one)
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = nil
}

func (f *faults) standing() []fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]fault{}, f.list...)
}

func (f *faults) take(op string) (fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.IndexFunc(f.list, func(one fault) bool { return one.Op == op || one.Op == "*" })
	if at < 0 {
		return fault{}, false
	}
	taken := f.list[at]
	switch taken.Times {
	case 0:
	case 1:
		f.list = slices.Delete(f.list, at, at+1)
	default:
		f.list[at].Times--
	}
	return taken, true
}

// misbehave answers a request as a fault says.
func (v *front) misbehave(w http.ResponseWriter, f fault, c call, do func(call) (any, error)) {
	switch f.Mode {
	case modeErrorBefore:
		write(w, answered(nil, &problem{http.StatusServiceUnavailable, codeInternal, "try again later"}))
		return
	case modeTimeoutBefore:
		v.wait(c.request, f.delay(defaultHold))
		spoil.HangUp(w)
	case modeHang:
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		v.wait(c.request, f.delay(defaultHold))
		panic(http.ErrAbortHandler)
	case modeRefused:
		write(w, answered(nil, &problem{http.StatusUnprocessableEntity, codeDeclined, "the request is declined"}))
		return
	case modeNotFound:
		write(w, notFound(c.request))
		return
	case modeRateLimited:
		w.Header().Set("Retry-After", strconv.Itoa(int(f.delay(time.Second).Seconds()+1)))
		write(w, answered(nil, &problem{http.StatusTooManyRequests, codeRateLimited, "too many requests"}))
		return
	case modeUnauthorized:
		write(w, answered(nil, &problem{http.StatusUnauthorized, codeUnauthorized, "the API key has expired"}))
		return
	case modeSlow:
		if !v.wait(c.request, f.delay(defaultHold)) {
			spoil.HangUp(w)
		}
	case modeLate:
		c.hide = f.delay(defaultHold)
	}
	data, err := do(c)
	v.corrupt(w, f, c, answered(data, err))
}

// corrupt changes the answer to a request that has had its effect.
func (v *front) corrupt(w http.ResponseWriter, f fault, c call, r reply) {
	encoded, err := json.Marshal(r.body)
	if err != nil {
		panic("sandbox: encode an answer: " + err.Error())
	}
	switch f.Mode {
	case modeLate:
		spoil.HangUp(w)
	case modeTimeoutAfter:
		v.wait(c.request, f.delay(defaultHold))
		spoil.HangUp(w)
	case modeErrorAfter:
		write(w, answered(nil, &problem{http.StatusBadGateway, codeInternal, "while answering " + string(encoded)}))
	case modeMalformed:
		spoil.Page(w, encoded)
	case modeTruncated:
		spoil.Half(w, encoded)
	case modeHuge:
		spoil.Huge(w, encoded, 8<<20)
	case modeSlow:
		write(w, r)
	default:
		write(w, edit(f.Mode, r))
	}
}

// notFound is the vendor's answer when it has nothing: an empty list to a look-up, 404 otherwise.
func notFound(r *http.Request) reply {
	if r.Method == http.MethodGet && r.URL.Query().Has("reference") {
		return answered(listBody[cardBody]{Items: []cardBody{}}, nil)
	}
	return answered(nil, errNoCard)
}

// edit changes members of a successful answer and of each item of a list.
func edit(mode string, r reply) reply {
	if !r.body.OK {
		return r
	}
	encoded, err := json.Marshal(r.body.Data)
	if err != nil {
		panic("sandbox: encode an answer: " + err.Error())
	}
	var data map[string]any
	if err := json.Unmarshal(encoded, &data); err != nil {
		panic("sandbox: edit an answer: " + err.Error())
	}
	items, list := data["items"].([]any)
	if !list {
		editOne(mode, data)
		r.body.Data = data
		return r
	}
	for _, item := range items {
		if one, ok := item.(map[string]any); ok {
			editOne(mode, one)
		}
	}
	if mode == modeDuplicate {
		data["items"] = append(items, items...)
	}
	r.body.Data = data
	return r
}

func editOne(mode string, one map[string]any) {
	switch mode {
	case modeUnknownState:
		replace(one, "quarantined", "status")
	case modeWrongAmount, modeInexact:
		more := 1.0
		if mode == modeInexact {
			more = 0.5
		}
		for _, name := range []string{"loadCents", "amountCents", "availableCents", "costMicros"} {
			if cents, ok := one[name].(float64); ok {
				one[name] = cents + more
			}
		}
	case modeWrongCurrency:
		replace(one, "EUR", "currency")
	case modeWrongOwner:
		replace(one, "00000000-0000-4000-8000-000000000000", "reference")
		replace(one, "crd_somebody_else", "cardId")
		if _, profile := one["usedBytes"]; profile {
			replace(one, "esm_somebody_else", "id")
		}
	case modeEarly:
		editStatus(one, string(cardLive), string(moveDone))
	case modeStale:
		editStatus(one, string(cardPreparing), string(moveQueued))
	}
}

func editStatus(one map[string]any, card, movement string) {
	status := card
	if _, moves := one["direction"]; moves {
		status = movement
	}
	replace(one, status, "status")
	delete(one, "reason")
}

func replace(one map[string]any, value, name string) {
	if _, has := one[name]; has {
		one[name] = value
	}
}
