package store_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

func link(n byte, expires time.Time) card.Link {
	return card.Link{ID: uuid.New(), Card: uuid.New(), Owner: x402.Address{n}, Token: [32]byte{n}, ExpiresAt: expires}
}

func TestCardLinkIsOpenedOnceAndUnlockedOnce(t *testing.T) {
	s, now := storetest.New(t), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	links, l := s.CardLinks(), link(1, now.Add(time.Minute))
	if err := links.CreateLink(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	for range 2 { // looking uses nothing
		if err := links.CheckLink(t.Context(), l.Token, now); err != nil {
			t.Fatal(err)
		}
	}
	var opened, unlocked atomic.Int64
	race := func(won *atomic.Int64, use func(n byte) (card.Link, error)) {
		var all sync.WaitGroup
		for n := range byte(8) {
			all.Go(func() {
				switch got, err := use(n); {
				case err == nil && got == l:
					won.Add(1)
				case !errors.Is(err, card.ErrLinkUsed) && !errors.Is(err, card.ErrNotFound):
					t.Errorf("%+v, %v", got, err)
				}
			})
		}
		all.Wait()
	}
	race(&opened, func(n byte) (card.Link, error) {
		return links.OpenLink(t.Context(), l.Token, [32]byte{0: 9, 1: n}, now, now.Add(time.Minute))
	})
	for n := range byte(8) { // one of these was stored
		race(&unlocked, func(byte) (card.Link, error) {
			return links.UnlockLink(t.Context(), [32]byte{0: 9, 1: n}, now)
		})
	}
	if opened.Load() != 1 || unlocked.Load() != 1 {
		t.Errorf("opened %d times, unlocked %d times", opened.Load(), unlocked.Load())
	}
	if err := links.CheckLink(t.Context(), l.Token, now); !errors.Is(err, card.ErrLinkUsed) {
		t.Errorf("a look at a used link: %v", err)
	}
	if err := links.CheckLink(t.Context(), [32]byte{2}, now); !errors.Is(err, card.ErrNotFound) {
		t.Errorf("a look at a link that is none: %v", err)
	}
	if _, err := links.OpenLink(t.Context(), [32]byte{2}, [32]byte{3}, now, now); !errors.Is(err, card.ErrNotFound) {
		t.Errorf("a link that is none: %v", err)
	}
	if _, err := links.UnlockLink(t.Context(), l.Token, now); !errors.Is(err, card.ErrNotFound) {
		t.Errorf("the link's token unlocks its page: %v", err)
	}
}

func TestCardLinkExpires(t *testing.T) {
	s, now := storetest.New(t), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	links := s.CardLinks()
	late, unlocks := link(1, now), [32]byte{9}
	for _, l := range []card.Link{late, link(2, now.Add(time.Minute))} {
		if err := links.CreateLink(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	if err := links.CheckLink(t.Context(), late.Token, now); !errors.Is(err, card.ErrLinkUsed) {
		t.Errorf("a look at an expired link: %v", err)
	}
	if _, err := links.OpenLink(t.Context(), late.Token, unlocks, now,
		now.Add(time.Minute)); !errors.Is(err, card.ErrLinkUsed) {
		t.Errorf("an expired link: %v", err)
	}
	if _, err := links.OpenLink(t.Context(), [32]byte{2}, unlocks, now, now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := links.UnlockLink(t.Context(), unlocks, now.Add(time.Minute)); !errors.Is(err, card.ErrLinkUsed) {
		t.Errorf("an expired page: %v", err)
	}
	// A link a day later deletes them: nothing is kept of who looked at a card.
	if err := links.CreateLink(t.Context(), link(3, now.Add(25*time.Hour))); err != nil {
		t.Fatal(err)
	}
	if _, err := links.OpenLink(t.Context(), late.Token, unlocks, now, now); !errors.Is(err, card.ErrNotFound) {
		t.Errorf("a link of the day before: %v", err)
	}
}
