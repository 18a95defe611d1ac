package esimaccess

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/secret"
)

// The sizes that no documented answer reaches. The catalogue lists every operator of every country of every package.
const (
	maxProfiles  = 4 << 20
	maxCatalogue = 32 << 20
)

// request is one call to the vendor, always a POST.
type request struct {
	op   string
	path string
	body any
	// most is the longest answer; the usual one if zero.
	most int64
	// confidential answers: nothing of what they say, not even an error text, goes into an error.
	confidential bool
	// known is our error for one of the vendor's codes, or nil when the code leaves the outcome unknown. May be nil.
	known func(code, message string) error
}

// errAllocating says that the vendor has the order and still allocates its profile.
var errAllocating = errors.New("the profile is being allocated")

// send sends once and decodes a success into an answer. Its error is what the request knows of the vendor's code; any
// other error leaves the outcome unknown.
func (s *Supplier) send(ctx context.Context, rq request, into any) error {
	return s.wire.Send(ctx, wire.Request{
		Op: rq.op, Method: http.MethodPost, Path: strings.Split(rq.path, "/"), Route: "/api/v1/open/" + rq.path,
		Body: rq.body, Most: rq.most,
		// What broke a connection is told of no request in other words than ours.
		Confidential: true,
	}, func(a wire.Answer) (bool, error) { return understand(a.Status, a.Body, rq, into) })
}

// signed puts the account and the signature of a request on it.
func signed(accessCode, key secret.Text, now func() time.Time) func(h http.Header, body []byte) {
	return func(h http.Header, body []byte) {
		timestamp, id := strconv.FormatInt(now().UnixMilli(), 10), uuid.NewString()
		h.Set("RT-AccessCode", accessCode.Reveal())
		h.Set("RT-Timestamp", timestamp)
		h.Set("RT-RequestID", id)
		h.Set("RT-Signature", signature(key, timestamp, id, accessCode, body))
	}
}

// signature is the HMAC-SHA256 of all that the vendor signs, in lower-case hex.
func signature(key secret.Text, timestamp, id string, accessCode secret.Text, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key.Reveal()))
	for _, part := range [][]byte{[]byte(timestamp), []byte(id), []byte(accessCode.Reveal()), body} {
		_, _ = mac.Write(part) // never fails
	}
	return hex.EncodeToString(mac.Sum(nil))
}
