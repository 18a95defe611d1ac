package esimaccessfake

import (
	"encoding/json"
	"fmt"
	"time"
)

// saved are the books as they are kept, without the catalogue.
type saved struct {
	Balance int64
	Orders  []savedOrder
}

type savedOrder struct {
	Order
	ICCID, MatchingID string
	DueAt             time.Time
}

// Save is the books as Restore takes them.
func (s *Server) Save() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := saved{Balance: s.balance}
	for _, o := range s.orders {
		all.Orders = append(all.Orders, savedOrder{*o, o.iccid, o.matchingID, o.dueAt})
	}
	return json.Marshal(all)
}

// Restore puts books in the place of those of a new Server.
func (s *Server) Restore(books []byte) error {
	var all saved
	if err := json.Unmarshal(books, &all); err != nil {
		return fmt.Errorf("read the books: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.balance, s.orders = all.Balance, nil
	for _, o := range all.Orders {
		o.iccid, o.matchingID, o.dueAt = o.ICCID, o.MatchingID, o.DueAt
		s.orders = append(s.orders, &o.Order)
	}
	return nil
}
