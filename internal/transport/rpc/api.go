// Package rpc is the Connect services: message to domain call, answer to message, and no rule of its own.
package rpc

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/roamcard/roamcard/internal/activity"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/reconcile"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// Config is what the services are made of.
type Config struct {
	Checkout *checkout.Checkout
	Cards    *card.Cards
	Issued   card.Store
	Fees     card.FeeAdmin
	Treasury *reconcile.Reconciler
	Admin    checkout.Admin
	Esims    *esim.Esims
	Auth     *auth.Auth
	// Activity takes product events; Retention forgets challenges and sessions.
	Activity  *activity.Activity
	Retention auth.Retention
	Metrics   *telemetry.Metrics
	// Limits counts what wallets ask for; nil does not limit.
	Limits *limit.Limiter
	Terms  payment.Terms
	// BaseURL is the service's own origin, without a slash at the end. Requests never change it.
	BaseURL string
	// Environment is production or sandbox.
	Environment string
	Version     string
	// Extensions are what the challenge of a route carries beside the terms, by the route's path; nil
	// when there is nothing. It may be nil.
	Extensions func(path string) map[string]any
	// Health fails when the process cannot serve.
	Health func(ctx context.Context) error
	// Availability says of each product whether it can be sold now.
	Availability map[order.Kind]availability.Product
	Now          func() time.Time
}

// resource names what a call pays for: the URL of the route it came by.
func (c Config) resource(ctx context.Context) x402.Resource {
	return x402.Resource{URL: c.BaseURL + rpcx.Resource(ctx), MimeType: "application/json", ServiceName: "roamcard"}
}

// extensions are what the challenge of the call at hand carries beside the terms.
func (c Config) extensions(ctx context.Context) map[string]any {
	if c.Extensions == nil {
		return nil
	}
	path, _, _ := strings.Cut(rpcx.Resource(ctx), "?")
	return c.Extensions(path)
}

func timestamp(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t) }

func optionalTimestamp(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}
