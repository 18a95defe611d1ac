package stripe_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	stripehook "github.com/stripe/stripe-go/v85/webhook"

	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/webhook"
)

// signedBy is the headers of an event, as Stripe's own library signs it.
func signedBy(key, body string, at time.Time) http.Header {
	made := stripehook.GenerateTestSignedPayload(&stripehook.UnsignedPayload{
		Payload: []byte(body), Secret: key, Timestamp: at,
	})
	return http.Header{"Stripe-Signature": {made.Header}}
}

func TestEventsNameTheCardThatHasChanged(t *testing.T) {
	b := start(t)
	const ref = "6f1b5a52-8f0e-5c3e-9a57-0d1b7c5b2f10"
	for name, c := range map[string]struct {
		object string
		want   webhook.About
	}{
		"a card": {
			`{"id": "ic_1", "object": "issuing.card", "metadata": {"roamcard_ref": "` + ref + `"}}`,
			webhook.About{Accounts: []string{"ic_1"}, References: []uuid.UUID{uuid.MustParse(ref)}},
		},
		"a card of others": {
			`{"id": "ic_2", "object": "issuing.card", "metadata": {}}`, webhook.About{Accounts: []string{"ic_2"}},
		},
		"an authorization": {
			`{"id": "iauth_1", "object": "issuing.authorization", "card": {"id": "ic_1", "object": "issuing.card"}}`,
			webhook.About{Accounts: []string{"ic_1"}},
		},
		"a transaction": {
			`{"id": "ipi_1", "object": "issuing.transaction", "card": "ic_1"}`, webhook.About{Accounts: []string{"ic_1"}},
		},
		"anything else":  {`{"id": "ch_1", "object": "charge", "card": "ic_1"}`, webhook.About{}},
		"a path as name": {`{"id": "../balance", "object": "issuing.card"}`, webhook.About{}},
	} {
		body := `{"id": "evt_1", "object": "event", "type": "t", "data": {"object": ` + c.object + `}}`
		if err := b.Signed(signedBy("whsec_new", body, b.clock.now()), b.clock.now()); err != nil {
			t.Errorf("%s, before its body is read: %v", name, err)
		}
		got, err := b.Verify(signedBy("whsec_new", body, b.clock.now()), []byte(body),
			[]secret.Text{secret.New("whsec_old"), secret.New("whsec_new")}, b.clock.now())
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(webhook.Event{ID: "evt_1", Type: "t", About: c.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestForgedEventsAreRefused(t *testing.T) {
	b := start(t)
	now := b.clock.now()
	const body = `{"id": "evt_1", "object": "event", "type": "t", "data": {"object": {}}}`
	fine := signedBy("whsec_1", body, now)
	old := signedBy("whsec_1", body, now.Add(-time.Hour)).Get("Stripe-Signature")
	twice := http.Header{"Stripe-Signature": {fmt.Sprintf("t=%d,%s", now.Unix(), old)}}
	for name, c := range map[string]struct {
		header http.Header
		body   string
		key    string
	}{
		"unsigned":       {http.Header{}, body, "whsec_1"},
		"another key":    {fine, body, "whsec_2"},
		"no key":         {signedBy("", body, now), body, ""},
		"another body":   {fine, body + " ", "whsec_1"},
		"long ago":       {signedBy("whsec_1", body, now.Add(-6*time.Minute)), body, "whsec_1"},
		"in the future":  {signedBy("whsec_1", body, now.Add(6*time.Minute)), body, "whsec_1"},
		"with two times": {twice, body, "whsec_1"},
	} {
		_, err := b.Verify(c.header, []byte(c.body), []secret.Text{secret.New(c.key)}, now)
		if !errors.Is(err, webhook.ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, odd := range []string{`{}`, `[]`, `{"id": "evt_1", "object": "charge", "type": "t"}`} {
		_, err := b.Verify(signedBy("whsec_1", odd, now), []byte(odd), []secret.Text{secret.New("whsec_1")}, now)
		if err == nil || errors.Is(err, webhook.ErrForged) {
			t.Errorf("%s: %v", odd, err)
		}
	}
}

// TestHeadersWithoutASignatureNeedNoBody: what no secret can have signed is refused before a body is read.
func TestHeadersWithoutASignatureNeedNoBody(t *testing.T) {
	b := start(t)
	now := b.clock.now()
	for name, header := range map[string]string{
		"none": "", "no signature": fmt.Sprintf("t=%d", now.Unix()), "no time": "v1=" + strings.Repeat("0", 64),
		"short": fmt.Sprintf("t=%d,v1=00", now.Unix()),
		"old":   signedBy("whsec_1", "", now.Add(-time.Hour)).Get("Stripe-Signature"),
	} {
		if err := b.Signed(http.Header{"Stripe-Signature": {header}}, now); !errors.Is(err, webhook.ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
