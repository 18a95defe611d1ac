package lithic

import (
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/webhook"
)

var _ webhook.Sender = (*Issuer)(nil)

// CheckSecret implements webhook.Sender.
func (i *Issuer) CheckSecret(s secret.Text) error { return webhook.CheckStandardSecret(s) }

// Signed implements webhook.Sender.
func (i *Issuer) Signed(header http.Header, now time.Time) error {
	return webhook.StandardSigned(header, now)
}

// Verify implements webhook.Sender: the vendor signs by Standard Webhooks. The cards that an event names are read, and
// those at the ends of a book transfer.
func (i *Issuer) Verify(
	header http.Header, body []byte, secrets []secret.Text, now time.Time,
) (webhook.Event, error) {
	id, err := webhook.CheckStandard(header, body, secrets, now)
	if err != nil {
		return webhook.Event{}, fmt.Errorf("verify an event: %w", err)
	}
	var said struct {
		Type string `json:"event_type"`
		Card string `json:"card_token"`
		From string `json:"from_financial_account_token"`
		To   string `json:"to_financial_account_token"`
	}
	if wire.Decode(body, &said) != nil || said.Type == "" {
		return webhook.Event{}, fmt.Errorf("read an event: %w", wire.Unclear("it does not match the documentation"))
	}
	e := webhook.Event{ID: id, Type: said.Type}
	for _, name := range []string{said.Card, said.From, said.To} {
		if token, err := uuid.Parse(name); err == nil && token != i.float {
			e.About.Accounts = append(e.About.Accounts, token.String())
		}
	}
	return e, nil
}
