package esimtest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// RunJournal checks a journal; open makes an empty one.
func RunJournal(t *testing.T, open func(t *testing.T) esim.Journal) {
	for name, rule := range map[string]func(*testing.T, esim.Journal){
		"AReferenceIsBegunOnce":      referenceIsBegunOnce,
		"AnAccountHasOneReference":   accountHasOneReference,
		"WhatWasSentIsListedByTime":  sentIsListedByTime,
		"OneOfManyGetsAnAccount":     oneOfManyGetsAnAccount,
		"UnknownReferenceHasNoEntry": unknownReferenceHasNoEntry,
	} {
		t.Run(name, func(t *testing.T) { rule(t, open(t)) })
	}
}

func sent(code string, after time.Duration) esim.Sent {
	return esim.Sent{Ref: fulfilmenttest.NewRef(), Code: code, Cost: 1_120_000, At: start.Add(after)}
}

func referenceIsBegunOnce(t *testing.T, j esim.Journal) {
	first := sent("fr-1", 0)
	if err := j.Begin(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	other := sent("jp-1", time.Second)
	other.Ref = first.Ref
	for _, again := range []esim.Sent{first, other} {
		if err := j.Begin(t.Context(), again); !errors.Is(err, esim.ErrSent) {
			t.Errorf("Begin again = %v, want ErrSent", err)
		}
	}
	got, err := j.Sent(t.Context(), first.Ref)
	if diff := cmp.Diff(first, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func accountHasOneReference(t *testing.T, j esim.Journal) {
	first, second := sent("fr-1", 0), sent("fr-1", 0)
	first.Onto = "c"
	for _, s := range []esim.Sent{first, second} {
		if err := j.Begin(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := j.Name(t.Context(), first.Ref, "a"); err != nil {
			t.Fatalf("Name = %v", err)
		}
	}
	if err := j.Name(t.Context(), second.Ref, "a"); !errors.Is(err, esim.ErrTaken) {
		t.Errorf("Name of another's order = %v, want ErrTaken", err)
	}
	if err := j.Name(t.Context(), first.Ref, "b"); !errors.Is(err, esim.ErrTaken) {
		t.Errorf("another Name = %v, want ErrTaken", err)
	}
	named, err := j.Named(t.Context(), []string{"", "a", "b"})
	first.Account = "a"
	if diff := cmp.Diff(map[string]esim.Sent{"a": first}, named); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for ref, want := range map[fulfilment.Ref]string{first.Ref: "a", second.Ref: ""} {
		if got, err := j.Sent(t.Context(), ref); err != nil || got.Account != want {
			t.Errorf("account %q, %v; want %q", got.Account, err, want)
		}
	}
}

func sentIsListedByTime(t *testing.T, j esim.Journal) {
	all := []esim.Sent{sent("fr-1", 0), sent("fr-1", time.Minute), sent("fr-1", time.Hour), sent("jp-1", time.Minute)}
	for _, s := range all {
		if err := j.Begin(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Name(t.Context(), all[1].Ref, "a"); err != nil {
		t.Fatal(err)
	}
	all[1].Account = "a"
	got, err := j.SentBetween(t.Context(), "fr-1", start, start.Add(time.Minute))
	slices.SortFunc(got, func(a, b esim.Sent) int { return a.At.Compare(b.At) })
	if diff := cmp.Diff(all[:2], got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func oneOfManyGetsAnAccount(t *testing.T, j esim.Journal) {
	const many = 6
	won := make(chan error, many)
	for range many {
		s := sent("fr-1", 0)
		if err := j.Begin(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		go func() { won <- j.Name(t.Context(), s.Ref, "a") }()
	}
	named := 0
	for range many {
		if err := <-won; err == nil {
			named++
		} else if !errors.Is(err, esim.ErrTaken) {
			t.Errorf("Name = %v, want ErrTaken", err)
		}
	}
	if named != 1 {
		t.Errorf("%d references have one order", named)
	}
}

func unknownReferenceHasNoEntry(t *testing.T, j esim.Journal) {
	ref := fulfilmenttest.NewRef()
	if _, err := j.Sent(t.Context(), ref); !errors.Is(err, fulfilment.ErrNoRef) {
		t.Errorf("Sent = %v, want ErrNoRef", err)
	}
	if err := j.Name(t.Context(), ref, "a"); err == nil {
		t.Error("Name of a reference that was not begun is kept")
	}
}
