package lithic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/secret"
)

var _ card.Embed = (*Issuer)(nil)

// PageParts implements card.Embed: the vendor's frames, without a script.
func (i *Issuer) PageParts() card.PageParts {
	return card.PageParts{Frames: []string{i.base.Scheme + "://" + i.base.Host}}
}

// framed are the kinds of frames of a session, each of which loads once.
var framed = []struct{ title, kind string }{
	{"Number", "PAN"}, {"Month of expiry", "EXP_MONTH"}, {"Year of expiry", "EXP_YEAR"}, {"Security code", "CVV"},
}

// Show implements card.Embed. It makes a session for the page's origin, with which its frames load once.
func (i *Issuer) Show(ctx context.Context, account string, on card.Look) (card.Shown, error) {
	token, err := uuid.Parse(account)
	if err != nil {
		return card.Shown{}, fmt.Errorf("make an embed session: %w", wire.Unclear("the card is none of the vendor's"))
	}
	var got struct {
		Session string `json:"session"`
	}
	err = i.send(ctx, request{
		op: "embed", method: http.MethodPost, path: []string{"cards", token.String(), "embed"}, route: "cards/{token}/embed",
		body: map[string]any{"type": "CARD_EMBED", "target_origin": on.Origin, "expiration": on.Until.Unix()}, card: true,
	}, &got)
	if err == nil && got.Session == "" {
		err = wire.Undocumented
	}
	if err != nil {
		return card.Shown{}, fmt.Errorf("make an embed session: %w", err)
	}
	var shown card.Shown
	for _, f := range framed {
		at := i.base.JoinPath("v1", "embed")
		at.RawQuery = url.Values{"session": {got.Session}, "type": {f.kind}}.Encode()
		shown.Frames = append(shown.Frames, card.Frame{Title: f.title, URL: secret.New(at.String())})
	}
	return shown, nil
}

// Unlock implements card.Embed. The vendor's frames need nothing of the page.
func (i *Issuer) Unlock(context.Context, string, string) (secret.Text, error) {
	return secret.Text{}, errors.New("the vendor's frames are not unlocked")
}
