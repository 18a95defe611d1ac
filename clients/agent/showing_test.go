package agent

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// A person who presses late is told of by the next call, which opens no other window.
func TestCallAfterAWindowHasClosedIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Log: slog.New(slog.DiscardHandler)})
		s.jobs = newJobs(t.Context(), nil)
		opened, pressed := 0, make(chan struct{})
		show := func(of string) *window {
			return s.windowOf(of, nil, func(context.Context, *roamcard.Client) (roamcard.Presented, error) {
				opened++
				<-pressed
				return roamcard.Presented{Seen: true}, nil
			})
		}
		first := show("card a")
		synctest.Wait()
		if again, other := show("card a"), show("card b"); again != first || other != first || opened != 1 {
			t.Fatalf("%d windows at once", opened)
		}
		close(pressed)
		<-first.closed
		time.Sleep(toldWithin / 2)
		if told := show("card a"); told != first || !told.seen.Seen {
			t.Errorf("what was seen is told as %+v", told.seen)
		}
		if other := show("card b"); other == first {
			t.Error("another card is shown as the first one")
		}
		synctest.Wait()
		time.Sleep(2 * toldWithin)
		show("card b")
		s.jobs.wait()
		if opened != 3 {
			t.Errorf("%d windows were opened", opened)
		}
	})
}
