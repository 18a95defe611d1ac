package store_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/activity"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// noon is when the reports of these tests are made.
var noon = time.Date(2026, 3, 20, 12, 0, 0, 0, time.UTC)

const reportedDays = 5

// analyst reports on the events of a store.
func analyst(s *store.Store) *activity.Activity {
	return activity.New(activity.Config{Store: s.Events(), Now: func() time.Time { return noon }})
}

// visit stores an event of one of some visitors.
func visit(t *testing.T, s *store.Store, at time.Time, visitor int, name string, properties map[string]string) {
	t.Helper()
	if err := s.Events().Record(t.Context(), activity.Event{
		ID: uuid.New(), Visitor: digestOf(visitor), Name: name, Properties: properties, At: at,
	}); err != nil {
		t.Fatal(err)
	}
}

// digestOf is a visitor's, spread evenly as digests are.
func digestOf(visitor int) (v activity.Visitor) {
	source := rand.NewChaCha8([32]byte{byte(visitor), byte(visitor >> 8)})
	_, _ = source.Read(v[:]) // never fails
	return v
}

// visits stores events of the days that are reported, and of the day before them.
func visits(t *testing.T, s *store.Store) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	names := activity.Names()
	for range 400 {
		at := noon.Add(-time.Duration(r.Int64N(int64((reportedDays + 1) * 24 * time.Hour))))
		properties := map[string]string{}
		if r.IntN(2) == 0 {
			properties["countryCode"] = []string{"DE", "FR", "US"}[r.IntN(3)]
		}
		if r.IntN(3) == 0 {
			properties["step"] = []string{"pay", "done"}[r.IntN(2)]
		}
		visit(t, s, at, r.IntN(40), names[r.IntN(len(names))], properties)
	}
}

