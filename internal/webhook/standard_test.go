package webhook_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/webhook"
)

// TestStandardSchemeIsTheOneThatIsPublished: the example of the specification of Standard Webhooks.
func TestStandardSchemeIsTheOneThatIsPublished(t *testing.T) {
	header := http.Header{}
	header.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	header.Set("webhook-timestamp", "1614265330")
	header.Set("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	id, err := webhook.CheckStandard(header, []byte(`{"test": 2432232314}`),
		[]secret.Text{secret.New("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}, time.Unix(1614265330, 0))
	if err != nil || id != "msg_p5jXN8AQM9LWM0D4loKWxJek" {
		t.Errorf("%q, %v", id, err)
	}
}

func TestForgedRequestsProveNothing(t *testing.T) {
	key := []byte("0123456789abcdef0123")
	old := secret.New(base64.StdEncoding.EncodeToString([]byte("another key, 20 bytes")))
	current := secret.New("whsec_" + base64.StdEncoding.EncodeToString(key))
	now, body := time.Unix(1_800_000_000, 0), []byte(`{"a":1}`)
	for name, tc := range map[string]struct {
		change  func(h http.Header) []byte
		secrets []secret.Text
		at      time.Duration
		taken   bool
	}{
		"as it is":                     {nil, []secret.Text{current}, 0, true},
		"while the secret is replaced": {nil, []secret.Text{old, current}, 0, true},
		"with two signatures": {func(h http.Header) []byte {
			h.Set("Webhook-Signature", "v1,AAAA v2,zz "+h.Get("Webhook-Signature"))
			return body
		}, []secret.Text{current}, 0, true},
		"by another secret": {nil, []secret.Text{old}, 0, false},
		"without secrets":   {nil, nil, 0, false},
		"long ago":          {nil, []secret.Text{current}, 6 * time.Minute, false},
		"in the future":     {nil, []secret.Text{current}, -6 * time.Minute, false},
		"with another body": {func(http.Header) []byte { return []byte(`{"a":2}`) }, []secret.Text{current}, 0, false},
		"under another id": {func(h http.Header) []byte { h.Set("Webhook-Id", "x"); return body }, []secret.Text{current},
			0, false},
		"without id": {func(h http.Header) []byte { h.Del("Webhook-Id"); return body }, []secret.Text{current}, 0,
			false},
		"without signature": {func(h http.Header) []byte { h.Del("Webhook-Signature"); return body }, []secret.Text{current},
			0, false},
		"by an empty secret": {nil, []secret.Text{{}}, 0, false},
		"at another time": {func(h http.Header) []byte {
			h.Set("Webhook-Timestamp", "1800000001")
			return body
		}, []secret.Text{current}, 0, false},
		"with the signature of another scheme": {func(h http.Header) []byte {
			h.Set("Webhook-Signature", strings.Replace(h.Get("Webhook-Signature"), "v1", "v1a", 1))
			return body
		}, []secret.Text{current}, 0, false},
	} {
		h, sent := webhook.SignStandard(key, "evt_1", body, now), body
		if tc.change != nil {
			sent = tc.change(h)
		}
		id, err := webhook.CheckStandard(h, sent, tc.secrets, now.Add(tc.at))
		if tc.taken && (err != nil || id != "evt_1") {
			t.Errorf("%s: %q, %v; want it taken", name, id, err)
		}
		if !tc.taken && (!errors.Is(err, webhook.ErrForged) || id != "") {
			t.Errorf("%s: %q, %v; want it forged", name, id, err)
		}
	}
}

func FuzzStandardHeadersProveNothing(f *testing.F) {
	f.Add("evt", "1800000000", "v1,AAAA", []byte("{}"))
	secrets := []secret.Text{secret.New(base64.StdEncoding.EncodeToString([]byte("a key that nobody can know")))}
	f.Fuzz(func(t *testing.T, id, stamp, signature string, body []byte) {
		h := http.Header{}
		h.Set("Webhook-Id", id)
		h.Set("Webhook-Timestamp", stamp)
		h.Set("Webhook-Signature", signature)
		if got, err := webhook.CheckStandard(h, body, secrets, time.Unix(1_800_000_000, 0)); err == nil {
			t.Errorf("%q was taken", got)
		}
	})
}

// TestStrangersSignaturesCostNothingMore: a header of thousands costs what one of a few does, and the first few count.
func TestStrangersSignaturesCostNothingMore(t *testing.T) {
	key, now, body := []byte("0123456789abcdef0123"), time.Unix(1_800_000_000, 0), []byte(`{"a":1}`)
	secrets := []secret.Text{secret.New(base64.StdEncoding.EncodeToString(key))}
	other := "v1," + base64.StdEncoding.EncodeToString(make([]byte, 32))
	cost := func(signatures string) float64 {
		h := webhook.SignStandard(key, "evt_1", body, now)
		h.Set("Webhook-Signature", signatures)
		return testing.AllocsPerRun(10, func() {
			if _, err := webhook.CheckStandard(h, body, secrets, now); !errors.Is(err, webhook.ErrForged) {
				t.Errorf("%v", err)
			}
		})
	}
	few := cost(strings.Repeat(other+" ", 8))
	for name, signatures := range map[string]string{
		"of the right form": strings.Repeat(other+" ", 8_000),
		"empty":             strings.Repeat("v1, ", 8_000),
		"too short":         strings.Repeat("v1,AAAA ", 8_000),
		"too long":          strings.Repeat(other+"A ", 8_000),
	} {
		if many := cost(signatures); many > few {
			t.Errorf("8,000 signatures %s make %.0f allocations, 8 make %.0f", name, many, few)
		}
	}
	right := webhook.SignStandard(key, "evt_1", body, now).Get("Webhook-Signature")
	for place, taken := range map[int]bool{0: true, 7: true, 8: false} {
		h := webhook.SignStandard(key, "evt_1", body, now)
		h.Set("Webhook-Signature", strings.Repeat(other+" ", place)+right)
		if _, err := webhook.CheckStandard(h, body, secrets, now); (err == nil) != taken {
			t.Errorf("the right signature after %d others: %v", place, err)
		}
	}
}
