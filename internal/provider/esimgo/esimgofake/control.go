package esimgofake

import (
	"github.com/roamcard/roamcard/internal/money"
)

// bookBody is an order of the books as the control API shows it. The vendor knows no reference of its clients.
type bookBody struct {
	ID     string     `json:"id"`
	Code   string     `json:"code"`
	Status string     `json:"status"`
	Cost   money.USDC `json:"costMicros"`
	Onto   string     `json:"onto,omitempty"`
}

// books are the books, for tests and developers.
func (s *Server) books() (any, error) {
	shown := []bookBody{}
	for _, o := range s.Orders() {
		status := "ordered"
		if o.Completed {
			status = "released"
		}
		shown = append(shown, bookBody{o.Reference, o.Bundle, status, o.Total, o.Onto})
	}
	return map[string]any{"esims": shown}, nil
}
