package lithic_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/webhook"
)

func TestEventsNameTheCardsToRead(t *testing.T) {
	b := start(t, lithicfake.Config{}, false)
	key := []byte("0123456789abcdef0123456789abcdef")
	secrets := []secret.Text{
		secret.New("whsec_" + base64.StdEncoding.EncodeToString([]byte("another key of the vendor's"))),
		secret.New("whsec_" + base64.StdEncoding.EncodeToString(key)),
	}
	one, now := newToken().String(), b.clock.now()
	for body, want := range map[string][]string{
		`{"event_type":"card.updated","card_token":"` + one + `","state":"PAUSED","previous_fields":{}}`:             {one},
		`{"event_type":"card_transaction.updated","token":"` + newToken().String() + `","card_token":"` + one + `"}`: {one},
		`{"event_type":"book_transfer_transaction.created","from_financial_account_token":"` + lithicfake.Float +
			`","to_financial_account_token":"` + one + `"}`: {one},
		`{"event_type":"balance.updated","card_token":"all of them"}`: nil,
	} {
		header := webhook.SignStandard(key, "msg_1", []byte(body), now)
		if err := b.Signed(header, now); err != nil || b.Signed(http.Header{}, now) == nil {
			t.Errorf("%s: before its body is read: %v", body, err)
		}
		e, err := b.Verify(header, []byte(body), secrets, now)
		if err != nil || e.ID != "msg_1" || e.Type == "" || !slices.Equal(e.About.Accounts, want) {
			t.Errorf("%s: %+v, %v; want the cards %v", body, e, err, want)
		}
		if _, err := b.Verify(header, []byte(body+" "), secrets, now); !errors.Is(err, webhook.ErrForged) {
			t.Errorf("%s, changed: %v", body, err)
		}
		if _, err := b.Verify(header, []byte(body), secrets[:1], now); !errors.Is(err, webhook.ErrForged) {
			t.Errorf("%s, with another secret: %v", body, err)
		}
		if _, err := b.Verify(header, []byte(body), secrets, now.Add(24*time.Hour)); !errors.Is(err, webhook.ErrForged) {
			t.Errorf("%s, a day late: %v", body, err)
		}
	}
	for _, body := range []string{``, `[]`, `{}`, `{"event_type":1}`, `{"event_type":"card.created"}{}`} {
		header := webhook.SignStandard(key, "msg_1", []byte(body), now)
		if e, err := b.Verify(header, []byte(body), secrets, now); err == nil || errors.Is(err, webhook.ErrForged) {
			t.Errorf("%q reads as %+v, %v", body, e, err)
		}
	}
}
