package checkout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/x402"
)

// SignIn is what a wallet has signed to sign in for one request, by x402's extension sign-in-with-x.
type SignIn interface {
	// Wallet is who is said to have signed, and ByKey says that its key has. Of any other nothing is proven before Use.
	Wallet() x402.Address
	ByKey() bool
	// Use proves the wallet, once: of all calls for the same message one succeeds. Its errors are fit to show.
	Use(ctx context.Context) error
}

// signedRepeat answers a purchase that is not paid from the record, when the wallet that signed in has bought it
// before: known says that it has. Only then the sign-in is used up. Of a purchase that is not claimed nothing is shown,
// whoever signed: it is asked to be paid like any other.
func (c *Checkout) signedRepeat(ctx context.Context, p Purchase) (paid PaidOrder, known bool, err error) {
	if p.SignIn == nil || p.Payment != "" || p.Key == "" {
		return PaidOrder{}, false, nil
	}
	o, err := c.Store.FindByKey(ctx, p.Kind, p.SignIn.Wallet(), p.Key)
	if errors.Is(err, order.ErrNotFound) || err == nil && o.Status == order.PaymentRequired {
		return PaidOrder{}, false, nil
	}
	if err != nil {
		return PaidOrder{}, false, fmt.Errorf("look the purchase up: %w", err)
	}
	if !p.SignIn.ByKey() {
		if p.SignIn.Use(ctx) != nil {
			return PaidOrder{}, false, nil // whoever it is does not learn that there is such a purchase
		}
		paid, err = c.recorded(ctx, p, o)
	} else if paid, err = c.recorded(ctx, p, o); err == nil {
		err = p.SignIn.Use(ctx) // who is told to repeat the request may
	}
	if err != nil {
		return PaidOrder{}, true, err
	}
	paid.ProvenCaller = true
	return paid, true, nil
}

// signInOffer is the sign-in that a challenge offers; the zero value is none.
type signInOffer struct {
	nonce string
	renew func() string
	// required is the challenge's header, for other nonces.
	required x402.RequiredTemplate
}

// extensions are those of a challenge, with the sign-in that it offers. Only a purchase can be signed for: a link is
// paid by whoever has it, and nothing is bought by a preview. Crawlers, who ask for previews, take what offers a
// sign-in for something that is not paid.
func (c *Checkout) extensions(p Purchase) (map[string]any, signInOffer) {
	if c.OfferSignIn == nil || p.of != nil || p.Key == "" {
		return p.Extensions, signInOffer{}
	}
	at, _, _ := strings.Cut(p.Resource.URL, "?")
	offer := c.OfferSignIn(at)
	if offer.Extension == nil {
		return p.Extensions, signInOffer{}
	}
	all := map[string]any{x402.SignInWithX: offer.Extension}
	maps.Copy(all, p.Extensions)
	return all, signInOffer{nonce: offer.Nonce, renew: offer.Renew}
}

// ownNonce is a cached challenge with a nonce of its own: a wallet that buys twice within a second signs in twice.
func ownNonce(cached error) error {
	ch, ok := cached.(*Challenge)
	if !ok || ch.signIn.renew == nil {
		return cached
	}
	required, err := ch.signIn.required.With(ch.signIn.renew())
	if err != nil {
		return fmt.Errorf("renew the challenge: %w", err)
	}
	own := *ch
	own.headers = maps.Clone(ch.headers)
	own.headers.Set(x402.HeaderRequired, required)
	return &own
}
