package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// lookEvery is how often the service is asked for the status of something.
const lookEvery = 500 * time.Millisecond

// awaitCard follows the order until the card is ACTIVE.
func (s *story) awaitCard(ctx context.Context) error {
	s.begin("Wait for the card")
	ctx, cancel := context.WithTimeout(ctx, s.Deadline)
	defer cancel()
	s.wait("its order is on its way")
	id, err := s.client.Cards.WaitUntilActive(ctx, s.summary.OrderID)
	if err != nil {
		return fmt.Errorf("%w. Next: the order goes on by itself; look at GET /api/orders/%s later", err, s.summary.OrderID)
	}
	s.summary.CardID = id
	s.say("Card %s is ACTIVE.", id)
	return nil
}

// awaitBalance looks at the card's balance until the issue fee is withdrawn.
func (s *story) awaitBalance(ctx context.Context) error {
	s.begin("Wait until the issue fee is withdrawn")
	ctx, cancel := context.WithTimeout(ctx, s.Deadline)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		b, err := s.client.Cards.Balance(ctx, s.summary.CardID)
		switch told, _ := errors.AsType[*roamcard.APIError](err); {
		case err != nil && (told == nil || !told.Retryable):
			return fmt.Errorf("wait for the balance: %w", err)
		case err == nil && roamcard.Cents(b.GetAvailableUsdCents()) == s.stays:
			s.summary.OnCardUSDCents, s.summary.FeeUSDCents = s.stays, s.fee
			s.say("%s USD on the card, read from the issuer: %s paid, %s fee.", s.stays, s.price, s.fee)
			return nil
		case err == nil:
			s.wait(fmt.Sprintf("%s USD on the card", roamcard.Cents(b.GetAvailableUsdCents())))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the balance: %w", ctx.Err())
		}
	}
}

// reveal gets the card sealed to a key that is made for this one answer.
func (s *story) reveal(ctx context.Context) error {
	s.begin("Reveal the card, sealed to a fresh key")
	_, err := s.client.Cards.Reveal(ctx, s.summary.CardID, presenter{s})
	return err
}

// buyESIM buys the cheapest eSIM and shows it.
func (s *story) travel(ctx context.Context) error {
	s.begin("Buy the cheapest eSIM")
	ctx, cancel := context.WithTimeout(ctx, s.Deadline)
	defer cancel()
	bought, err := s.client.ESIM.Purchase(ctx, "", roamcard.NewKey())
	if err != nil {
		return err
	}
	order := bought.Order
	s.summary.ESIMOrderID, s.summary.ESIMUSDCents = order.GetOrderId(), roamcard.Cents(order.GetAmountUsdCents())
	s.say("Order        %s, %s USDC", order.GetOrderId(), s.summary.ESIMUSDCents)
	s.say("Transaction  %s", bought.Transaction)
	if bought.Credentials == nil {
		s.wait("the supplier makes it")
		if err := s.client.Orders.Watch(ctx, order.GetOrderId(), func(*roamcardv1.Order) bool { return true }); err != nil {
			return fmt.Errorf("wait for the eSIM: %w", err)
		}
	}
	_, err = s.client.ESIM.Install(roamcard.WithDeliveryToken(ctx, bought.DeliveryToken), order.GetOrderId(), presenter{s})
	return err
}

// presenter shows cards and eSIMs, without secrets unless they were asked for.
type presenter struct{ s *story }

// Present implements roamcard.Presenter: the first six and the last four digits, unless all were asked for.
func (t presenter) Present(_ context.Context, c roamcard.Credentials) (roamcard.Presented, error) {
	s := t.s
	s.summary.Card = masked(c.Number)
	s.say("The owner signed for this card and this key; the answer opens here and nowhere else.")
	if s.ShowCard && !s.JSON {
		s.say("%s  valid to %02d/%d  code %s (a sandbox card: it buys nothing)", roamcard.Grouped(c.Number), c.ExpiryMonth,
			c.ExpiryYear, c.SecurityCode)
	} else {
		s.say("%s  valid to %02d/%d", s.summary.Card, c.ExpiryMonth, c.ExpiryYear)
	}
	return roamcard.Presented{Seen: true}, nil
}

// PresentPage implements roamcard.PagePresenter: the page of a card whose issuer shows it in a browser alone. It opens
// once, so its URL is as secret as the card.
func (t presenter) PresentPage(_ context.Context, url string) (roamcard.Presented, error) {
	s := t.s
	s.summary.Card = s.summary.CardID
	s.say("The issuer of this card shows it on a page, which opens once, for a minute.")
	if s.ShowCard && !s.JSON {
		s.say("%s", url)
	} else {
		s.say("`roamcard card reveal` opens it in a browser.")
	}
	return roamcard.Presented{Reason: roamcard.OpenedInBrowser}, nil
}

// PresentESIM implements roamcard.ESIMPresenter: the QR code goes to a terminal only, whoever has it has the eSIM.
func (t presenter) PresentESIM(_ context.Context, e roamcard.ESIM) (roamcard.Presented, error) {
	iccid := e.ICCID.Reveal()
	if !t.s.TTY {
		t.s.say("eSIM %s…%s is ready. On a terminal its QR code would be here.", iccid[:4], iccid[len(iccid)-4:])
		return roamcard.Presented{Reason: "no_terminal"}, nil
	}
	picture, err := roamcard.QR(e.LPA.Reveal())
	if err != nil {
		return roamcard.Presented{}, err
	}
	t.s.say("Point a phone at it (a sandbox eSIM: it connects to nothing):")
	t.s.print("%s", picture)
	t.s.say("SM-DP+ address   %s", e.SMDPAddress.Reveal())
	t.s.say("activation code  %s", e.MatchingID.Reveal())
	return roamcard.Presented{Seen: true}, nil
}

// masked keeps the first six and the last four digits, the most that may be shown of a real card.
func masked(number string) string {
	hidden := []rune(number)
	for i := 6; i < len(hidden)-4; i++ {
		hidden[i] = '•'
	}
	return roamcard.Grouped(string(hidden))
}
