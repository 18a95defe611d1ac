package esimgo

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/webhook"
)

var (
	_ webhook.Sender  = (*Supplier)(nil)
	_ esim.EventNamer = (*Supplier)(nil)
)

// Signed implements webhook.Sender.
func (s *Supplier) Signed(header http.Header, _ time.Time) error {
	if len(header.Get(SignatureHeader)) != base64.StdEncoding.EncodedLen(sha256.Size) {
		return fmt.Errorf("%w: %w", webhook.ErrForged, ErrSignature)
	}
	return nil
}

// Verify implements webhook.Sender. The secrets are API keys. A callback has neither an id nor a time of its own: the
// same body is the same event. It names the eSIM by its number, of which nothing is stored but a name made of it.
func (s *Supplier) Verify(
	header http.Header, body []byte, secrets []secret.Text, _ time.Time,
) (webhook.Event, error) {
	if err := VerifyCallback(body, header.Get(SignatureHeader), secrets...); err != nil {
		return webhook.Event{}, fmt.Errorf("%w: %w", webhook.ErrForged, err)
	}
	var said struct {
		ICCID wire.Text `json:"iccid"`
		Type  string    `json:"alertType"`
	}
	err := wire.Decode(body, &said)
	iccid, numbered := esim.ParseICCID(string(said.ICCID))
	if err != nil || !numbered || said.Type == "" {
		return webhook.Event{}, wire.Unclear("the callback does not match the documentation")
	}
	name := s.named(iccid)
	kept, err := json.Marshal(map[string]string{"alertType": said.Type, "esim": name})
	if err != nil {
		return webhook.Event{}, fmt.Errorf("encode what is kept of a callback: %w", err)
	}
	return webhook.Event{
		ID: s.digest("callback", string(body)), Type: said.Type, About: webhook.About{Accounts: []string{name}}, Kept: kept,
	}, nil
}

// CheckSecret implements webhook.Sender. A key of the vendor's has no form that is documented.
func (s *Supplier) CheckSecret(key secret.Text) error {
	if key.IsZero() {
		return errors.New("callbacks are signed with an API key")
	}
	return nil
}

// EventName implements esim.EventNamer.
func (s *Supplier) EventName(h esim.Held) string { return s.named(h.ICCID.Reveal()) }

func (s *Supplier) named(iccid string) string { return s.digest("esim", iccid) }

// digest tells nothing of a text to whoever does not have the API key.
func (s *Supplier) digest(what, text string) string {
	mac := hmac.New(sha256.New, []byte(s.key.Reveal()))
	_, _ = fmt.Fprintf(mac, "%s/%s", what, text) // never fails
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// SignatureHeader carries the signature of a callback of version 3; version 2 has none and is not taken.
const SignatureHeader = "X-Signature-SHA256"

// ErrSignature says that a callback is not proven to be the vendor's.
var ErrSignature = errors.New("the callback is not signed with our key")

// VerifyCallback checks the signature of a callback: base64 of HMAC-SHA256 over the body as it was sent, with the API
// key. While a key is replaced, either one signs. What is verified is a reason to read the eSIM, never a fact.
func VerifyCallback(body []byte, signature string, keys ...secret.Text) error {
	for _, key := range keys {
		if key.IsZero() {
			continue
		}
		mac := hmac.New(sha256.New, []byte(key.Reveal()))
		_, _ = mac.Write(body) // never fails
		if hmac.Equal([]byte(signature), []byte(base64.StdEncoding.EncodeToString(mac.Sum(nil)))) {
			return nil
		}
	}
	return ErrSignature
}
