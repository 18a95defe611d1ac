package doctor

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// TestSealedByAKeyThatIsGoneIsFound, with the key's name; what is not sealed any more needs none.
func TestSealedByAKeyThatIsGoneIsFound(t *testing.T) {
	at := storetest.URL(t)
	rows, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rows.Close(context.Background()) })
	if _, err := rows.Exec(t.Context(), `INSERT INTO esim_profiles
			(id, order_id, owner, plan_id, provider, status, reference, sealed_key, sealed, created_at, updated_at)
		SELECT gen_random_uuid(), 'ord_' || n, '0x' || n, 'p', 'sandbox', CASE n WHEN 3 THEN 'cancelled' ELSE 'ready' END,
			gen_random_uuid(), CASE n WHEN 1 THEN 'k2' WHEN 3 THEN 'k0' ELSE 'k1' END,
			CASE n WHEN 3 THEN NULL ELSE '\x01'::bytea END, now(), now()
		FROM generate_series(1, 4) n`); err != nil {
		t.Fatal(err)
	}
	k1, k2 := "k1:"+strings.Repeat("01", 32), "k2:"+strings.Repeat("02", 32)
	for keys, want := range map[string]string{
		k2: "2 eSIMs are sealed with k1, which esim.keys does not have", k2 + "," + k1: "", k1 + "," + k2: "",
	} {
		cfg := app.Config{DatabaseURL: secret.New(at)}
		cfg.Esim.Keys = secret.New(keys)
		all := cfg.ExamineProviders(t.Context())
		i := slices.IndexFunc(all, func(e app.Examination) bool { return e.Name == "esim keys" })
		if i < 0 {
			t.Fatalf("not looked at: %+v", all)
		}
		found, told := all[i], ""
		if found.Err != nil {
			told = found.Err.Error()
		}
		if (told == "") != (want == "") || !strings.HasPrefix(told, want) {
			t.Errorf("%+v", found)
		}
	}
}
