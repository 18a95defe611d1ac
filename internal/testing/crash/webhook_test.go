package crash_test

import (
	"bytes"

	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/roamcard/roamcard/internal/provider/esimgo"
)

// The program dies at every step of taking an event, which its provider sends again until it is taken: it is stored
// once, and read by one job, without the eSIM's number.
func TestEventIsStoredOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts the program many times")
	}
	w := newWorld(t).over("", esimgo.Name)
	b := w.buyer(t)
	b.travelling = true
	p := w.start(t, relayer, "")
	w.await(t, "the terms are told", func() error { return b.challenge(t.Context()) })
	b.insist(t, b.sign(t))
	w.waitIdle(t)
	p.stop(t)
	var account string
	w.query(t, "SELECT account FROM esim_profiles", nil, &account)
	vendor := w.books.SandboxURL + "/" + esimgo.Name + "/control/"
	if err := send(t.Context(), vendor+"webhooks", `{"url":"http://`+w.addr+`/api/webhooks/esim-go"}`); err != nil {
		t.Fatal(err)
	}
	for i, point := range chosen([]string{"webhook.stored"}, "webhook.received", "webhook.before_commit",
		"webhook.read") {
		t.Run(point, func(t *testing.T) {
			p := w.start(t, relayer, fault(point, "kill"))
			taken := make(chan error, 1)
			go func() { taken <- send(t.Context(), vendor+"orders/"+account+"/usage", `{"bytes":1000000}`) }()
			p.awaitKill(t)
			p = w.start(t, relayer, "")
			if err := <-taken; err != nil {
				t.Errorf("the event is not taken: %v", err)
			}
			w.await(t, "the event is read", func() error {
				var events, jobs, read, told int
				w.query(t, `SELECT (SELECT count(*) FROM webhook_events), count(*),
					count(*) FILTER (WHERE status = 'succeeded'),
					(SELECT count(*) FROM webhook_events WHERE position('8944' IN convert_from(body, 'UTF8')) > 0)
					FROM jobs WHERE kind = 'webhook'`, nil, &events, &jobs, &read, &told)
				if want := i + 1; events != want || jobs != want || read != want || told != 0 {
					return fmt.Errorf("%d events, %d jobs, %d of them done, %d tell the eSIM's number; want %d",
						events, jobs, read, told, want)
				}
				return nil
			})
			p.stop(t)
		})
	}
	w.checkBooks(t)
}

// send posts JSON, and waits for the answer.
func send(ctx context.Context, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", res.Status)
	}
	return errors.Join(err, res.Body.Close())
}
