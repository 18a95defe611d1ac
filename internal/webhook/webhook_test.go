package webhook_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/webhook"
)

// signer is a provider whose events are all signed.
type signer webhook.Event

// Signed implements webhook.Sender.
func (signer) Signed(http.Header, time.Time) error { return nil }

// Verify implements webhook.Sender.
func (s signer) Verify(http.Header, []byte, []secret.Text, time.Time) (webhook.Event, error) {
	return webhook.Event(s), nil
}

// CheckSecret implements webhook.Sender.
func (signer) CheckSecret(secret.Text) error { return nil }

// shelf is a store that takes everything.
type shelf struct {
	webhook.Store
	kept int
}

// Keep implements webhook.Store.
func (s *shelf) Keep(context.Context, webhook.Stored, job.New) (bool, error) {
	s.kept++
	return true, nil
}

func TestEventWithTextThatIsNoneIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		event webhook.Event
		want  fault.Code
	}{
		"plain":    {webhook.Event{ID: "evt_1", Type: "card.live", About: webhook.About{Accounts: []string{"a"}}}, ""},
		"its id":   {webhook.Event{ID: "evt_\x00"}, fault.SchemaInvalid},
		"its type": {webhook.Event{ID: "evt_1", Type: "\x00"}, fault.SchemaInvalid},
		"a card":   {webhook.Event{ID: "evt_1", About: webhook.About{Accounts: []string{"a", "\x00"}}}, fault.SchemaInvalid},
		"no UTF-8": {webhook.Event{ID: "evt_1", Type: "\xff"}, fault.SchemaInvalid},
	} {
		store := &shelf{}
		in := webhook.New(webhook.Config{
			Store: store, Log: slog.New(slog.DiscardHandler), Now: time.Now,
			Sources: map[string]webhook.Source{"one": {Sender: signer(c.event), Secrets: []secret.Text{secret.New("s")}}},
		})
		err := in.Receive(t.Context(), "one", nil, nil)
		if fault.Of(err) != c.want || (store.kept == 1) != (c.want == "") {
			t.Errorf("%s: %v, %d kept; want %q", name, err, store.kept, c.want)
		}
	}
}
