package card_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
)

// TestIssuanceOfEveryStoredCombination: what an owner is told is neither left over from an earlier state nor promised
// for one that will not come.
func TestIssuanceOfEveryStoredCombination(t *testing.T) {
	type row map[card.Status]card.IssuanceStatus
	always := func(s card.IssuanceStatus) row {
		return row{"": s, card.Pending: s, card.Active: s, card.Frozen: s, card.Closed: s, card.Failed: s}
	}
	onItsWay := row{
		"": "queued", card.Pending: "pending", card.Active: "active", card.Frozen: "active", card.Closed: "closed",
		card.Failed: "queued",
	}
	want := map[order.Status]row{
		order.PaymentRequired: always("unpaid"), order.Expired: always("unpaid"),
		order.Settling: onItsWay, order.Settled: onItsWay, order.Provisioning: onItsWay,
		order.Fulfilled: {
			"": "active", card.Pending: "pending", card.Active: "active", card.Frozen: "active", card.Closed: "closed",
			card.Failed: "active",
		},
		order.OperatorReview: always("review"),
		order.RefundPending:  always("refused"), order.Refunded: always("refused"),
	}
	for _, s := range order.Statuses() {
		for _, c := range []card.Status{"", card.Pending, card.Active, card.Frozen, card.Closed, card.Failed} {
			var latest *card.Card
			if c != "" {
				latest = &card.Card{ID: uuid.New(), Status: c}
			}
			got := card.IssuanceOf(s, latest)
			if got.Status != want[s][c] {
				t.Errorf("order %s, card %q: %q, want %q", s, c, got.Status, want[s][c])
			}
			// One that an operator has delivered by hand is not that of a refused attempt.
			byHand := s == order.Fulfilled && (c == "" || c == card.Failed)
			named := uuid.Nil
			if latest != nil && !byHand {
				named = latest.ID
			}
			if got.Card != named {
				t.Errorf("order %s, card %q: names the card %s", s, c, got.Card)
			}
			fee, expected := card.Fee, card.Remaining
			switch {
			case s == order.Expired, s == order.RefundPending, s == order.Refunded, byHand:
				fee, expected = 0, 0
			case got.Status == card.IssuanceClosed:
				expected = 0
			}
			if got.Fee != fee || got.Expected != expected {
				t.Errorf("order %s, card %q: %s on the card after a fee of %s, want %s after %s", s, c, got.Expected, got.Fee,
					expected, fee)
			}
		}
	}
}
