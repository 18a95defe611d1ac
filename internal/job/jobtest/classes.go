package jobtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/job"
)

func classesApart(t *testing.T, q job.Queue) {
	for _, class := range append(job.Classes(), "") {
		enqueue(t, q, job.New{Args: Args{Name: cook}, UniqueKey: "k" + string(class), Class: class})
	}
	take := func(class job.Class) []job.Row {
		t.Helper()
		rows, err := q.Claim(t.Context(), "me", class, both, 5, ttl)
		if err != nil {
			t.Fatalf("Claim: %v", err)
		}
		for _, row := range rows {
			if row.Class != class {
				t.Errorf("claimed %s to %s as work to %s", row.UniqueKey, row.Class, class)
			}
		}
		return rows
	}
	settling := take(job.Settle)
	if got := keysOf(settling); !cmp.Equal(got, []string{"ksettle"}) {
		t.Fatalf("claimed %v to settle", got)
	}
	if got := keysOf(take(job.Maintain)); len(got) != 2 {
		t.Errorf("claimed %v to maintain, want also the one without a class", got)
	}
	finish(t, q, settling[0].Fence(), job.HandOver(job.Deliver))
	if got := keysOf(take(job.Settle)); len(got) != 0 {
		t.Errorf("claimed %v to settle after it was handed over", got)
	}
	delivering := take(job.Deliver)
	if len(delivering) != 2 {
		t.Errorf("claimed %v to deliver", keysOf(delivering))
	}
	for _, row := range delivering {
		finish(t, q, row.Fence(), job.Snooze(0))
	}
	if n := len(take(job.Deliver)); n != 2 {
		t.Errorf("an outcome without a class left %d jobs to deliver", n)
	}
}

func aloneIsAlone(t *testing.T, q job.Queue) {
	add := func(key string, want bool) {
		t.Helper()
		added, err := q.Enqueue(t.Context(), job.New{Args: Args{Name: cook}, UniqueKey: key, Exclusive: true})
		if err != nil || added != want {
			t.Fatalf("Enqueue %s = %v, %v", key, added, err)
		}
	}
	enqueue(t, q, job.New{Args: Args{Name: serve}, UniqueKey: "other kind"})
	add("first", true)
	add("second", false) // the first is queued
	row := claimOne(t, q)
	add("second", false) // the first is being worked on
	finish(t, q, row.Fence(), job.Review("broken"))
	add("second", true) // nobody works on the first any more
	finish(t, q, claimOne(t, q).Fence(), job.Done())
	add("second", false) // its own key
	add("third", true)
}

func parkedCleared(t *testing.T, q job.Queue) {
	for key, outcome := range map[string]job.Outcome{
		"review": job.Review("odd"), "failed": job.Fail("refused"), "done": job.Done(), "queued": job.Snooze(ttl),
	} {
		finish(t, q, enqueueAndClaim(t, q, key, ttl).Fence(), outcome)
	}
	clear := func(kind job.Kind, limit, want int) {
		t.Helper()
		if n, err := q.ClearParked(t.Context(), kind, limit); err != nil || n != want {
			t.Errorf("cleared %d of %s, %v, want %d", n, kind, err, want)
		}
	}
	clear(serve, 5, 0)
	clear(cook, 1, 1)
	clear(cook, 5, 1)
	clear(cook, 5, 0)
	for key, want := range map[string]bool{"review": false, "failed": false, "done": true, "queued": true} {
		if _, found, err := q.Find(t.Context(), cook, key); err != nil || found != want {
			t.Errorf("%s: found %v, %v", key, found, err)
		}
	}
}
