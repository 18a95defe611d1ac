package recent_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/recent"
)

func TestMapForgetsWhatWasNotUsed(t *testing.T) {
	m := recent.Map[int, int]{Most: 8}
	m.Put(-1, 1)
	m.Put(-2, 2)
	for i := range 100 {
		m.Put(i, i)
		if v, ok := m.Get(-1); !ok || v != 1 {
			t.Fatalf("%d others made it forget what is used all the time", i+1)
		}
	}
	if _, ok := m.Get(-2); ok {
		t.Error("what was not used is kept")
	}
	found := 0
	for i := range 100 {
		if _, ok := m.Get(i); ok {
			found++
		}
	}
	if found == 0 || found > 8 {
		t.Errorf("%d of 100 are kept, want some and at most 8", found)
	}
}

func TestMapMakesAnEntryOnce(t *testing.T) {
	m := recent.Map[string, int]{Most: 2}
	made := 0
	create := func() int { made++; return made }
	for range 3 {
		if got := m.GetOrPut("a", create); got != 1 {
			t.Errorf("%d, want the first", got)
		}
	}
	m.Delete("a")
	if got := m.GetOrPut("a", create); got != 2 {
		t.Errorf("%d after Delete, want another", got)
	}
}
