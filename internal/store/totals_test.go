package store_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent/migrate"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

// left are the values of a column, in order.
func left(t *testing.T, s *store.Store, sql string) (all []string) {
	t.Helper()
	rows, err := s.Pool().Query(t.Context(), sql)
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRowsOfStrangersHaveATotal: beyond it the oldest go, of each kind by itself, and nothing else does.
func TestRowsOfStrangersHaveATotal(t *testing.T) {
	s := storetest.New(t)
	const each = 7
	at := func(i int) time.Time { return time.Now().Add(time.Duration(i) * time.Minute) }
	for i := 1; i <= each; i++ {
		for _, purpose := range []string{"sign_in", "reveal"} {
			exec(t, s, `INSERT INTO challenges (id, purpose, wallet, scheme, message, nonce, issued_at, expires_at)
				VALUES (gen_random_uuid(), $1, '0x', 'eip191', 'm', $2, now(), $3)`, purpose, fmt.Sprint(purpose, i), at(i))
		}
		for purpose, ends := range map[string]time.Time{
			"request live ": at(i), "request old ": at(i - each - 10),
		} {
			exec(t, s, `INSERT INTO challenges (id, purpose, wallet, scheme, message, nonce, issued_at, expires_at,
					consumed_at)
				VALUES (gen_random_uuid(), 'request', '0x', 'eip191', 'm', $1, now(), $2, now())`, fmt.Sprint(purpose, i), ends)
		}
		exec(t, s, `INSERT INTO sessions (id, wallet, scopes, token_hash, issued_at, expires_at)
			VALUES (gen_random_uuid(), $1::text, '[]', sha256($1::text::bytea), now(), $2)`, fmt.Sprint(i), at(i))
		exec(t, s, "INSERT INTO rate_limits (id, resets_at) VALUES ($1, $2)", fmt.Sprint(i), at(i))
		until := at(i)
		opened(t, s, unpaid(fmt.Sprint("waits ", i), func(o *order.Order) { o.ExpiresAt = &until }), false)
	}
	paid, _ := paidOrder(t, s, "paid", order.Provisioning)
	bound := func(most store.Totals, limit int) int {
		t.Helper()
		n, err := s.Bound(t.Context(), most, limit)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := bound(store.DefaultTotals(), 1000); n != 0 {
		t.Errorf("%d rows are removed below the totals", n)
	}
	most := store.Totals{SignIns: 3, Reveals: 5, Requests: 4, Sessions: 4, Counters: 2, Unpaid: 6, Expired: 100}
	if n := bound(most, 2); n != 2+2+2+2+2+1 {
		t.Errorf("%d rows are removed at once", n)
	}
	for bound(most, 2) > 0 {
	}
	got := map[string][]string{}
	for name, sql := range map[string]string{
		"sign-ins": "SELECT nonce FROM challenges WHERE purpose = 'sign_in' ORDER BY 1",
		"reveals":  "SELECT nonce FROM challenges WHERE purpose = 'reveal' ORDER BY 1",
		"requests": "SELECT nonce FROM challenges WHERE purpose = 'request' ORDER BY 1",
		"sessions": "SELECT wallet FROM sessions ORDER BY 1",
		"counters": "SELECT id FROM rate_limits WHERE position('/' in id) = 0 ORDER BY 1",
		"unpaid":   "SELECT idempotency_key FROM orders WHERE status = 'payment_required' ORDER BY 1",
		"expired":  "SELECT idempotency_key FROM orders WHERE status = 'expired' ORDER BY 1",
		"paid":     "SELECT id FROM orders WHERE status = 'provisioning'",
	} {
		got[name] = left(t, s, sql)
	}
	if diff := cmp.Diff(map[string][]string{
		"sign-ins": {"sign_in5", "sign_in6", "sign_in7"},
		"reveals":  {"reveal3", "reveal4", "reveal5", "reveal6", "reveal7"},
		"requests": {
			"request live 1", "request live 2", "request live 3", "request live 4", "request live 5", "request live 6",
			"request live 7", "request old 4", "request old 5", "request old 6", "request old 7",
		},
		"sessions": {"4", "5", "6", "7"},
		"counters": {"6", "7"},
		"unpaid":   {"waits 2", "waits 3", "waits 4", "waits 5", "waits 6", "waits 7"},
		"expired":  {"waits 1"},
		"paid":     {string(paid.Order.ID)},
	}, got); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	most.Unpaid, most.Expired = 2, 1
	for bound(most, 100) > 0 {
	}
	if diff := cmp.Diff([]string{"waits 6", "waits 7"}, left(t, s,
		"SELECT idempotency_key FROM orders WHERE status = 'payment_required' ORDER BY 1")); diff != "" {
		t.Errorf("unpaid (-want +got):\n%s", diff)
	}
	if all := left(t, s, "SELECT id FROM orders WHERE status = 'expired'"); len(all) != 1 {
		t.Errorf("%d expired orders are left", len(all))
	}
}

// TestSignInReadsSoManyChallenges: who asks for as many of a wallet's as are kept does not make each sign-in read them.
func TestSignInReadsSoManyChallenges(t *testing.T) {
	s := storetest.New(t)
	wallet, now := x402.Address{1}, time.Now()
	exec(t, s, `INSERT INTO challenges (id, purpose, wallet, scheme, message, nonce, source, issued_at, expires_at)
		SELECT gen_random_uuid(), 'sign_in', $1, 'eip191', 'm', '', CASE n WHEN 1 THEN 'home' ELSE n::text END, at,
			at + interval '5 minutes'
		FROM (SELECT n, $2::timestamptz + n * interval '1 ms' AS at FROM generate_series(1, $3::int) n) made`,
		wallet.Lower(), now, auth.OpenLookedAt)
	first := func() string {
		t.Helper()
		open, err := s.Challenges().Open(t.Context(), wallet, auth.PurposeSignIn, "home", now)
		if err != nil || len(open) != auth.OpenAtMost {
			t.Fatal(len(open), err)
		}
		return open[0].Source
	}
	if first() != "home" {
		t.Error("the oldest is not found while it is one of so many")
	}
	exec(t, s, `INSERT INTO challenges SELECT (jsonb_populate_record(c, jsonb_build_object('id', gen_random_uuid(),
		'expires_at', c.expires_at + interval '1 s'))).* FROM challenges c WHERE source = '2'`)
	if first() == "home" {
		t.Error("it reads more than that")
	}
}

// TestWhatStrangersMayStoreIsDescribed: each table has its row in the page, and each total is what the page says.
func TestWhatStrangersMayStoreIsDescribed(t *testing.T) {
	page, err := os.ReadFile("../../docs/threat-model/tables.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range migrate.Tables {
		if !strings.Contains(string(page), "`"+table.Name+"`") {
			t.Errorf("the page does not say who adds to %s", table.Name)
		}
	}
	most := store.DefaultTotals()
	for _, total := range []struct {
		text  string
		parts []any
	}{
		{"%s sign-ins and %s reveals", []any{most.SignIns, most.Reveals}},
		{"%s sign-ins for one request", []any{most.Requests}},
		{"| `verify` | %s;", []any{most.Sessions}},
		{"| that of its class | %s;", []any{most.Counters}},
		{"%s to be paid and %s expired", []any{most.Unpaid, most.Expired}},
	} {
		for i, n := range total.parts {
			total.parts[i] = fmt.Sprintf("%d,000", n.(int)/1000)
		}
		if said := fmt.Sprintf(total.text, total.parts...); !strings.Contains(string(page), said) {
			t.Errorf("the page does not say %q", said)
		}
	}
}
