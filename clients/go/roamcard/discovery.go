package roamcard

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// Discovery reads what the service publishes of itself.
type Discovery struct{ client *Client }

// Config is the service's public settings, asked for once.
func (d Discovery) Config(ctx context.Context) (*roamcardv1.GetConfigResponse, error) {
	return d.client.settings(ctx)
}

// Status says how each product stands, since when, and how long recent deliveries took.
func (d Discovery) Status(ctx context.Context) (*roamcardv1.GetStatusResponse, error) {
	return d.client.Services.Runtime.GetStatus(ctx, &roamcardv1.GetStatusRequest{})
}

// Card is the contract of the purchase of a card.
func (d Discovery) Card(ctx context.Context) (*roamcardv1.GetCardDiscoveryResponse, error) {
	return d.client.Services.Card.GetCardDiscovery(ctx, &roamcardv1.GetCardDiscoveryRequest{})
}

// TopUp is the contract of a top-up.
func (d Discovery) TopUp(ctx context.Context) (*roamcardv1.GetTopupDiscoveryResponse, error) {
	return d.client.Services.Card.GetTopupDiscovery(ctx, &roamcardv1.GetTopupDiscoveryRequest{})
}

// ESIM is the contract of the purchase of an eSIM.
func (d Discovery) ESIM(ctx context.Context) (*roamcardv1.GetEsimDiscoveryResponse, error) {
	return d.client.Services.Esim.GetEsimDiscovery(ctx, &roamcardv1.GetEsimDiscoveryRequest{})
}

// Agent is the contract for agents: a JSON document.
func (d Discovery) Agent(ctx context.Context) (document json.RawMessage, err error) {
	err = d.client.read(ctx, func(ctx context.Context) error {
		document, err = d.client.document(ctx, "/api/agent")
		return err
	})
	return document, err
}

// document reads a REST route that is public.
func (c *Client) document(ctx context.Context, path string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(ctx, c.config.Timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.origin+path, nil)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return nil, unwrapped(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, problemOf(res)
	}
	document, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return document, nil
}
