package store_test

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

func woken(wake <-chan struct{}) bool {
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

// hears repeats the wake-up until it arrives: the listener may not be there yet.
func hears(t *testing.T, wake <-chan struct{}, say func()) {
	t.Helper()
	eventually(t, "the wake-up arrives", func() bool {
		say()
		select {
		case <-wake:
			return true
		case <-time.After(100 * time.Millisecond):
			return false
		}
	})
}

func TestWakeUpsReachTheirSubject(t *testing.T) {
	s := storetest.New(t)
	one, cancelOne := s.Subscribe("order", "1")
	same, cancelSame := s.Subscribe("order", "1")
	other, cancelOther := s.Subscribe("order", "2")
	defer cancelSame()
	// The listener's start wakes everybody once; let that go by.
	eventually(t, "the listener is there", func() bool { return woken(other) })
	woken(one)
	woken(same)

	s.Notify("order", "1")
	s.Notify("order", "1")
	if !woken(one) || !woken(same) || woken(one) {
		t.Error("subscribers in the same process are woken at once, and once for two")
	}
	if woken(other) {
		t.Error("woken for another key")
	}
	cancelOne()
	cancelOther()
	s.Notify("order", "1")
	if woken(one) || !woken(same) {
		t.Error("a subscription ends alone")
	}
}

func TestWakeUpsReachOtherProcesses(t *testing.T) {
	url := storetest.URL(t)
	here, there := storetest.Open(t, url), storetest.Open(t, url)
	odd := "a key\nof \"two\" lines"
	wake, cancel := there.Subscribe("order", odd)
	defer cancel()
	hears(t, wake, func() { here.Notify("order", odd) })
	hears(t, wake, func() {
		err := here.Tx(t.Context(), func(_ context.Context, tx *ent.Tx) error {
			store.WakeOnCommit(tx, "order", odd)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestListenerReconnects(t *testing.T) {
	url := storetest.URL(t)
	here, there := storetest.Open(t, url), storetest.Open(t, url)
	wake, cancel := there.Subscribe("order", "1")
	defer cancel()
	hears(t, wake, func() { here.Notify("order", "1") })
	for range 2 {
		cutConnections(t, here)
		hears(t, wake, func() { here.Notify("order", "1") })
	}
}

func TestCloseSendsTheLastWakeUps(t *testing.T) {
	url := storetest.URL(t)
	there := storetest.Open(t, url)
	wake, cancel := there.Subscribe("order", "1")
	defer cancel()
	hears(t, wake, func() {
		here, err := store.Open(t.Context(), store.Config{URL: url, Products: storetest.Products()})
		if err != nil {
			t.Fatal(err)
		}
		here.Notify("order", "1")
		here.Close()
	})
}

// TestClosingCancelsNoListen: a store that closes while it begins to listen lets that end. A cancel request for it may
// end a pooler.
func TestClosingCancelsNoListen(t *testing.T) {
	listens, closing := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var cancels atomic.Int32
	s := storetest.Open(t, proxied(t, storetest.URL(t), func(sent []byte) cut {
		switch {
		case bytes.HasPrefix(sent, cancelRequest):
			cancels.Add(1)
		case bytes.Contains(sent, []byte("LISTEN ")):
			once.Do(func() { close(listens) })
			<-closing
			<-time.After(200 * time.Millisecond) // in which it would be given up
		}
		return pass
	}))
	<-listens
	close(closing)
	s.Close()
	<-time.After(300 * time.Millisecond) // in which one would arrive
	if n := cancels.Load(); n != 0 {
		t.Errorf("%d cancel requests", n)
	}
}
