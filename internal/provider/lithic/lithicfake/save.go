package lithicfake

import (
	"encoding/json"
	"fmt"
	"time"
)

// saved are the books as they are kept: cards and all that happened to them. Sessions of frames are not.
type saved struct {
	Float     int64
	Cards     []savedCard
	Transfers []savedTransfer
	Purchases []savedPurchase
	Events    []savedEvent
	Keys      map[string]savedKey
}

type savedCard struct {
	Card
	Hidden bool
}

type savedTransfer struct {
	Transfer
	Asked      postedTransfer
	Why, Event string
}

type savedPurchase struct {
	Purchase
	Event string
}

type savedEvent struct {
	Token, Kind string
	Payload     map[string]any
	At          time.Time
}

// savedKey is what a key has made, by the card's token.
type savedKey struct{ Body, Card string }

// Save is the books as Restore takes them.
func (s *Server) Save() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := saved{Float: s.float, Keys: map[string]savedKey{}}
	for _, c := range s.cards {
		all.Cards = append(all.Cards, savedCard{*c, c.hidden})
	}
	for _, t := range s.transfers {
		all.Transfers = append(all.Transfers, savedTransfer{*t, t.asked, t.why, t.event})
	}
	for _, p := range s.purchases {
		all.Purchases = append(all.Purchases, savedPurchase{*p, p.event})
	}
	for _, e := range s.events {
		all.Events = append(all.Events, savedEvent{e.token, e.kind, e.payload, e.at})
	}
	for key, k := range s.keys {
		all.Keys[key] = savedKey{k.body, k.card.Token}
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
	s.float, s.cards, s.transfers, s.purchases, s.events = all.Float, nil, nil, nil, nil
	for _, c := range all.Cards {
		c.hidden = c.Hidden
		s.cards = append(s.cards, &c.Card)
	}
	for _, t := range all.Transfers {
		t.asked, t.why, t.event = t.Asked, t.Why, t.Event
		s.transfers = append(s.transfers, &t.Transfer)
	}
	for _, p := range all.Purchases {
		p.event = p.Event
		s.purchases = append(s.purchases, &p.Purchase)
	}
	for _, e := range all.Events {
		s.events = append(s.events, event{e.Token, e.Kind, e.Payload, e.At})
	}
	clear(s.keys)
	for key, k := range all.Keys {
		c := s.find(k.Card)
		if c == nil {
			return fmt.Errorf("read the books: a key has made the card %s, which is not there", k.Card)
		}
		s.keys[key] = kept{k.Body, c}
	}
	return nil
}
