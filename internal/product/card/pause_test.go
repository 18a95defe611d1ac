package card_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/topup"
)

// switches keeps kill switches.
type switches struct {
	paused []order.Kind
	err    error
}

// Switches implements availability.SwitchStore.
func (s switches) Switches(context.Context) ([]availability.Switch, error) {
	var all []availability.Switch
	for _, k := range s.paused {
		all = append(all, availability.Switch{Product: k, Paused: true})
	}
	return all, s.err
}

func TestCardsAndTopupsHaveSwitchesOfTheirOwn(t *testing.T) {
	for name, tc := range map[string]struct {
		paused        []order.Kind
		issue, topups bool // by the configuration
		card, credit  fault.Code
	}{
		"nothing":                       {},
		"cards":                         {paused: []order.Kind{card.Kind}, card: fault.IssuePaused},
		"top-ups":                       {paused: []order.Kind{topup.Kind}, credit: fault.TopupPaused},
		"another product":               {paused: []order.Kind{esim.Kind}},
		"cards, in the configuration":   {issue: true, card: fault.IssuePaused},
		"top-ups, in the configuration": {topups: true, credit: fault.TopupPaused},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t, careful)
			s.Switches, s.Paused = availability.NewSwitches(switches{paused: tc.paused}, time.Now), tc.issue
			_, err := offered(t.Context(), s.Cards, nil)
			wantFault(t, err, tc.card)
			_, err = offered(t.Context(), topup.Topups{Cards: s.Cards, Switches: s.Switches, Paused: tc.topups}, nil)
			wantFault(t, err, tc.credit)
		})
	}
}

func TestEnsureFailsWhileTheSwitchCannotBeRead(t *testing.T) {
	s := newShelf(t, careful)
	broken := errors.New("no database")
	s.Switches = availability.NewSwitches(switches{err: broken}, time.Now)
	if _, err := s.Ensure(t.Context(), owner); !errors.Is(err, broken) {
		t.Errorf("ensured: %v", err)
	}
	// An owner still sees the card.
	s.store.Put(card.Card{ID: uuid.New(), Owner: owner, Status: card.Active})
	if _, err := s.Ensure(t.Context(), owner); err != nil {
		t.Error(err)
	}
}
