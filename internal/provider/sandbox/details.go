package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider/wire"
)

// detailsBody is what merchants ask for with a card; all cards have the same.
type detailsBody struct {
	Card    string      `json:"cardId"`
	Billing billingBody `json:"billingAddress"`
	// Challenge says who answers 3-D Secure.
	Challenge string `json:"challenge"`
}

type billingBody struct {
	Name       string `json:"name"`
	Line1      string `json:"line1"`
	Line2      string `json:"line2"`
	City       string `json:"city"`
	Region     string `json:"region"`
	PostalCode string `json:"postalCode"`
	Country    string `json:"country"`
}

// challengeAutomatic: the sandbox approves every challenge by itself.
const challengeAutomatic = "automatic"

func (s *Server) getDetails(c call) (any, error) {
	row, err := s.books.card(c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return detailsBody{
		Card: row.ID, Challenge: challengeAutomatic, Billing: billingBody{
			Name: "Sandbox Programme", Line1: "1 Example Street", Line2: "Suite 100", City: "Dover", Region: "DE",
			PostalCode: "19901", Country: "US",
		},
	}, nil
}

// Details implements card.Controls.
func (i *Issuer) Details(ctx context.Context, account string) (card.Details, error) {
	got, err := i.details(ctx, account)
	if err != nil {
		return card.Details{}, fmt.Errorf("read the details of a card: %w", err)
	}
	return got, nil
}

func (i *Issuer) details(ctx context.Context, account string) (card.Details, error) {
	var got detailsBody
	err := i.call(ctx, request{
		op: "details", method: http.MethodGet, path: []string{"cards", account, "details"}, route: "/v1/cards/{id}/details",
	}, &got)
	if no, refused := errors.AsType[*fulfilment.Refusal](err); refused {
		err = wire.Unclear("the card is not there: " + no.Message)
	}
	if err != nil {
		return card.Details{}, err
	}
	billing := card.Billing(got.Billing)
	if got.Card != account || billing.Check() != nil || got.Challenge != challengeAutomatic {
		return card.Details{}, wire.Unclear("the details in the answer do not match the documentation")
	}
	return card.Details{Billing: &billing, Challenge: card.Challenge{Method: card.ChallengeAutomatic}}, nil
}
