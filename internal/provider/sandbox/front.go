package sandbox

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// call is one request to the vendor's API or to the control API.
type call = vendorfake.Call

// front is what every request to a vendor goes through: its key, its latency and its faults.
type front struct{ *vendorfake.Front }

func newFront(cfg Config, latency time.Duration, ops []string) front {
	key := cfg.APIKey
	if key.IsZero() {
		key = secret.New(DevKey)
	}
	v := misbehaving()
	v.Ops, v.Latency, v.Log, v.Reference = ops, latency, cfg.Log, referenceIn
	v.Authenticate = func(c call) (vendorfake.Reply, bool) {
		if secret.New(c.Header.Get("Authorization")).Equal(secret.New("Bearer " + key.Reveal())) {
			return vendorfake.Reply{}, false
		}
		return answered(nil, &problem{http.StatusUnauthorized, codeUnauthorized, "the API key is not valid"}), true
	}
	return front{vendorfake.New(v)}
}

// referenceIn is the client's reference of what a request makes; empty for one that makes nothing.
func referenceIn(body []byte) string {
	var asked struct {
		Reference string `json:"reference"`
	}
	_ = json.Unmarshal(body, &asked) // a look-up has no body
	return asked.Reference
}

// vendor serves an operation of the vendor's API.
func (f front) vendor(op string, do func(call) (any, error)) http.HandlerFunc {
	return f.Serve(vendorfake.Always(op), func(c call) vendorfake.Reply { return answered(do(c)) })
}
