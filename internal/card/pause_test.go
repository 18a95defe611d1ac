package card_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/card"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
)

func TestWhatIsStoppedByAnOperatorIsNotSold(t *testing.T) {
	stopped := func(products ...order.Kind) func(context.Context, order.Kind) (bool, error) {
		return func(_ context.Context, product order.Kind) (bool, error) {
			for _, p := range products {
				if p == product {
					return true, nil
				}
			}
			return false, nil
		}
	}
	for name, tc := range map[string]struct {
		stopped       []order.Kind
		issue, topups bool // by the configuration
		card, credit  fault.Code
	}{
		"nothing":                       {},
		"cards":                         {stopped: []order.Kind{order.CardIssue}, card: fault.IssuePaused},
		"top-ups":                       {stopped: []order.Kind{order.CardTopup}, credit: fault.TopupPaused},
		"another product":               {stopped: []order.Kind{order.ESIM}},
		"cards, in the configuration":   {issue: true, card: fault.IssuePaused},
		"top-ups, in the configuration": {topups: true, credit: fault.TopupPaused},
		"both ways":                     {stopped: []order.Kind{order.CardIssue}, issue: true, card: fault.IssuePaused},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t, careful)
			s.Stopped, s.Paused = stopped(tc.stopped...), tc.issue
			_, err := s.Offer(t.Context(), nil, nil)
			wantFault(t, err, tc.card)
			_, err = card.Topups{Cards: s.Cards, TopupPaused: tc.topups}.Offer(t.Context(), nil, nil)
			wantFault(t, err, tc.credit)
			if paused, err := s.IssuePaused(t.Context()); err != nil || paused != (tc.card != "") {
				t.Errorf("paused: %t, %v", paused, err)
			}
		})
	}
}

func TestASwitchThatCannotBeReadSellsNothing(t *testing.T) {
	s := newShelf(t, careful)
	broken := errors.New("no database")
	s.Stopped = func(context.Context, order.Kind) (bool, error) { return false, broken }
	if _, err := s.Offer(t.Context(), nil, nil); !errors.Is(err, broken) {
		t.Errorf("offered: %v", err)
	}
	if _, err := s.Ensure(t.Context(), owner); !errors.Is(err, broken) {
		t.Errorf("ensured: %v", err)
	}
	// Who has a card is shown it all the same.
	s.store.Put(card.Card{ID: uuid.New(), Owner: owner, Status: card.Active})
	if _, err := s.Ensure(t.Context(), owner); err != nil {
		t.Error(err)
	}
}
