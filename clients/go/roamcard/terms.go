package roamcard

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// BaseUSDC is native USDC on Base, the one asset that is paid in unless another is pinned.
	BaseUSDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	// What BaseUSDC calls itself in its EIP-712 domain; nothing is signed over another one.
	usdcName, usdcVersion = "USD Coin", "2"
	// maxWindow is how many seconds a signed payment may stay good.
	maxWindow = 3600
)

// pins are what a challenge has to agree with.
type pins struct {
	payTo, asset x402.Address
	// resource is the address that was called.
	resource *url.URL
	// amount is the published price; zero when none is published.
	amount Cents
}

// pins are what the challenge of a call has to agree with.
func (p *Payer) pins(ctx context.Context, c call) (pins, error) {
	pinned := pins{resource: c.req.URL}
	if c.price != nil {
		var err error
		if pinned.amount, err = c.price(ctx); err != nil {
			return pins{}, err
		}
		if pinned.amount <= 0 {
			return pins{}, denied(ErrTermsMismatch, "there is no price to hold the 402 to; nothing was signed")
		}
	}
	asset, payTo := p.Policy.asset(), p.Policy.PayTo
	if payTo == "" {
		if p.PayTo == nil {
			return pins{}, denied(ErrPolicyDenied, "no payee is pinned")
		}
		var err error
		if payTo, err = p.PayTo(ctx); err != nil {
			return pins{}, fmt.Errorf("find the published payee: %w", err)
		}
	}
	var err1, err2 error
	pinned.asset, err1 = x402.ParseAddress(asset)
	pinned.payTo, err2 = x402.ParseAddress(payTo)
	if err := errors.Join(err1, err2); err != nil {
		return pins{}, fmt.Errorf("read the pinned addresses: %w", err)
	}
	return pinned, nil
}

// offer is a challenge whose terms were checked.
type offer struct {
	accepted x402.Requirements
	resource x402.Resource
	domain   x402.Domain
	payTo    x402.Address
	amount   money.USDC
}

// check takes the challenge's offer when it asks for exactly what is expected.
func (p pins) check(header string) (offer, error) {
	required, err := x402.DecodeRequired(header)
	if err != nil {
		return offer{}, denied(ErrTermsMismatch, "the 402 cannot be read: %v", err)
	}
	wrong := func(what string, got, want any) (offer, error) {
		return offer{}, denied(ErrTermsMismatch, "the 402 names the %s %v, expected %v; nothing was signed", what, got, want)
	}
	if required.X402Version != x402.Version {
		return wrong("x402 version", required.X402Version, x402.Version)
	}
	if len(required.Accepts) != 1 {
		return wrong("number of offers", len(required.Accepts), 1)
	}
	a := required.Accepts[0]
	payTo, payErr := x402.ParseAddress(a.PayTo)
	asset, assetErr := x402.ParseAddress(a.Asset)
	amount, amountErr := money.ParseUSDC(a.Amount)
	name, _ := a.Extra["name"].(string)
	version, _ := a.Extra["version"].(string)
	switch {
	case a.Scheme != x402.Scheme:
		return wrong("scheme", a.Scheme, x402.Scheme)
	case a.Network != x402.NetworkID:
		return wrong("network", a.Network, x402.NetworkID)
	case assetErr != nil || asset != p.asset:
		return wrong("asset", a.Asset, p.asset)
	case payErr != nil || payTo != p.payTo:
		return wrong("payee", a.PayTo, p.payTo)
	case amountErr != nil || amount <= 0:
		return wrong("amount", a.Amount, "a positive number of units")
	case p.amount > 0 && amount != money.Cents(p.amount).USDC():
		return wrong("amount", amount.Dollars(), p.amount)
	case !sameResource(required.Resource.URL, p.resource):
		return wrong("resource", required.Resource.URL, p.resource)
	case name == "" || version == "":
		return wrong("signing domain", name+" "+version, "a name and a version")
	case strings.EqualFold(p.asset.String(), BaseUSDC) && (name != usdcName || version != usdcVersion):
		return wrong("signing domain", name+" "+version, usdcName+" "+usdcVersion)
	case a.MaxTimeoutSeconds <= 0 || a.MaxTimeoutSeconds > maxWindow:
		return wrong("payment window in seconds", a.MaxTimeoutSeconds, fmt.Sprintf("1 to %d", maxWindow))
	}
	return offer{
		accepted: a, resource: required.Resource, payTo: payTo, amount: amount,
		domain: x402.Domain{Name: name, Version: version, ChainID: x402.ChainID, Contract: asset},
	}, nil
}

// sameResource says that the challenge is about the origin that was called. A payable order names what it
// pays for, which is another path of the same origin.
func sameResource(named string, called *url.URL) bool {
	u, err := url.Parse(named)
	if err != nil || u.Scheme != called.Scheme || u.Host != called.Host {
		return false
	}
	return u.Path == called.Path || isPayPath(called.Path)
}

func isPayPath(path string) bool {
	return strings.HasPrefix(path, "/pay/") || strings.HasPrefix(path, "/api/x402/pay/")
}

// cents is the amount rounded up, so that a cap is never passed by a part of a cent.
func (o offer) cents() Cents {
	const perCent = 10_000
	return Cents((int64(o.amount) + perCent - 1) / perCent)
}
