package stripefake

import (
	"cmp"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/roamcard/roamcard/internal/vendorfake"
)

// isReference finds the keys of metadata that are a client's records of loads.
var isReference = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// leastLimit is what the limit of a card is at least.
const leastLimit = 1

// control shows the books as a test compares them with those of the client: in the form of the sandbox, by the client's
// references, which are in the cards' metadata.
func (s *Server) control() (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cards, movements, float := []any{}, []any{}, s.books.Balance
	for _, c := range s.books.Cards {
		left, _ := s.left(c)
		status := map[string]string{"active": "live", "inactive": "locked", "canceled": "terminated"}[c.Status]
		if c.Status != "canceled" {
			float -= max(0, left)
		} else if left == leastLimit {
			left = 0 // a card that was emptied cannot have a lower limit
		}
		opened, _ := strconv.ParseInt(c.Metadata["roamcard_load"], 10, 64)
		cards = append(cards, map[string]any{
			"id": c.ID, "reference": c.Metadata["roamcard_ref"], "status": status, "loadCents": opened,
			"balanceCents": left,
		})
		for key, record := range c.Metadata {
			if !isReference.MatchString(key) {
				continue
			}
			record, taken := strings.CutPrefix(record, "-")
			amount, _, _ := strings.Cut(record, ":")
			direction := "in"
			if taken {
				direction = "out"
			}
			cents, _ := strconv.ParseInt(amount, 10, 64)
			movements = append(movements, map[string]any{
				"id": c.ID + "/" + key, "reference": key, "cardId": c.ID, "direction": direction, "amountCents": cents,
				"status": "done",
			})
		}
	}
	return map[string]any{
		"floatCents": float, "cards": cards, "movements": movements, "executed": maps.Clone(s.books.Executed),
	}, nil
}

// charge plays a merchant, for this machine.
func (s *Server) charge(c vendorfake.Call) (any, error) {
	var asked struct {
		Amount                      int64 `json:"amountCents"`
		Merchant, Category, Country string
	}
	if vendorfake.Read(c.Body, &asked) != nil || asked.Amount <= 0 {
		return nil, invalid("", "amountCents", "amountCents is an amount")
	}
	id, known := c.PathValue("id"), false
	s.change(func() { known = s.find(id) != nil })
	if !known {
		return nil, notFound("issuing card", id)
	}
	return map[string]any{"approved": s.Charge(id, asked.Amount, Merchant{
		cmp.Or(asked.Merchant, aShop.Name), cmp.Or(asked.Category, aShop.Category), cmp.Or(asked.Country, aShop.Country),
	})}, nil
}
