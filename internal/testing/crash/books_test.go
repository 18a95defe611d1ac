package crash_test

import (
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/secret"
)

// The test corrupts one real book after the other, and expects the invariants to notice.
func TestInvariantsReadEachRealBook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.buyer(t)
	p := w.start(t, relayer, "")
	if err := b.challenge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.ends(t, b, b.sign(t), time.Now())
	p.stop(t)
	w.checkBooks(t)
	broken := func() []string {
		var ids []string
		for _, v := range w.check(t) {
			ids = append(ids, v.ID)
		}
		return slices.Compact(ids)
	}

	conn, err := pgx.Connect(t.Context(), w.books.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	execute := func(sql string) {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	execute("UPDATE orders SET status = 'provisioning'")
	if got, want := broken(), []string{"I8", "I14", "I17", "I30"}; !slices.Equal(got, want) {
		t.Errorf("an order that is stuck breaks %v, want %v", got, want)
	}
	execute("UPDATE orders SET status = 'fulfilled'")

	issuer, err := sandbox.Dial(sandbox.ClientConfig{
		URL: w.books.SandboxURL, APIKey: secret.New(sandbox.DevKey), Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := issuer.Open(t.Context(), card.Opening{Ref: fulfilment.Ref(uuid.New()), Load: 2500}); err != nil {
		t.Fatal(err)
	}
	if got, want := broken(), []string{"I5"}; !slices.Equal(got, want) {
		t.Errorf("a card that nobody bought breaks %v, want %v", got, want)
	}

	payTo, err := hex.DecodeString(w.books.PayTo[2:])
	if err != nil {
		t.Fatal(err)
	}
	b.send(t, slices.Concat(selector("transfer(address,uint256)"), word(payTo), word([]byte{7})))
	if got, want := broken(), []string{"I1", "I5"}; !slices.Equal(got, want) {
		t.Errorf("money that nobody owed breaks %v, want %v", got, want)
	}
}
