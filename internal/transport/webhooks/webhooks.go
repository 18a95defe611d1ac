// Package webhooks serves the path where providers send events by themselves.
package webhooks

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/transport/rest"
	"github.com/roamcard/roamcard/internal/webhook"
)

// Pattern is the route.
const Pattern = "POST /api/webhooks/{provider}"

// Inbox takes the request of a provider.
type Inbox interface {
	// Takes refuses a provider whose events are not taken, and headers that sign nothing.
	Takes(ctx context.Context, provider string, header http.Header) error
	Receive(ctx context.Context, provider string, header http.Header, body []byte) error
}

// Handler answers 204 once an event is stored, and again for the same event. The body is taken as it is: its signature
// is over its bytes.
func Handler(in Inbox) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := in.Takes(r.Context(), r.PathValue("provider"), r.Header); err != nil {
			rest.Refuse(w, r, err) // before a stranger's body is read
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhook.MaxBody))
		if large := new(http.MaxBytesError); errors.As(err, &large) {
			rest.Problem(w, r, fault.New(fault.BodyTooLarge, ""))
			return
		}
		if err != nil {
			rest.Refuse(w, r, errors.Join(err, fault.New(fault.SchemaInvalid, "The body cannot be read.")))
			return
		}
		if err := in.Receive(r.Context(), r.PathValue("provider"), r.Header, body); err != nil {
			rest.Refuse(w, r, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}
