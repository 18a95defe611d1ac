package endtoend_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/webhook"
)

// The secrets of the issuer's webhooks: the present one, and the one that it replaces.
var (
	webhookKey     = []byte("the key of the issuer's webhooks")
	webhookSecret  = "whsec_" + base64.StdEncoding.EncodeToString(webhookKey)
	formerKey      = []byte("the key that is being replaced..")
	webhookSecrets = []secret.Text{
		secret.New(base64.StdEncoding.EncodeToString(formerKey)), secret.New(webhookSecret),
	}
)

// newPushWorld makes a world that takes webhooks, and reads what its issuer does only once an hour by itself.
func newPushWorld(t *testing.T, instances int) *world {
	t.Helper()
	return newWorld(t, plan{
		instances: instances, issuer: sandbox.Config{SettleAfter: 500 * time.Millisecond},
		change: func(c *app.Config) {
			c.IssuerWebhookSecrets = webhookSecrets
			c.IssuerPoll, c.IssuerStatesEvery = time.Hour, time.Hour
		},
	})
}

// push sends one event to an instance, signed by a key.
func (w *world) push(key []byte, id string, at time.Time, body string) (status int, answer string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost,
		w.instances[0].url+"/api/webhooks/sandbox", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = webhook.SignStandard(key, id, []byte(body), at)
	res, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, string(said)
}

// TestWebhooksDeliverWhatNobodyWouldReadYet: the issuer is read once an hour, and pushes.
func TestWebhooksDeliverWhatNobodyWouldReadYet(t *testing.T) {
	t.Parallel()
	w := newPushWorld(t, 2)
	w.issuer.call(http.MethodPost, "webhooks", map[string]any{
		"url": w.instances[1].url + "/api/webhooks/sandbox", "secret": webhookSecret,
	})
	b := w.buyer()
	card := b.buyCard("a-card").Issuance.CardID
	b.awaitFee(card)
	var o paidOrder
	b.topUp("a-top-up", 2500).into(t, 200, &o)
	b.awaitStatus(o.OrderID, "fulfilled")
	w.setCardState(w.newestCard(), "locked")
	eventually(t, func() (bool, string) {
		n := w.count("SELECT count(*) FROM cards WHERE status = $1", "FROZEN")
		return n == 1, fmt.Sprint(n, " cards are known to be locked")
	})
	w.setCardState(w.newestCard(), "live")
	w.checkBooks()
}

// awaitFee waits until the fee of a card has been withdrawn.
func (b *buyer) awaitFee(card string) {
	b.w.t.Helper()
	eventually(b.w.t, func() (bool, string) {
		n := b.w.count("SELECT count(*) FROM jobs WHERE unique_key = $1 AND status = 'succeeded'", card)
		return n == 1, fmt.Sprint(n, " fees are withdrawn")
	})
}

// TestForgedWebhooksAreRejected, and what is doubled, late or about nothing changes nothing.
func TestForgedWebhooksAreRejected(t *testing.T) {
	t.Parallel()
	w := newPushWorld(t, 1)
	body := `{"type":"card.live","cardId":"crd_nobody","reference":"00000000-0000-4000-8000-000000000000"}`
	stored := func() int {
		t.Helper()
		return w.count("SELECT count(*) FROM webhook_events")
	}
	for name, forged := range map[string]struct {
		key []byte
		at  time.Duration
	}{
		"by another key": {[]byte("a key that is not the issuer's.."), 0},
		"a day late":     {webhookKey, -24 * time.Hour},
		"too early":      {webhookKey, time.Hour},
	} {
		status, said := w.push(forged.key, "evt_forged", time.Now().Add(forged.at), body)
		if status != 401 || !strings.Contains(said, string(fault.WebhookRejected)) {
			t.Errorf("%s: %d %s", name, status, said)
		}
	}
	if n := stored(); n != 0 {
		t.Fatalf("%d forged events are stored", n)
	}
	for _, again := range []struct {
		key  []byte
		id   string
		want int
	}{{webhookKey, "evt_1", 1}, {webhookKey, "evt_1", 1}, {formerKey, "evt_1", 1}, {webhookKey, "evt_2", 2}} {
		if status, said := w.push(again.key, again.id, time.Now(), body); status != 204 || said != "" {
			t.Errorf("%s: %d %s", again.id, status, said)
		}
		if n := stored(); n != again.want {
			t.Errorf("%d events are stored, want %d", n, again.want)
		}
	}
	if status, _ := w.push(webhookKey, "evt_3", time.Now(), strings.Repeat("x", webhook.MaxBody+1)); status != 413 {
		t.Errorf("a large event: %d", status)
	}
	if status, _ := w.push(webhookKey, "evt_4", time.Now(), `[`); status != 401 {
		t.Errorf("an event that cannot be read: %d", status)
	}
	wantProblem(t, "of nobody", w.send(post("/api/webhooks/nobody", `{}`)), 404, fault.RouteNotFound)
	if n := stored(); n != 2 {
		t.Errorf("%d events are stored, want 2", n)
	}
	eventually(t, func() (bool, string) {
		n := w.count("SELECT count(*) FROM jobs WHERE kind = 'webhook' AND status = 'succeeded'")
		return n == 2, fmt.Sprint(n, " events were read")
	})
}

// TestReorderedWebhooksLeaveWhatTheIssuerSays: events come in the wrong order, and while the issuer answers nothing.
// They are taken at once, and the card is as the issuer has it.
func TestReorderedWebhooksLeaveWhatTheIssuerSays(t *testing.T) {
	t.Parallel()
	w := newPushWorld(t, 1)
	pushes := func(to string) {
		w.issuer.call(http.MethodPost, "webhooks", map[string]any{"url": to, "secret": webhookSecret})
	}
	pushes(w.instances[0].url + "/api/webhooks/sandbox")
	b := w.buyer()
	card := b.buyCard("a-card").Issuance.CardID
	b.awaitFee(card)
	nowhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
	t.Cleanup(nowhere.Close)
	pushes(nowhere.URL)
	at := w.newestCard()
	arrives := func(id, event string) {
		t.Helper()
		if status, said := w.push(webhookKey, id, time.Now(), `{"type":"`+event+`","cardId":"`+at+`"}`); status != 204 {
			t.Errorf("%s: %d %s", id, status, said)
		}
	}
	is := func(status string) {
		t.Helper()
		eventually(t, func() (bool, string) {
			got := queryOne[string](w, "SELECT status FROM cards WHERE id = $1", card)
			return got == status, "the card is " + got
		})
	}
	w.setCardState(at, "locked")
	arrives("evt_unlocked", "card.live")
	is("FROZEN")
	w.issuer.fault("*", "timeout_before", 0, 60_000)
	w.setCardState(at, "live")
	arrives("evt_locked", "card.locked")
	w.issuer.clearFaults()
	is("ACTIVE")
	w.checkBooks()
}

// TestWebhooksAreOffWithoutSecrets: nothing but a secret proves who sends.
func TestWebhooksAreOffWithoutSecrets(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	wantProblem(t, "an event", w.send(post("/api/webhooks/sandbox", `{}`)), 404, fault.RouteNotFound)
}
