package crash_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/testing/invariants"
)

// signIn is a session of the buyer.
func (b *buyer) signIn(ctx context.Context) (session string, err error) {
	var ch struct{ IntentID, Message string }
	if err := b.call(ctx, "/api/auth/challenge", map[string]string{"address": b.address.String()}, nil, &ch); err != nil {
		return "", err
	}
	digest := handshake.PersonalDigest(ch.Message)
	signature, err := crypto.Sign(digest[:], b.key)
	if err != nil {
		return "", err
	}
	signature[64] += 27
	var made struct{ AccessToken string }
	err = b.call(ctx, "/api/auth/verify", map[string]string{
		"address": b.address.String(), "intentId": ch.IntentID, "message": ch.Message,
		"signature": "0x" + hex.EncodeToString(signature),
	}, nil, &made)
	return made.AccessToken, err
}

// create signs the buyer in and creates its order, under the purchase's key.
func (b *buyer) create(ctx context.Context) error {
	session, err := b.signIn(ctx)
	if err != nil {
		return err
	}
	var order struct {
		PayableURL string `json:"payable_url"`
	}
	header := http.Header{"Authorization": {"Bearer " + session}, "Idempotency-Key": {b.purchase}}
	if err := b.call(ctx, "/api/card-issue/orders", nil, header, &order); err != nil {
		return err
	}
	at, err := url.Parse(order.PayableURL)
	if err != nil || at.Path == "" {
		return fmt.Errorf("an order is paid at %q: %w", order.PayableURL, err)
	}
	b.payable = at.Path
	return nil
}

// call posts a request that is no purchase, and reads the 200.
func (b *buyer) call(ctx context.Context, path string, request any, header http.Header, into any) error {
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.world.addr+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := b.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d: %s", path, res.StatusCode, text)
	}
	return json.Unmarshal(text, into)
}

// orders counts the buyer's orders, paid or not.
func (b *buyer) orders(t testing.TB) (n int) {
	t.Helper()
	b.world.query(t, "SELECT count(*) FROM orders WHERE owner = $1", []any{b.address.Lower()}, &n)
	return n
}

// query asks the world's database itself.
func (w *world) query(t testing.TB, sql string, args []any, into ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.books.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(into...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// timeIsOver ends, or with a positive time extends, the time in which the buyer's order can be paid, and returns its
// status. An order without such a time stays as it is.
func (b *buyer) timeIsOver(t testing.TB, left time.Duration) (status string) {
	t.Helper()
	b.world.query(t, `
		UPDATE orders SET expires_at = CASE WHEN expires_at IS NOT NULL THEN now() + $2 * interval '1 millisecond' END
		WHERE owner = $1 RETURNING status`, []any{b.address.Lower(), left.Milliseconds()}, &status)
	return status
}

// An order whose time is over is either wholly expired or unchanged.
func TestKilledWhileOrdersExpire(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts the program many times")
	}
	type end struct {
		first   string
		expired bool
	}
	for _, c := range chosen([]end{{"expire.committed", true}}, end{"expire.before_commit", false}) {
		t.Run(c.first, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b, p := w.waits(t)
			p.stop(t)
			b.timeIsOver(t, -time.Second)
			p = w.start(t, relayer, fault(c.first, "kill"))
			p.awaitKill(t)
			if status := b.timeIsOver(t, time.Hour); (status == "expired") != c.expired {
				t.Errorf("the order is %s", status)
			}
			p = w.start(t, relayer, "")
			if c.expired {
				w.isRefused(t, b, b.sign(t))
			} else {
				w.ends(t, b, b.sign(t), time.Now())
			}
			p.stop(t)
			w.checkBooks(t)
		})
	}
}

// A killed run has pruned nothing, and the next one prunes what it would have. The order is still there.
func TestKilledWhileTimelinesArePruned(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts the program several times")
	}
	w := newWorld(t)
	b, p := w.waits(t)
	w.ends(t, b, b.sign(t), time.Now())
	p.stop(t)
	conn, err := pgx.Connect(t.Context(), w.books.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	// It was two years ago, and the job of this period has not run.
	if _, err := conn.Exec(t.Context(), `
		ALTER TABLE timeline DISABLE TRIGGER USER;
		UPDATE timeline SET at = at - interval '2 years';
		ALTER TABLE timeline ENABLE TRIGGER USER;
		UPDATE orders SET updated_at = updated_at - interval '2 years';
		DELETE FROM jobs WHERE kind = 'retention'`); err != nil {
		t.Fatal(err)
	}
	story := func() (lines, walked int) {
		w.query(t, `SELECT (SELECT count(*) FROM timeline), (SELECT count(*) FROM progress
			WHERE id = 'timeline' AND place <> '')`, nil, &lines, &walked)
		return lines, walked
	}
	before, _ := story()
	p = w.start(t, relayer, fault("timeline.before_commit", "kill"))
	p.awaitKill(t)
	if lines, walked := story(); lines != before || lines < 4 || walked != 0 {
		t.Errorf("%d of %d lines are left, %d walks stored", lines, before, walked)
	}
	p = w.start(t, relayer, "")
	w.await(t, "the timeline is pruned", func() error {
		if lines, walked := story(); lines != 1 || walked != 1 {
			return fmt.Errorf("%d lines are left, %d walks stored", lines, walked)
		}
		return nil
	})
	if n := b.orders(t); n != 1 {
		t.Errorf("the buyer has %d orders", n)
	}
	p.stop(t)
}

// A payment that was claimed in time pays; one that was not is never sent.
func TestOrderExpiresWhileTheProgramIsDown(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts the program many times")
	}
	type end struct {
		point string
		paid  bool
	}
	for _, c := range chosen([]end{{"claim.committed", true}}, end{"buy.verified", false},
		end{"claim.before_commit", false}, end{"transaction.sent", true}) {
		t.Run(c.point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b, p := w.waits(t)
			p.stop(t)
			p = w.start(t, relayer, fault(c.point, "kill"))
			header := b.press(t, p, "", false)
			p.awaitKill(t)
			b.timeIsOver(t, -time.Second)
			p = w.start(t, relayer, "")
			if c.paid {
				w.ends(t, b, header, time.Now())
			} else {
				w.isRefused(t, b, header)
			}
			p.stop(t)
			w.checkBooks(t)
		})
	}
}

// waits makes a buyer with an open order whose terms it knows, and the program that told them.
func (w *world) waits(t *testing.T) (*buyer, *process) {
	t.Helper()
	b := w.buyer(t)
	b.later = true
	p := w.start(t, relayer, "")
	if err := b.challenge(t.Context()); err != nil {
		t.Fatalf("create the order: %v", err)
	}
	return b, p
}

// isRefused checks that a payment comes too late, before the expiry is recorded and after, and moves
// nothing.
func (w *world) isRefused(t *testing.T, b *buyer, payment string) {
	t.Helper()
	for range 2 {
		status, _, _, err := b.ask(t.Context(), payment)
		if err != nil || status != http.StatusConflict {
			t.Errorf("status %d, %v", status, err)
		}
		w.await(t, "the order is expired", func() error {
			var status string
			w.query(t, "SELECT status FROM orders WHERE owner = $1", []any{b.address.Lower()}, &status)
			if status != "expired" {
				return fmt.Errorf("it is %s", status)
			}
			return nil
		})
	}
	got, err := invariants.Tell(t.Context(), w.books, b.address.String())
	if err != nil || got != (invariants.Tally{}) {
		t.Errorf("the refused payment came to %+v, %v", got, err)
	}
}
