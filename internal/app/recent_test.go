package app

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// weather is a check that says what it is told to, and how often it was made.
type weather struct {
	err    error
	looks  int
	now    time.Time
	memory *recent
}

func newWeather() *weather {
	w := &weather{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.memory = &recent{check: func(context.Context) error { w.looks++; return w.err }, now: func() time.Time { return w.now }}
	return w
}

func TestWhatIsKnownIsTheLastLookUntilItIsOld(t *testing.T) {
	w, down := newWeather(), errors.New("down")
	if err := w.memory.known(); err != nil || w.looks != 0 {
		t.Errorf("before any look: %v after %d looks", err, w.looks)
	}
	w.err = down
	if err := w.memory.look(t.Context()); err != down || w.memory.known() != down {
		t.Errorf("a bad look: %v, known %v", err, w.memory.known())
	}
	w.now = w.now.Add(knownTTL - 1)
	if w.memory.known() != down {
		t.Error("a failure is forgotten before its time")
	}
	w.now = w.now.Add(1)
	if err := w.memory.known(); err != nil {
		t.Errorf("an old failure still refuses: %v", err)
	}
	if err := w.memory.ask(t.Context()); err != down || w.memory.known() != down {
		t.Errorf("a claim's look is not remembered: %v", err)
	}
	w.err = nil
	if err := w.memory.look(t.Context()); err != nil || w.memory.known() != nil {
		t.Errorf("a good look does not end it: %v, %v", err, w.memory.known())
	}
	if w.looks != 3 {
		t.Errorf("%d looks", w.looks)
	}
}

func TestManyClaimsLookOnce(t *testing.T) {
	w := newWeather()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { _ = w.memory.ask(t.Context()) })
	}
	all.Wait()
	if w.looks != 1 {
		t.Errorf("%d looks", w.looks)
	}
	w.now = w.now.Add(recentTTL)
	if _ = w.memory.ask(t.Context()); w.looks != 2 {
		t.Errorf("%d looks a moment later", w.looks)
	}
}

// TestACallerWhoHangsUpIsNoOutage, and one who waits for a hanging look keeps nobody from the terms.
func TestACallerWhoHangsUpIsNoOutage(t *testing.T) {
	begun := make(chan struct{})
	memory := &recent{now: time.Now, check: func(ctx context.Context) error { close(begun); <-ctx.Done(); return ctx.Err() }}
	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- memory.ask(ctx) }()
	<-begun
	if err := memory.known(); err != nil {
		t.Errorf("while a look is under way: %v", err)
	}
	hangUp()
	if err := <-ended; !errors.Is(err, context.Canceled) || memory.known() != nil {
		t.Errorf("ended with %v, known %v", err, memory.known())
	}
}
