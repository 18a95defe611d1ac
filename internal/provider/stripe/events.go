package stripe

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	stripehook "github.com/stripe/stripe-go/v85/webhook"

	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/webhook"
)

var _ webhook.Sender = (*Issuer)(nil)

const signatureHeader = "Stripe-Signature"

// Signed implements webhook.Sender.
func (i *Issuer) Signed(header http.Header, now time.Time) error {
	if !recent(header.Get(signatureHeader), now) {
		return fmt.Errorf("%w: not signed, or at another time", webhook.ErrForged)
	}
	return nil
}

// Verify implements webhook.Sender. What an event says is not believed; it only names the card that has changed.
func (i *Issuer) Verify(
	header http.Header, body []byte, secrets []secret.Text, now time.Time,
) (webhook.Event, error) {
	if !signed(header.Get(signatureHeader), body, secrets, now) {
		return webhook.Event{}, fmt.Errorf("verify an event: %w", webhook.ErrForged)
	}
	var got struct {
		ID     string `json:"id"`
		Object string `json:"object"`
		Type   string `json:"type"`
		Data   struct {
			Object struct {
				ID       string            `json:"id"`
				Object   string            `json:"object"`
				Card     *nameOf           `json:"card"`
				Metadata map[string]string `json:"metadata"`
			} `json:"object"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &got) != nil || got.Object != "event" || !isID(got.ID) || got.Type == "" {
		return webhook.Event{}, unclear("the event does not match the documentation")
	}
	e, about := webhook.Event{ID: got.ID, Type: got.Type}, got.Data.Object
	switch {
	case about.Object == "issuing.card" && isID(about.ID):
		e.About.Accounts = []string{about.ID}
		if ref, err := uuid.Parse(about.Metadata[keyRef]); err == nil {
			e.About.References = []uuid.UUID{ref}
		}
	case strings.HasPrefix(about.Object, "issuing.") && about.Card != nil && isID(string(*about.Card)):
		e.About.Accounts = []string{string(*about.Card)}
	}
	return e, nil
}

// CheckSecret implements webhook.Sender: the signing secret of an endpoint.
func (i *Issuer) CheckSecret(s secret.Text) error {
	key, ok := strings.CutPrefix(s.Reveal(), "whsec_")
	if !ok || key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the signing secret of a webhook endpoint begins with whsec_")
	}
	return nil
}

// signed reports whether Stripe has signed a body not long ago, with one of the secrets.
func signed(signature string, body []byte, secrets []secret.Text, now time.Time) bool {
	if !recent(signature, now) {
		return false
	}
	for _, one := range secrets {
		if !one.IsZero() && stripehook.ValidatePayloadIgnoringTolerance(body, signature, one.Reveal()) == nil {
			return true
		}
	}
	return false
}

// recent reports whether a header has the form of a signature that was made not long ago.
func recent(signature string, now time.Time) bool {
	var at time.Time
	claimed := false
	for part := range strings.SplitSeq(signature, ",") {
		if stamp, ok := strings.CutPrefix(part, "t="); ok {
			seconds, err := strconv.ParseInt(stamp, 10, 64)
			if err != nil || !at.IsZero() {
				return false
			}
			at = time.Unix(seconds, 0)
		}
		if sum, ok := strings.CutPrefix(part, "v1="); ok && len(sum) == hex.EncodedLen(sha256.Size) {
			claimed = true
		}
	}
	age := now.Sub(at)
	return claimed && age <= stripehook.DefaultTolerance && age >= -stripehook.DefaultTolerance
}
