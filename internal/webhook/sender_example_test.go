package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/webhook"
)

// acme is a provider that signs the body alone, by a scheme of its own.
type acme struct{}

var _ webhook.Sender = acme{}

func (acme) Signed(header http.Header, _ time.Time) error {
	if len(header.Get("Acme-Signature")) != hex.EncodedLen(sha256.Size) {
		return webhook.ErrForged
	}
	return nil
}

func (acme) Verify(header http.Header, body []byte, secrets []secret.Text, _ time.Time) (webhook.Event, error) {
	for _, s := range secrets {
		if hmac.Equal([]byte(header.Get("Acme-Signature")), []byte(signAcme(s, body))) {
			return eventOf(body)
		}
	}
	return webhook.Event{}, fmt.Errorf("%w: no secret signs it", webhook.ErrForged)
}

func (acme) CheckSecret(s secret.Text) error {
	if len(s.Reveal()) < 16 {
		return errors.New("has to have 16 characters at least")
	}
	return nil
}

// eventOf says what an event is about. What it says is never trusted: the account is read from the provider.
func eventOf(body []byte) (webhook.Event, error) {
	var said struct{ ID, Type, Card string }
	if err := json.Unmarshal(body, &said); err != nil {
		return webhook.Event{}, fmt.Errorf("read the event: %w", err)
	}
	return webhook.Event{ID: said.ID, Type: said.Type, About: webhook.About{Accounts: []string{said.Card}}}, nil
}

func signAcme(s secret.Text, body []byte) string {
	mac := hmac.New(sha256.New, []byte(s.Reveal()))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// A provider's client is a Sender when the provider sends events. While a secret is replaced, both are valid.
func ExampleSender() {
	former, current := secret.New("the former secret"), secret.New("the current secret")
	body := []byte(`{"id": "evt_1", "type": "card.closed", "card": "crd_7"}`)
	header := http.Header{"Acme-Signature": {signAcme(current, body)}}
	var sender webhook.Sender = acme{}

	event, err := sender.Verify(header, body, []secret.Text{former, current}, time.Now())
	fmt.Println(event.ID, event.Type, event.About.Accounts, err)
	_, err = sender.Verify(header, []byte(`{}`), []secret.Text{former, current}, time.Now())
	fmt.Println("forged:", errors.Is(err, webhook.ErrForged))
	fmt.Println(sender.CheckSecret(secret.New("short")))
	// Output:
	// evt_1 card.closed [crd_7] <nil>
	// forged: true
	// has to have 16 characters at least
}