// counted are the events themselves, counted at once.
func counted(t *testing.T, s *store.Store) activity.Summary {
	t.Helper()
	from := noon.Truncate(24*time.Hour).AddDate(0, 0, 1-reportedDays)
	sum := activity.Summary{ByProperty: map[string][]activity.Count{}}
	if err := s.Pool().QueryRow(t.Context(),
		"SELECT count(*), count(DISTINCT visitor) FROM events WHERE at >= $1", from).Scan(&sum.Events,
		&sum.Visitors); err != nil {
		t.Fatal(err)
	}
	for subject, sql := range map[string]string{
		"day":  "SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), %s FROM events",
		"name": "SELECT name, %s FROM events",
		"countryCode": "SELECT properties->>'countryCode', %s FROM (SELECT * FROM events " +
			"WHERE properties ? 'countryCode') e",
		"step": "SELECT properties->>'step', %s FROM (SELECT * FROM events WHERE properties ? 'step') e",
	} {
		rows, err := s.Pool().Query(t.Context(), fmt.Sprintf(sql, "count(*)::int, count(DISTINCT visitor)::int")+
			" WHERE at >= $1 GROUP BY 1 ORDER BY 2 DESC, 1", from)
		if err != nil {
			t.Fatal(err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[activity.Count])
		switch {
		case err != nil:
			t.Fatal(err)
		case subject == "day":
			sum.ByDay = found
		case subject == "name":
			sum.ByName = found
		case len(found) > 0:
			sum.ByProperty[subject] = found
		}
	}
	return sum
}

func report(ctx context.Context, s *store.Store) (activity.Summary, error) {
	r, err := analyst(s).Report(ctx, reportedDays)
	return r.Summary, err
}

func wantReport(t *testing.T, when string, s *store.Store, want activity.Summary) {
	t.Helper()
	got, err := report(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s:\n%s", when, diff)
	}
}

// TestReportIsWhatTheEventsAre, whichever of its days are rolled up, and after their events are pruned.
func TestReportIsWhatTheEventsAre(t *testing.T) {
	s := storetest.New(t)
	wantReport(t, "without events", s, activity.Summary{ByProperty: map[string][]activity.Count{}})
	visits(t, s)
	want := counted(t, s)
	wantReport(t, "before a day is rolled up", s, want)
	today := noon.Truncate(24 * time.Hour)
	for rolled := 1; ; rolled++ {
		more, err := s.Events().RollUp(t.Context(), today)
		if err != nil {
			t.Fatal(err)
		}
		wantReport(t, fmt.Sprint(rolled, " days are rolled up"), s, want)
		if !more {
			break
		}
	}
	if n := rows(t, s, "SELECT count(DISTINCT day) FROM event_days"); n != reportedDays+1 {
		t.Errorf("%d days are rolled up, want %d", n, reportedDays+1)
	}

	// One that comes late counts once, for the first day that is not rolled up.
	visit(t, s, noon.AddDate(0, 0, -3), 99, "page_view", nil)
	late, err := report(t.Context(), s)
	if err != nil || late.Events != want.Events+1 || late.Visitors != want.Visitors+1 {
		t.Errorf("with a late event %d events, %d visitors, %v", late.Events, late.Visitors, err)
	}
	wantReport(t, "with a late event", s, counted(t, s))

	if n, err := s.Events().Prune(t.Context(), today, 1000); err != nil || n < 300 {
		t.Errorf("pruned %d, %v", n, err)
	}
	wantReport(t, "after the events of its days were pruned", s, late)
	for range 2 {
		if _, err := s.Events().PruneDays(t.Context(), today, 1000); err != nil {
			t.Fatal(err)
		}
	}
	wantReport(t, "after its days were pruned", s, counted(t, s))
}

// TestDaysAreRolledUpWhileEventsCome: several processes roll days up and report while events are sent. No report counts
// an event of a past day twice or misses one.
func TestDaysAreRolledUpWhileEventsCome(t *testing.T) {
	url := storetest.URL(t)
	s := storetest.Open(t, url)
	visits(t, s)
	past := map[string]activity.Count{}
	for _, day := range counted(t, s).ByDay {
		past[day.Value] = day
	}
	const today = "2026-03-20"
	var all sync.WaitGroup
	for i := range 3 {
		other := storetest.Open(t, url)
		all.Go(func() {
			if err := analyst(other).RollUp(t.Context()); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			for n := range 20 {
				e := activity.Event{ID: uuid.New(), Visitor: digestOf(n), Name: "page_view",
					Properties: map[string]string{}, At: noon.Add(-time.Duration(i) * time.Hour)}
				if err := other.Events().Record(t.Context(), e); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for range 10 {
				sum, err := report(t.Context(), other)
				if err != nil {
					t.Error(err)
				}
				for _, day := range sum.ByDay {
					if day.Value != today && day != past[day.Value] {
						t.Errorf("%+v while days are rolled up, want %+v", day, past[day.Value])
					}
				}
				if len(sum.ByDay) != len(past) {
					t.Errorf("%d days, want %d", len(sum.ByDay), len(past))
				}
			}
		})
	}
	all.Wait()
	wantReport(t, "in the end", s, counted(t, s))
	if n := rows(t, s, "SELECT count(DISTINCT day) FROM event_days"); n != reportedDays+1 {
		t.Errorf("%d days are rolled up, want %d", n, reportedDays+1)
	}
}

// TestReportAndRollUpAtTheSameTime: days are rolled up after a report has read which ones are, and before it has read
// them.
func TestReportAndRollUpAtTheSameTime(t *testing.T) {
	url := storetest.URL(t)
	direct := storetest.Open(t, url)
	visits(t, direct)
	var once sync.Once
	s := storetest.Open(t, proxied(t, url, func(sent []byte) cut {
		if bytes.Contains(sent, []byte("FROM event_days")) {
			once.Do(func() {
				if err := analyst(direct).RollUp(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		return pass
	}))
	wantReport(t, "while days are rolled up", s, counted(t, direct))
	if n := rows(t, direct, "SELECT count(DISTINCT day) FROM event_days"); n != reportedDays+1 {
		t.Errorf("%d days were rolled up meanwhile", n)
	}
}

// TestDayIsNotRolledUpAtItsEnd: events of its last second may be on their way.
func TestDayIsNotRolledUpAtItsEnd(t *testing.T) {
	s := storetest.New(t)
	midnight := noon.Truncate(24 * time.Hour)
	visit(t, s, midnight.Add(-time.Second), 1, "page_view", nil)
	early := activity.New(activity.Config{Store: s.Events(), Now: func() time.Time { return midnight.Add(time.Minute) }})
	if err := early.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := rows(t, s, "SELECT count(*) FROM event_days"); n != 0 {
		t.Errorf("%d rows are rolled up a minute after the end of the day", n)
	}
	if err := analyst(s).RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := rows(t, s, "SELECT count(DISTINCT day) FROM event_days"); n != 1 {
		t.Errorf("%d days are rolled up at noon", n)
	}
}

// TestMostFrequentValuesOfADayAreCounted: anybody may send values, so they are bounded.
func TestMostFrequentValuesOfADayAreCounted(t *testing.T) {
	s := storetest.New(t)
	exec(t, s, `INSERT INTO events (id, name, visitor, properties, at)
		SELECT gen_random_uuid(), 'error_shown', decode(repeat('00', 16), 'hex'),
			jsonb_build_object('errorCode', 'e' || n), $1
		FROM generate_series(1, $2::int) n, generate_series(1, CASE WHEN n % 2 = 0 THEN 2 ELSE 1 END)`,
		noon.AddDate(0, 0, -1), 2*activity.MostValues)
	for _, when := range []string{"before", "after"} {
		got, err := report(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		codes := got.ByProperty["errorCode"]
		if len(codes) != activity.MostValues || codes[len(codes)-1].Events != 2 || got.Events != 3*activity.MostValues {
			t.Errorf("%s the day is rolled up: %d values, %d events", when, len(codes), got.Events)
		}
		if err := analyst(s).RollUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
