// Package chainalysis asks the sanctions screening API of Chainalysis about single addresses.
//
// Source: https://auth-developers.chainalysis.com/sanctions-screening/api-reference: GET /api/v1/address/{address} with
// the header X-API-Key answers {"identifications": [{"category", "name", "description", "url"}]}; an address that is
// not sanctioned has none.
package chainalysis

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

// DefaultURL is where the API is.
const DefaultURL = "https://public.chainalysis.com"

// maxAnswer is larger than any documented answer.
const maxAnswer = 1 << 20

// Config is how the API is reached.
type Config struct {
	// URL is the origin of the API; DefaultURL if empty.
	URL  string
	Rule outward.Rule
	Key  secret.Text
	// HTTP is nil for a client of its own, which keeps to Rule.
	HTTP *http.Client
}

// Client asks the API. It implements screening.Service.
type Client struct {
	base *url.URL
	key  secret.Text
	http *http.Client
}

// New makes a Client. It sends nothing yet.
func New(c Config) (*Client, error) {
	base, err := c.Rule.Origin(cmp.Or(c.URL, DefaultURL))
	if err != nil {
		return nil, fmt.Errorf("where the screening service is: %w", err)
	}
	if c.Key.IsZero() {
		return nil, errors.New("the screening service needs a key")
	}
	client := c.HTTP
	if client == nil {
		client = outward.New(outward.Config{Rule: c.Rule})
	}
	return &Client{base: base, key: c.Key, http: client}, nil
}

// Name implements screening.Service.
func (c *Client) Name() string { return "chainalysis" }

// Sanctioned implements screening.Service. ctx bounds the call.
func (c *Client) Sanctioned(ctx context.Context, payer x402.Address) (bool, error) {
	to := c.base.JoinPath("api", "v1", "address", payer.String())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return false, fmt.Errorf("ask the screening service: %w", err)
	}
	req.Header.Set("X-API-Key", c.key.Reveal())
	req.Header.Set("Accept", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return false, fmt.Errorf("ask the screening service: %w", outward.Cause(err))
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return false, fmt.Errorf("ask the screening service: it answered %d", res.StatusCode)
	}
	body, err := outward.Read(res.Body, maxAnswer)
	if err != nil {
		return false, fmt.Errorf("read the answer of the screening service: %w", err)
	}
	var answer struct {
		Identifications *[]struct {
			Category string `json:"category"`
		} `json:"identifications"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Identifications == nil {
		return false, errors.New("the screening service answered something else than identifications")
	}
	return len(*answer.Identifications) > 0, nil
}
