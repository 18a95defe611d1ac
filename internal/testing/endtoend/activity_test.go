package endtoend_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// eventBody is the body of an event that may be stored, with changes.
func eventBody(changes map[string]any) string {
	e := map[string]any{"eventId": uuid.NewString(), "eventName": "page_view", "visitorId": uuid.NewString()}
	for name, value := range changes {
		e[name] = value
	}
	body, _ := json.Marshal(e) // texts and maps always marshal
	return string(body)
}

// TestEventsAreReportedAsCountsOnly follows events from the intake to the report and out again.
func TestEventsAreReportedAsCountsOnly(t *testing.T) {
	t.Parallel()
	analyst := newKey(t)
	w := newWorld(t, plan{change: func(c *app.Config) { c.Activity = []x402.Address{addressOf(analyst)} }})
	b := &buyer{w: w, key: analyst, address: addressOf(analyst)}
	b.signIn()

	visitor, twice := uuid.NewString(),
		eventBody(map[string]any{"eventName": "error_shown", "properties": map[string]any{"errorCode": "terms_changed"}})
	for _, body := range []string{
		eventBody(map[string]any{
			"visitorId":  visitor,
			"path":       "/esim/plans/US",
			"properties": map[string]any{"product": "esim", "countryCode": "US"},
		}),
		eventBody(map[string]any{
			"visitorId":  visitor,
			"path":       "/cards/" + uuid.NewString(),
			"properties": map[string]any{"product": "card"},
		}), twice, twice,
	} {
		w.send(post("/api/events", body)).into(t, 202, nil)
	}
	type count struct {
		Value            string
		Events, Visitors int
	}
	var got struct {
		Days, Events, Visitors int
		ByName                 []count
		ByDay                  []count
		ByProperty             []struct {
			Name   string
			Values []count
		}
	}
	report := b.get("/api/admin/activity")
	report.into(t, 200, &got)
	if got.Days != 7 || got.Events != 3 || got.Visitors != 2 || len(got.ByDay) == 0 {
		t.Errorf("report %+v", got)
	}
	if diff := cmp.Diff([]count{{"page_view", 2, 1}, {"error_shown", 1, 1}}, got.ByName); diff != "" {
		t.Errorf("by name:\n%s", diff)
	}
	if strings.Contains(string(report.body), visitor) || strings.Contains(w.dump(), visitor) {
		t.Error("the visitor's id was kept")
	}
	for _, days := range []string{"0", "91", "-1", "7.5", "x", ""} {
		wantStatus(t, fmt.Sprintf("days=%s", days), b.get("/api/admin/activity?days="+days), 400)
	}
	b.get("/api/admin/activity?days=90").into(t, 200, nil)

	var pruned struct{ Deleted *int }
	b.post("/api/admin/activity/prune", "").into(t, 200, &pruned)
	if pruned.Deleted == nil || *pruned.Deleted != 0 {
		t.Errorf("nothing is old, and %v were deleted", pruned.Deleted)
	}
	w.exec(`UPDATE events SET at = now() - interval '91 days' WHERE name = 'page_view'`)
	b.post("/api/admin/activity/prune", "").into(t, 200, &pruned)
	if *pruned.Deleted != 2 {
		t.Errorf("%d deleted, want 2", *pruned.Deleted)
	}
	b.get("/api/admin/activity?days=90").into(t, 200, &got)
	if got.Events != 1 {
		t.Errorf("%d events are left, want 1", got.Events)
	}
	other := w.unfundedBuyer()
	other.signIn()
	wantProblem(t, "a wallet that is not listed", other.get("/api/admin/activity"), 401, fault.SessionInvalid)
}

// TestEventsWithForbiddenContentAreNotStored sends the whole corpus over HTTP and looks at what is left of it.
func TestEventsWithForbiddenContentAreNotStored(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	for file, want := range map[string]int{"forbidden": 400, "benign": 202} {
		f, err := os.Open("../../activity/testdata/" + file + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		sent := 0
		for ; lines.Scan(); sent++ {
			var c struct{ Event json.RawMessage }
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
				t.Fatal(err)
			}
			if a := w.send(post("/api/events", string(c.Event))); a.status != want {
				t.Errorf("%s: %d %s for %s", file, a.status, a.body, c.Event)
			}
		}
		if err := lines.Err(); err != nil {
			t.Errorf("read %s: %v", file, err)
		}
		if sent < 200 {
			t.Errorf("%d of %s", sent, file)
		}
	}
	var stored int
	if err := w.db.QueryRow(t.Context(), `SELECT count(*) FROM events`).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if stored < 200 || stored > 320 {
		t.Errorf("%d events are stored", stored)
	}
}

