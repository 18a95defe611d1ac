package esimgo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/roamcard/roamcard/internal/provider/wire"
)

// maxAnswer is larger than a page of the catalogue.
const maxAnswer = 4 << 20

// request is one call to the vendor.
type request struct {
	op     string
	method string
	path   []string
	// route is the path without names in it, for traces.
	route string
	query url.Values
	body  any
	// sends says that it makes an order: no failure settles what has become of it.
	sends bool
}

// failure is an answer other than 200.
type failure struct {
	status int
	// stated says that the body is the vendor's own, and not a proxy's page.
	stated bool
	// processing says that the vendor asks to come again.
	processing bool
}

func (f *failure) Error() string { return fmt.Sprintf("status %d", f.status) }

// declined is a documented no: 400, or 404 for a name, in the vendor's own form. 403 is none, as it stands for a bad
// key, too, nor is anything else.
func declined(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.stated && (f.status == http.StatusBadRequest || f.status == http.StatusNotFound)
}

// call sends once and decodes a success into an answer.
func (s *Supplier) call(ctx context.Context, rq request, into any) error {
	return s.wire.Send(ctx, wire.Request{
		Op: rq.op, Method: rq.method, Path: rq.path, Route: rq.route, Query: rq.query, Body: rq.body, Most: maxAnswer,
		// Any answer may quote activation data.
		Confidential: true,
	}, func(a wire.Answer) (bool, error) {
		err := understand(a, into)
		return err == nil || (declined(err) && !rq.sends), err
	})
}

func understand(a wire.Answer, into any) error {
	switch {
	case a.Status != http.StatusOK:
		return &failure{
			status: a.Status, stated: stated(a.Body),
			processing: a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != "",
		}
	case wire.Decode(a.Body, into) != nil:
		return wire.Undocumented
	}
	return nil
}

// stated recognises the vendor's own form of a failure: an object with a message, and nothing that was made.
func stated(answer []byte) bool {
	var said struct {
		Message   *string `json:"message"`
		Reference string  `json:"orderReference"`
	}
	return wire.Decode(answer, &said) == nil && said.Message != nil && said.Reference == ""
}
