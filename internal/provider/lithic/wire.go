package lithic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/roamcard/roamcard/internal/provider/wire"
)

// request is one call to the vendor.
type request struct {
	op     string
	method string
	// path is below /v1; route is the same without names in it.
	path  []string
	route string
	query url.Values
	body  any
	// key is the Idempotency-Key; empty for none.
	key string
	// card says that the answer is about a card, and may hold its number: nothing of it goes into an error.
	card bool
}

// errAbsent is the vendor's 404, in its own form.
const errAbsent wire.Unclear = "the vendor knows nothing by this name"

// rejected is a request that the vendor does not take, in its own form: 400 or 422. It is no refusal yet: the vendor
// does not document what it answers to a name that was used for another request.
type rejected struct {
	status  int
	message string
}

func (r *rejected) Error() string { return fmt.Sprintf("status %d: %s", r.status, r.message) }

// send sends once and decodes a success into an answer. errAbsent and *rejected are the vendor's own words; any other
// error leaves the outcome unknown.
func (i *Issuer) send(ctx context.Context, rq request, into any) error {
	sent := wire.Request{
		Op: rq.op, Method: rq.method, Path: rq.path, Route: "/v1/" + rq.route, Query: rq.query, Body: rq.body,
		// Addresses name cards, and so do answers.
		Confidential: true,
	}
	if rq.key != "" {
		sent.Header = http.Header{"Idempotency-Key": {rq.key}}
	}
	return i.wire.Send(ctx, sent, func(a wire.Answer) (bool, error) {
		err := understand(a.Status, a.Body, rq.card, into)
		return err == nil || errors.Is(err, errAbsent), err
	})
}

func understand(status int, answer []byte, aboutCard bool, into any) error {
	if status == http.StatusOK {
		if wire.Decode(answer, into) != nil {
			return wire.Undocumented
		}
		return nil
	}
	var said struct {
		Message   *string `json:"message"`
		RequestID *string `json:"debugging_request_id"`
	}
	switch stated := wire.Decode(answer, &said) == nil && said.Message != nil && said.RequestID != nil; {
	case !stated:
		return wire.Unclear(fmt.Sprintf("status %d with an answer that does not match the documentation", status))
	case status == http.StatusNotFound:
		return errAbsent
	}
	message := wire.Quote(*said.Message, wire.HideCards)
	if aboutCard {
		message = "about a card"
	}
	if slices.Contains([]int{http.StatusBadRequest, http.StatusUnprocessableEntity}, status) {
		return &rejected{status, message}
	}
	return wire.Unclear(fmt.Sprintf("status %d: %s", status, message))
}
