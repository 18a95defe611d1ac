package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/screening"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestScreeningListIsReplacedAsAWhole(t *testing.T) {
	s := storetest.New(t)
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	one, two, three := x402.Address{19: 1}, x402.Address{19: 2}, x402.Address{19: 3}
	names := []string{"a", "b", "never read"}
	for i, step := range []struct {
		list   string
		holds  []x402.Address
		listed map[string][]x402.Address
	}{
		{"a", []x402.Address{one, two}, map[string][]x402.Address{"a": {one, two}}},
		{"a", []x402.Address{one, two}, map[string][]x402.Address{"a": {one, two}}},
		{"b", []x402.Address{two}, map[string][]x402.Address{"a": {one, two}, "b": {two}}},
		{"a", []x402.Address{three}, map[string][]x402.Address{"a": {three}, "b": {two}}},
	} {
		read := at.Add(time.Duration(i) * time.Hour)
		l := screening.List{Name: step.list, Addresses: step.holds, ReadAt: read}
		if err := s.Screening().ReplaceList(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		for _, payer := range []x402.Address{one, two, three} {
			got, err := s.Screening().LookUp(t.Context(), names, payer)
			if err != nil || len(got) != len(step.listed) || !got[step.list].ReadAt.Equal(read) {
				t.Fatalf("step %d: %v, %v", i, got, err)
			}
			for name, addresses := range step.listed {
				if want := slices.Contains(addresses, payer); got[name].Listed != want {
					t.Errorf("step %d: %s lists %s: %t, want %t", i, name, payer, got[name].Listed, want)
				}
			}
		}
	}
}

func TestRefusalIsAuditedOnceADay(t *testing.T) {
	s := storetest.New(t)
	payer := x402.Address{19: 1}
	for _, by := range []string{"a", "a", "b", "a"} {
		if err := s.Screening().AuditRefusal(t.Context(), payer, by); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Screening().AuditRefusal(t.Context(), x402.Address{19: 2}, "a"); err != nil {
		t.Fatal(err)
	}
	var n int
	err := s.Pool().QueryRow(t.Context(), "SELECT count(*) FROM audit WHERE action = 'payer.refuse'").Scan(&n)
	if err != nil || n != 3 {
		t.Errorf("%d rows, %v", n, err)
	}
}
