package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/provider/wire"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/webhook"
)

var _ webhook.Sender = (*Issuer)(nil)

// eventBody is an event on the wire: a card or a movement has changed.
type eventBody struct {
	Type      string `json:"type"`
	Card      string `json:"cardId"`
	Reference string `json:"reference"`
}

// CheckSecret implements webhook.Sender.
func (i *Issuer) CheckSecret(s secret.Text) error { return webhook.CheckStandardSecret(s) }

// Signed implements webhook.Sender.
func (i *Issuer) Signed(header http.Header, now time.Time) error {
	return webhook.StandardSigned(header, now)
}

// Verify implements webhook.Sender.
func (i *Issuer) Verify(
	header http.Header, body []byte, secrets []secret.Text, now time.Time,
) (webhook.Event, error) {
	id, err := webhook.CheckStandard(header, body, secrets, now)
	if err != nil {
		return webhook.Event{}, fmt.Errorf("verify an event: %w", err)
	}
	var got eventBody
	if err := wire.Decode(body, &got); err != nil {
		return webhook.Event{}, wire.Unclear("the event does not match the documentation")
	}
	e := webhook.Event{ID: id, Type: got.Type}
	if got.Card != "" {
		e.About.Accounts = []string{got.Card}
	}
	if ref, err := uuid.Parse(got.Reference); err == nil {
		e.About.References = []uuid.UUID{ref}
	}
	return e, nil
}

const (
	pushEvery = 50 * time.Millisecond
	// pushTries is how often an event is sent until it is taken.
	pushTries = 20
)

// setWebhooks sends events of all that changes from now on.
func (s *Server) setWebhooks(c call) (any, error) {
	var asked struct {
		URL    string `json:"url"`
		Secret string `json:"secret"`
	}
	if err := read(c.Body, &asked); err != nil {
		return nil, err
	}
	key, err := webhook.StandardKey(secret.New(asked.Secret))
	if err != nil || asked.URL == "" {
		return nil, invalid("url is where events go, and secret is what signs them")
	}
	_, last, err := s.books.changedSince(-1)
	if err != nil {
		return nil, err
	}
	go s.push(asked.URL, key, last)
	return struct{}{}, nil
}

// push sends what changes until the server closes.
func (s *Server) push(url string, key []byte, last int) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		<-s.Closing()
		stop()
	}()
	client := outward.New(outward.Config{Rule: outward.Rule{Anywhere: true}})
	ticker := time.NewTicker(pushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		events, now, err := s.books.changedSince(last)
		if err != nil {
			return
		}
		for _, e := range events {
			pushOne(ctx, client, url, key, e)
		}
		last = now
	}
}

// event is a change with its number, which names the event.
type event struct {
	seq  int
	body eventBody
}

func pushOne(ctx context.Context, client *http.Client, url string, key []byte, e event) {
	body, err := json.Marshal(e.body)
	if err != nil {
		panic("sandbox: encode an event: " + err.Error())
	}
	for range pushTries {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return
		}
		r.Header = webhook.SignStandard(key, fmt.Sprintf("evt_%d", e.seq), body, time.Now())
		r.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(r)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode/100 == 2 {
				return
			}
		}
		select {
		case <-time.After(pushEvery):
		case <-ctx.Done():
			return
		}
	}
}

// changedSince is what has changed after a number, and the number of the last change.
func (b *books) changedSince(last int) (events []event, now int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.advance(b.clock()); err != nil {
		return nil, 0, err
	}
	if b.seq == last {
		return nil, last, nil
	}
	for _, row := range b.cards {
		if row.Changed > last {
			events = append(events, event{row.Changed, eventBody{"card." + string(row.Status), row.ID, row.Reference}})
		}
	}
	for _, row := range b.movements {
		if row.Changed > last {
			events = append(events, event{row.Changed, eventBody{"movement." + string(row.Status), row.Card, row.Reference}})
		}
	}
	return events, b.seq, nil
}
