package esimgofake

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/money"
)

// saved are the books as they are kept, without the catalogue.
type saved struct {
	// Began is what the organisation began with, and Balance what it has left.
	Began, Balance money.USDC
	Made           int
	Latest         time.Time
	Orders         []savedOrder
	Callbacks      string
}

type savedOrder struct {
	Order
	SIM, MatchingID, Installed string
	Use                        Use
}

// Save is the books as Restore takes them.
func (s *Server) Save() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := saved{Began: s.cfg.Balance, Balance: s.balance, Made: s.made, Latest: s.latest,
		Callbacks: s.callbacks}
	for _, o := range s.orders {
		all.Orders = append(all.Orders, savedOrder{o.Order, o.sim.iccid, o.sim.matchingID, o.sim.installed, o.use})
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
	s.cfg.Balance, s.balance, s.made, s.latest, s.orders = all.Began, all.Balance, all.Made, all.Latest, nil
	s.callbacks = all.Callbacks
	for _, o := range all.Orders {
		s.orders = append(s.orders, &bought{o.Order, sim{o.SIM, o.MatchingID, o.Installed}, o.Use})
	}
	return nil
}
