package esimtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/esim"
)

// held is a purchase as its supplier is asked about it.
func held(p esim.Purchase) esim.Held {
	return esim.Held{ID: p.ID, Code: p.Code, ICCID: p.ActivationData.ICCID, Cost: p.Cost}
}

func (h Harness) controls(t *testing.T) esim.Controls {
	t.Helper()
	c, ok := h.Supplier.(esim.Controls)
	if !ok {
		t.Fatal("the supplier declares what it does not have")
	}
	return c
}

func (h Harness) profileIsWatched(t *testing.T) {
	ctx, c := fulfilmenttest.Context(t), h.controls(t)
	_, p := h.ordering().Finished(t, h.Handles)
	fresh, err := c.State(ctx, held(p))
	if err != nil || fresh.Status != esim.ProfileNotInstalled || (fresh.Usage != nil && fresh.Usage.Used != 0) {
		t.Errorf("a new profile is %+v, %v", fresh, err)
	}
	const bytes = 5_000_000
	h.Use(p, bytes)
	used, err := c.State(ctx, held(p))
	if err != nil || used.Status != esim.ProfileActive || (used.Usage != nil) != h.Capabilities.Usage {
		t.Fatalf("a profile in use is %+v, %v", used, err)
	}
	if u := used.Usage; u != nil && (u.Used != bytes || u.Total < bytes) {
		t.Errorf("%d bytes are used, the supplier says %+v", bytes, u)
	}
	if _, err := c.State(ctx, esim.Held{ID: "no-such-profile", Code: p.Code}); err == nil {
		t.Error("a profile that is not there has a state")
	}
}

func (h Harness) stateIsReadWholeOrNotAtAll(t *testing.T) {
	ctx, c := fulfilmenttest.Context(t), h.controls(t)
	_, p := h.ordering().Finished(t, h.Handles)
	h.Use(p, 1)
	for _, mode := range []fulfilmenttest.Mode{
		fulfilmenttest.ErrorBefore, fulfilmenttest.ErrorAfter, fulfilmenttest.TimeoutBefore, fulfilmenttest.Malformed,
		fulfilmenttest.Truncated, fulfilmenttest.Huge, fulfilmenttest.RateLimited, fulfilmenttest.Unauthorized,
		fulfilmenttest.WrongOwner,
	} {
		t.Run(string(mode), func(t *testing.T) {
			h.Inject(t, Profile, mode)
			state, err := c.State(ctx, held(p))
			h.WantUnknown(t, err)
			if state != (esim.State{}) {
				t.Errorf("half a state: %+v", state)
			}
			for ; err != nil; err = errors.Unwrap(err) {
				if strings.Contains(fulfilmenttest.Shown(t, err), p.ActivationData.ICCID.Reveal()) {
					t.Error("an error shows the number of the eSIM")
				}
			}
		})
	}
	t.Run("an unfamiliar status is unknown", func(t *testing.T) {
		h.Inject(t, Profile, fulfilmenttest.UnknownState)
		if state, err := c.State(ctx, held(p)); err == nil && state.Status == esim.ProfileNotInstalled {
			t.Errorf("it is %+v, %v", state, err)
		}
	})
}

var _ esim.Controls = (*Supplier)(nil)

// Capabilities are all that there are.
func (s *Supplier) Capabilities() esim.Capabilities {
	return esim.Capabilities{Status: true, Usage: true, Cancel: true, Topup: true}
}

// Use makes a device install a profile and use so many bytes.
func (s *Supplier) Use(p esim.Purchase, bytes int64) {
	s.put(p.ID, func(b *bought) {
		b.state = esim.State{Status: esim.ProfileActive, Usage: &esim.Usage{Used: bytes, Total: 1 << 30}}
	})
}

// Become gives the profile of a purchase a state.
func (s *Supplier) Become(id string, state esim.State) {
	s.put(id, func(b *bought) { b.state = state })
}

func (s *Supplier) put(id string, how func(*bought)) {
	s.Lock()
	defer s.Unlock()
	how(s.named(id))
}

func (s *Supplier) named(id string) *bought {
	for _, b := range s.orders {
		if b.ID == id {
			return b
		}
	}
	return nil
}

// Looks is how often State was asked.
func (s *Supplier) Looks() int {
	s.Lock()
	defer s.Unlock()
	return s.looks
}

// State implements esim.Controls.
func (s *Supplier) State(ctx context.Context, h esim.Held) (esim.State, error) {
	s.Lock()
	defer s.Unlock()
	s.looks++
	if err := s.Answer(ctx, Profile); err != nil {
		return esim.State{}, err
	}
	b := s.named(h.ID)
	if b == nil || !b.activationData.ICCID.Equal(h.ICCID) || b.Code != h.Code {
		return esim.State{}, errors.New("there is no such profile")
	}
	if b.state.Status == "" {
		return esim.State{Status: esim.ProfileNotInstalled}, nil
	}
	return b.state, nil
}
