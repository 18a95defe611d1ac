package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/store"
)

// crowd lets callers of a batcher come one after the other, while nothing runs, and returns their answers once the
// batches that follow have ended.
func crowd[T any](t *testing.T, hold func() func(), waiting func() int, calls []func() (T, error)) ([]T, []error) {
	t.Helper()
	answers, errs := make([]T, len(calls)), make([]error, len(calls))
	begin := hold()
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() { answers[i], errs[i] = call() })
		eventually(t, "a caller waits", func() bool { return waiting() == i+1 })
	}
	begin()
	all.Wait()
	return answers, errs
}

func TestCallerThatIsAloneHasNoBatch(t *testing.T) {
	b := store.NewBatcher(func(names []string, _ func(string, int, error)) { t.Errorf("a batch of %v", names) })
	alone := func() (int, error) { return 7, nil }
	for range 3 {
		if n, err := b.Do(t.Context(), "a", alone); n != 7 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	// One that has waited for another is alone too.
	answers, errs := crowd(t, b.Hold, b.Waiting, []func() (int, error){
		func() (int, error) { return b.Do(t.Context(), "b", alone) },
	})
	if answers[0] != 7 || errs[0] != nil {
		t.Errorf("%d, %v", answers[0], errs[0])
	}
}

// TestBatchesAreBoundedAndHaveNoTwins: those of one key come after one another, and nobody is forgotten.
func TestBatchesAreBoundedAndHaveNoTwins(t *testing.T) {
	var batches [][]string
	b := store.NewBatcher(func(names []string, answer func(string, int, error)) {
		batches = append(batches, slices.Clone(names)) // one batch runs at a time
		for i, name := range names {
			answer(name, i, nil)
		}
	})
	alone := 0
	var calls []func() (int, error)
	for i := range 40 {
		name := fmt.Sprint(i)
		if i >= 36 {
			name = "35"
		}
		calls = append(calls, func() (int, error) {
			return b.Do(t.Context(), name, func() (int, error) { alone++; return 0, nil })
		})
	}
	_, errs := crowd(t, b.Hold, b.Waiting, calls)
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	// 32, four that are left with one of the twins, and the other twins one by one.
	if len(batches) != 2 || len(batches[0]) != store.BatchSize || len(batches[1]) != 4 || alone != 4 {
		t.Errorf("batches %v, and %d alone", batches, alone)
	}
}

func TestMembersAreAnsweredEachByItself(t *testing.T) {
	mine := errors.New("mine")
	b := store.NewBatcher(func(_ []string, answer func(string, int, error)) {
		answer("stored", 1, nil)
		answer("failed", 0, mine)
	})
	var calls []func() (int, error)
	for _, name := range []string{"stored", "failed", "left out"} {
		calls = append(calls, func() (int, error) {
			return b.Do(t.Context(), name, func() (int, error) {
				if name != "left out" {
					t.Errorf("%s is done again", name)
				}
				return 3, nil
			})
		})
	}
	answers, errs := crowd(t, b.Hold, b.Waiting, calls)
	if !slices.Equal(answers, []int{1, 0, 3}) || errs[0] != nil || !errors.Is(errs[1], mine) || errs[2] != nil {
		t.Errorf("%v, %v", answers, errs)
	}
}

// TestPanicOfABatchLeavesItsMembersUnknown: it may have come after the commit.
func TestPanicOfABatchLeavesItsMembersUnknown(t *testing.T) {
	broken := true
	b := store.NewBatcher(func(names []string, answer func(string, int, error)) {
		if broken {
			panic("mine")
		}
		for _, name := range names {
			answer(name, 1, nil)
		}
	})
	var calls []func() (int, error)
	for _, name := range []string{"a", "b"} {
		calls = append(calls, func() (int, error) {
			return b.Do(t.Context(), name, func() (int, error) { t.Error("done again"); return 0, nil })
		})
	}
	for range 2 {
		_, errs := crowd(t, b.Hold, b.Waiting, calls)
		for _, err := range errs {
			if errors.Is(err, store.ErrUnknownCommit) != broken || (err != nil) != broken {
				t.Errorf("broken %t: %v", broken, err)
			}
		}
		broken = false
	}
}

// TestCallerWhoseTimeEndsKnowsWhetherItWasBegun: what has begun goes on, and what has not never begins.
func TestCallerWhoseTimeEndsKnowsWhetherItWasBegun(t *testing.T) {
	running, end := make(chan []string), make(chan struct{})
	b := store.NewBatcher(func(names []string, answer func(string, int, error)) {
		running <- names
		<-end
		for _, name := range names {
			answer(name, 1, nil)
		}
	})
	never := func() (int, error) { t.Error("done again"); return 0, nil }
	const short = 50 * time.Millisecond
	begin := b.Hold()
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	if _, err := b.Do(ctx, "waits", never); fault.Of(err) != fault.DeadlineExceeded ||
		errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownCommit) {
		t.Errorf("the caller's deadline before the beginning: %v", err)
	}
	_, err := b.Do(store.WithCallTimeout(t.Context(), short), "waits", never)
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownCommit) {
		t.Errorf("our own timeout before the beginning: %v", err)
	}
	begin()
	// The time may end before the batch begins: then it has not begun, and the test tries again with a new one.
	for {
		begin := b.Hold()
		errs := make(chan error, 2)
		for i, name := range []string{"a", "b"} {
			go func() {
				_, err := b.Do(store.WithCallTimeout(t.Context(), time.Second), name, func() (int, error) { return 0, nil })
				errs <- err
			}()
			eventually(t, "a caller waits", func() bool { return b.Waiting() >= i+1 || len(errs) > 0 })
		}
		begin()
		var begun bool
		select {
		case names := <-running:
			begun = len(names) == 2
		case err := <-errs:
			errs <- err
		}
		first, second := <-errs, <-errs
		if !begun {
			continue
		}
		for _, err := range []error{first, second} {
			if !errors.Is(err, store.ErrUnknownCommit) || fault.Of(err) != fault.DependencyDown {
				t.Errorf("our own timeout in a batch that runs: %v", err)
			}
		}
		break
	}
	close(end)
	// A caller that goes when its batch has begun is no reason to stop.
	ctx, cancel = context.WithCancel(t.Context())
	go func() { <-running; cancel() }()
	var calls []func() (int, error)
	for _, name := range []string{"a", "b"} {
		calls = append(calls, func() (int, error) { return b.Do(ctx, name, never) })
	}
	answers, errs := crowd(t, b.Hold, b.Waiting, calls)
	if !slices.Equal(answers, []int{1, 1}) || errors.Join(errs...) != nil {
		t.Errorf("%v, %v", answers, errs)
	}
}

// TestBatchThatIsStuckHoldsNobodyUp: those that come later have a batch of their own after a while.
func TestBatchThatIsStuckHoldsNobodyUp(t *testing.T) {
	end, stuck := make(chan struct{}), make(chan struct{})
	b := store.NewBatcher(func(names []string, answer func(string, int, error)) {
		if names[0] == "stuck" {
			close(stuck)
			<-end
		}
		for _, name := range names {
			answer(name, 1, nil)
		}
	})
	alone := func() (int, error) { return 1, nil }
	begin := b.Hold()
	var all sync.WaitGroup
	for i, name := range []string{"stuck", "too"} {
		all.Go(func() { _, _ = b.Do(t.Context(), name, alone) })
		eventually(t, "a caller waits", func() bool { return b.Waiting() == i+1 })
	}
	begin()
	<-stuck
	if n, err := b.Do(t.Context(), "later", alone); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	close(end)
	all.Wait()
}
