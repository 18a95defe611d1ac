package lithicfake

import (
	"strconv"
	"strings"
)

// What a client of ours writes into memos: a card's has its reference and its first load, and a transfer's is opening
// when it is that load.
const (
	cardMark = "roamcard"
	opening  = "roamcard opening"
)

// books are the books as a test compares them with those of the client: in the form of the sandbox, by the client's
// references, and without numbers of cards.
func (s *Server) books() (any, error) {
	purchases := s.Purchases()
	s.mu.Lock()
	defer s.mu.Unlock()
	executed := map[string]int{}
	movements, loaded := s.movements(executed)
	cards := []any{}
	for _, c := range s.cards {
		reference := referenceOf(c.Memo)
		executed[reference]++
		cards = append(cards, map[string]any{
			"id": c.Token, "reference": reference, "loadCents": loaded[c.Token], "balanceCents": c.Balance,
			"status": map[string]string{"OPEN": "live", "PAUSED": "locked", "CLOSED": "terminated"}[c.State],
		})
	}
	return map[string]any{
		"floatCents": s.float, "cards": cards, "movements": movements, "executed": executed, "requests": s.Requests(),
		"purchases": purchases,
	}, nil
}

// movements are the transfers, counted by their tokens, without those that a card is opened with: these are what is
// loaded. The Server is locked.
func (s *Server) movements(executed map[string]int) (shown []any, loaded map[string]int64) {
	shown, loaded = []any{}, map[string]int64{}
	for _, t := range s.transfers {
		executed[t.Token]++
		if t.Memo == opening {
			if t.Status == "SETTLED" {
				loaded[t.To] += t.Amount
			}
			continue
		}
		on, direction := t.To, "in"
		if t.To == Float {
			on, direction = t.From, "out"
		}
		shown = append(shown, map[string]any{
			"id": t.Token, "reference": t.Token, "cardId": on, "direction": direction, "amountCents": t.Amount,
			"status": map[string]string{"SETTLED": "done", "DECLINED": "declined"}[t.Status],
		})
	}
	return shown, loaded
}

// referenceOf is the client's reference of a card: its memo is "roamcard <reference> <cents> <buyer>". Any other memo
// is its own.
func referenceOf(memo string) string {
	parts := strings.Split(memo, " ")
	if len(parts) < 3 || parts[0] != cardMark {
		return memo
	}
	if _, err := strconv.ParseInt(parts[2], 10, 64); err != nil {
		return memo
	}
	return parts[1]
}
