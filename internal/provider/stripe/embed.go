package stripe

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	stripego "github.com/stripe/stripe-go/v85"

	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/secret"
)

// elementsURL is Stripe.js of the API version that the library pins: a key and the elements that use it are to be of
// the same.
const elementsURL = "https://js.stripe.com/" + stripego.APIMajorVersion + "/stripe.js"

//go:embed embed.js
var pageScript []byte

var _ card.Embed = (*Issuer)(nil)

// PageParts implements card.Embed: Stripe.js, its frames, and the API that it calls.
func (i *Issuer) PageParts() card.PageParts {
	at := i.elements.Scheme + "://" + i.elements.Host
	return card.PageParts{
		Frames: []string{at}, Scripts: []string{at}, Connects: []string{i.api}, VendorScript: i.elements.String(),
		Script: pageScript,
	}
}

// Show implements card.Embed. Nothing is asked yet: the vendor's script makes a nonce first.
func (i *Issuer) Show(_ context.Context, account string, _ card.Look) (card.Shown, error) {
	if !isID(account) {
		return card.Shown{}, fmt.Errorf("show a card: %w", unclear("the card's ID is none of the vendor's"))
	}
	return card.Shown{Values: []card.Value{{Name: "publishable-key", Content: i.publishable},
			{Name: "card", Content: account}}},
		nil
}

// isNonce takes what Stripe.js makes for one page. It is a stranger's text until Stripe has taken it.
var isNonce = regexp.MustCompile(`^[A-Za-z0-9_-]{1,500}$`)

// Unlock implements card.Embed: an ephemeral key for one card and one nonce. Its version is the library's own.
func (i *Issuer) Unlock(ctx context.Context, account, nonce string) (secret.Text, error) {
	if !isID(account) || !isNonce.MatchString(nonce) {
		return secret.Text{},
			fmt.Errorf("make an ephemeral key: %w", unclear("the card or the nonce is none of the vendor's"))
	}
	p := &stripego.EphemeralKeyCreateParams{
		IssuingCard: stripego.String(account), Nonce: stripego.String(nonce),
	}
	var got keyAnswer
	err := i.send(ctx, request{
		op: "embed", method: http.MethodPost, path: "/v1/ephemeral_keys", route: "/v1/ephemeral_keys", params: p,
		bind: func(ctx context.Context) { p.Context = ctx },
	}, &got)
	if err != nil {
		return secret.Text{}, fmt.Errorf("make an ephemeral key: %w", err)
	}
	return secret.New(got.Secret), nil
}

// keyAnswer is an ephemeral key.
type keyAnswer struct {
	stripego.APIResource
	Object string `json:"object"`
	Secret string `json:"secret"`
}

func (k *keyAnswer) whole() error {
	if k.Object != "ephemeral_key" || k.Secret == "" {
		return unclear("the key in the answer does not match the documentation")
	}
	return nil
}

// elementsAt reads where Stripe.js is: https, unless its host is loopback.
func elementsAt(text string) (*url.URL, error) {
	at, err := outward.Rule{}.Origin(text)
	if err != nil {
		return nil, fmt.Errorf("where Stripe.js is: %w", err)
	}
	return at, nil
}

func isPublishable(key string) bool { return strings.HasPrefix(key, "pk_") && isID(key) }
