package sandbox

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/secret"
)

const defaultVisibilityDelay = 30 * time.Second

// dial makes a client. The sandbox may be anywhere, without https: what it sells is not real.
func dial(cfg ClientConfig, role string) (*wire.Client, error) {
	anywhere := outward.Rule{Anywhere: true}
	base, err := anywhere.Origin(cfg.URL)
	if err != nil {
		return nil, err
	}
	key := cfg.APIKey
	if key.IsZero() {
		key = secret.New(DevKey)
	}
	return wire.New(wire.Config{
		Provider: providerName, Role: role, Base: base, Rule: anywhere, HTTP: cfg.HTTP, Timeout: cfg.Timeout, Now: cfg.Now,
		Tracer: cfg.Tracer, Metrics: cfg.Metrics,
		Authorize: func(h http.Header, _ []byte) { h.Set("Authorization", "Bearer "+key.Reveal()) },
	}), nil
}

// request is one call to the vendor.
type request struct {
	op     string
	method string
	// under is the folder of the vendor's API; empty is the root.
	under string
	path  []string
	// route is the path without names in it, for traces.
	route string
	// ref is looked up, when it is set.
	ref uuid.UUID
	// query is what else is asked in the address.
	query url.Values
	body  any
	// confidential answers: nothing of what they say, not even an error text, goes into an error.
	confidential bool
}

// send sends once and decodes a success into an answer. Its error is a *fulfilment.Refusal for a definite
// no; any other error leaves the outcome unknown.
func send(ctx context.Context, c *wire.Client, rq request, definite codes, into any) error {
	sent := wire.Request{
		Op: rq.op, Method: rq.method, Path: append([]string{"v1"}, rq.path...), Route: rq.route, Query: rq.query,
		Body: rq.body, Confidential: rq.confidential,
	}
	if rq.under != "" {
		sent.Path = append([]string{rq.under}, sent.Path...)
	}
	if rq.ref != uuid.Nil {
		sent.Query = url.Values{"reference": {rq.ref.String()}}
	}
	return c.Send(ctx, sent, func(a wire.Answer) (bool, error) {
		err := understand(a.Status, a.Body, rq.confidential, definite, into)
		return err == nil, err
	})
}