func TestExpiredSignInChallengesArePruned(t *testing.T) {
	t.Parallel()
	token := "rco_of_the_test"
	// Without a worker, which prunes from time to time by itself.
	w := newWorld(t, plan{bare: true, change: func(c *app.Config) {
		c.Operators, c.NoWorker = []auth.Operator{newOperator("ada", token)}, true
	}})
	w.start(w.config)
	for range 3 {
		w.unfundedBuyer().signIn()
	}
	as := map[string]string{"Authorization": "Bearer " + token}
	var status struct{ RetentionSeconds, Total, Stale, BatchSize int }
	w.send(get("/api/admin/auth-challenges/retention").with(as)).into(t, 200, &status)
	if status.RetentionSeconds != 86400 || status.Total != 3 || status.Stale != 0 || status.BatchSize != auth.PruneBatch {
		t.Errorf("status %+v", status)
	}
	// More than a batch, and some that are expired but not long enough.
	w.exec(`INSERT INTO challenges (id, purpose, wallet, scheme, message, nonce, issued_at, expires_at)
		SELECT gen_random_uuid(), 'sign_in', '0x', 'eip191', '', '', now() - interval '30 hours',
			now() - interval '25 hours' FROM generate_series(1, 2500)
		UNION ALL
		SELECT gen_random_uuid(), 'sign_in', '0x', 'eip191', '', '', now() - interval '2 hours',
			now() - interval '1 hour' FROM generate_series(1, 5)`)
	var pruned struct{ Deleted, Remaining int }
	w.send(post("/api/admin/auth-challenges/prune", "").with(as)).into(t, 200, &pruned)
	if pruned.Deleted != 2500 || pruned.Remaining != 0 {
		t.Errorf("pruned %+v", pruned)
	}
	w.send(get("/api/admin/auth-challenges/retention").with(as)).into(t, 200, &status)
	if status.Total != 8 || status.Stale != 0 {
		t.Errorf("status %+v", status)
	}
	var acts int
	if err := w.db.QueryRow(t.Context(),
		`SELECT count(*) FROM audit WHERE actor = 'ada' AND action LIKE 'auth_challenges.%'`).Scan(&acts); err != nil ||
		acts != 3 {
		t.Errorf("%d acts in the audit trail (%v)", acts, err)
	}
	unsigned := w.send(post("/api/admin/auth-challenges/prune", ""))
	wantProblem(t, "without a token", unsigned, 401, fault.OperatorTokenInvalid)
}

// TestWorkerPrunesExpiredRows waits for the periodic job.
func TestWorkerPrunesExpiredRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	w.send(post("/api/events", eventBody(nil))).into(t, 202, nil)
	b := w.unfundedBuyer()
	b.signIn()
	w.exec(`UPDATE events SET at = now() - interval '91 days'`)
	w.exec(`UPDATE sessions SET expires_at = now() - interval '25 hours'`)
	w.exec(`UPDATE challenges SET expires_at = now() - interval '25 hours'`)
	// The job of this period has run already, perhaps: its next one is due now.
	w.exec(`DELETE FROM jobs WHERE kind = 'retention' AND status = 'succeeded'`)
	w.exec(`UPDATE jobs SET run_at = now() WHERE kind = 'retention'`)
	w.exec(`INSERT INTO jobs (id, kind, unique_key, payload, traceparent, status, attempt,
		uncounted_attempts, max_attempts,
			version, step, run_at, created_at, last_error)
		VALUES (gen_random_uuid(), 'retention', 'of the test', '{}', '', 'queued', 0, 0, 5, 0, '', now(), now(), '')`)
	eventually(t, func() (bool, string) {
		var left int
		err := w.db.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM sessions) + (SELECT
			count(*) FROM challenges)`).Scan(&left)
		return err == nil && left == 0, "rows are left"
	})
}

func newOperator(name, token string) auth.Operator {
	return auth.Operator{Name: name, Hash: sha256.Sum256([]byte(token))}
}
