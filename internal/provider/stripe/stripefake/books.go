package stripefake

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roamcard/roamcard/internal/vendorfake"
)

// Card is a card in the books.
type Card struct {
	ID, Status, Last4 string
	Created           int64
	Limits            []Limit
	// Allowed and Blocked are categories of merchants, by the vendor's names.
	Allowed, Blocked []string
	Metadata         map[string]string
	// Hidden cards are not listed yet; they can be read by their IDs.
	Hidden bool
}

// Limit is a spending limit.
type Limit struct {
	Amount     int64
	Interval   string
	Categories []string
}

// Authorization holds a part of a card's limit until it is closed.
type Authorization struct {
	ID, Card, Status string
	Created, Amount  int64
	Approved         bool
	// Reason is why it was approved or not; Asked is the amount that the merchant asked for.
	Reason   string
	Asked    int64
	Merchant Merchant
}

// Merchant is whom a card was used at. Its category is a code of four digits.
type Merchant struct{ Name, Category, Country string }

// category is the vendor's name of the merchant's category.
func (m Merchant) category() string {
	switch m.Category {
	case "4511":
		return "airlines_air_carriers"
	case "5411":
		return "grocery_stores_supermarkets"
	case "5812":
		return "eating_places_restaurants"
	case "7995":
		return "betting_casino_gambling"
	}
	return "miscellaneous_specialty_retail"
}

// aShop is where cards are used that nobody names a merchant for.
var aShop = Merchant{"A SHOP", "5999", "US"}

// Transaction is what was spent, below zero, or given back.
type Transaction struct {
	ID, Card, Authorization, Type string
	Created, Amount               int64
}

// kept is what an idempotency key is remembered with.
type kept struct {
	At     time.Time
	Asked  string
	Answer vendorfake.Reply
}

// books are all that the server knows. Each list has the oldest first.
type books struct {
	// Balance is what is there for cards and not held.
	Balance int64
	// Holder is the state of the cardholder, Disabled why no cards are opened for it.
	Holder, Disabled string
	// Email and Phone are the cardholder's; empty for none.
	Email, Phone   string
	Cards          []*Card
	Authorizations []*Authorization
	Transactions   []*Transaction
	Keys           map[string]kept
	// Executed counts what took effect, by idempotency key.
	Executed map[string]int
}

// change changes the books, as the vendor's staff or a merchant would.
func (s *Server) change(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
}

// Cards are all that were opened, the oldest first.
func (s *Server) Cards() []Card {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Card, len(s.books.Cards))
	for i, c := range s.books.Cards {
		all[i] = *c
		all[i].Metadata, all[i].Limits = maps.Clone(c.Metadata), slices.Clone(c.Limits)
	}
	return all
}

// Balance is what is there for cards and not held.
func (s *Server) Balance() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.books.Balance
}

// Executed is how often a request with an idempotency key took effect.
func (s *Server) Executed(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.books.Executed[key]
}

// SetBalance sets what is there for cards.
func (s *Server) SetBalance(cents int64) { s.change(func() { s.books.Balance = cents }) }

// SetHolder sets the state of the cardholder, and why no cards are opened for it.
func (s *Server) SetHolder(status, disabled string) {
	s.change(func() { s.books.Holder, s.books.Disabled = status, disabled })
}

// SetContact sets the cardholder's email address and phone number; empty for none.
func (s *Server) SetContact(email, phone string) {
	s.change(func() { s.books.Email, s.books.Phone = email, phone })
}

// Edit changes a card, as on the vendor's dashboard.
func (s *Server) Edit(id string, how func(*Card)) { s.change(func() { how(s.must(id)) }) }

// Reveal lists the cards that were hidden.
func (s *Server) Reveal() {
	s.change(func() {
		for _, c := range s.books.Cards {
			c.Hidden = false
		}
	})
}

// Add puts a card into the books that somebody else opened, such as another program of the account.
func (s *Server) Add(limits []Limit, metadata map[string]string) string {
	var c *Card
	s.change(func() { c = s.issue(limits, metadata) })
	return c.ID
}

func (s *Server) must(id string) *Card {
	c := s.find(id)
	if c == nil {
		panic("stripefake: there is no card " + id)
	}
	return c
}

func (s *Server) find(id string) *Card {
	i := slices.IndexFunc(s.books.Cards, func(c *Card) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return s.books.Cards[i]
}

func (s *Server) issue(limits []Limit, metadata map[string]string) *Card {
	n := len(s.books.Cards) + 1
	c := &Card{
		ID: fmt.Sprintf("ic_1Fake%018d", n), Status: "active", Last4: fmt.Sprintf("%04d", n%10_000),
		Created: s.now().Unix(), Limits: limits, Metadata: maps.Clone(metadata),
	}
	s.books.Cards = append(s.books.Cards, c)
	return c
}

// Charge plays a merchant that asks for an amount and takes it if it is approved.
func (s *Server) Charge(card string, cents int64, at Merchant) (approved bool) {
	id, approved := s.authorize(card, cents, at)
	if approved {
		s.Capture(id, cents)
	}
	return approved
}

// Authorize plays a merchant that asks for an amount, and returns the ID of the authorization and whether it is
// approved: by the card's state, its spending controls, and the balance.
func (s *Server) Authorize(card string, cents int64) (id string, approved bool) {
	return s.authorize(card, cents, aShop)
}

func (s *Server) authorize(card string, cents int64, at Merchant) (id string, approved bool) {
	s.change(func() {
		c := s.must(card)
		left, limited := s.left(c)
		a := &Authorization{
			ID: fmt.Sprintf("iauth_1Fake%018d", len(s.books.Authorizations)+1), Card: card, Status: "closed",
			Created: s.now().Unix(), Amount: cents, Asked: cents, Merchant: at,
		}
		switch {
		case c.Status == "canceled":
			a.Reason = "card_canceled"
		case c.Status != "active":
			a.Reason = "card_inactive"
		case limited && cents > left, s.controlled(c, cents, at):
			a.Reason = "spending_controls"
		case cents > s.books.Balance:
			a.Reason = "insufficient_funds"
		default:
			a.Reason, a.Approved = "card_active", true
		}
		approved = a.Approved
		if approved {
			a.Status = "pending"
			s.books.Balance -= cents
		}
		s.books.Authorizations = append(s.books.Authorizations, a)
		id = a.ID
	})
	return id, approved
}

// controlled reports whether the card's spending controls decline a purchase: its categories, and its limits to one
// purchase and to those of a month of the calendar.
func (s *Server) controlled(c *Card, cents int64, at Merchant) bool {
	if slices.Contains(c.Blocked, at.category()) || len(c.Allowed) > 0 && !slices.Contains(c.Allowed, at.category()) {
		return true
	}
	now, spent := s.now().UTC(), int64(0)
	within := func(created int64) bool {
		made := time.Unix(created, 0).UTC()
		return made.Year() == now.Year() && made.Month() == now.Month()
	}
	for _, a := range s.books.Authorizations {
		if a.Card == c.ID && a.Status == "pending" && within(a.Created) {
			spent += a.Amount
		}
	}
	for _, t := range s.books.Transactions {
		if t.Card == c.ID && within(t.Created) {
			spent -= min(t.Amount, 0)
		}
	}
	return slices.ContainsFunc(c.Limits, func(l Limit) bool {
		return len(l.Categories) == 0 &&
			(l.Interval == "per_authorization" && cents > l.Amount || l.Interval == "monthly" && spent+cents > l.Amount)
	})
}

// left is what the card's limit of all time leaves; limited is false without one.
func (s *Server) left(c *Card) (left int64, limited bool) {
	for _, l := range c.Limits {
		if l.Interval == "all_time" && len(l.Categories) == 0 {
			left, limited = l.Amount, true
		}
	}
	for _, a := range s.books.Authorizations {
		if a.Card == c.ID && a.Status == "pending" {
			left -= a.Amount
		}
	}
	for _, t := range s.books.Transactions {
		if t.Card == c.ID {
			left += min(t.Amount, 0)
		}
	}
	return left, limited
}

// Capture closes an authorization with what the merchant takes.
func (s *Server) Capture(authorization string, cents int64) {
	s.change(func() {
		a := s.authorization(authorization)
		a.Status = "closed"
		s.books.Balance += a.Amount - cents
		s.transact(a.Card, a.ID, "capture", -cents)
	})
}

// EditAuthorization changes what the books say of an authorization, and nothing else.
func (s *Server) EditAuthorization(id string, how func(*Authorization)) {
	s.change(func() {
		for _, a := range s.books.Authorizations {
			if a.ID == id {
				how(a)
			}
		}
	})
}

// Unasked plays a merchant that takes money without asking before.
func (s *Server) Unasked(card string, cents int64) {
	s.change(func() {
		s.books.Balance -= cents
		s.transact(card, "", "capture", -cents)
	})
}

// Reverse gives an authorization back.
func (s *Server) Reverse(authorization string) {
	s.change(func() {
		a := s.authorization(authorization)
		a.Status = "reversed"
		s.books.Balance += a.Amount
	})
}

// Refund plays a merchant that gives money back.
func (s *Server) Refund(card string, cents int64) {
	s.change(func() {
		s.books.Balance += cents
		s.transact(card, "", "refund", cents)
	})
}

func (s *Server) transact(card, authorization, kind string, cents int64) {
	s.books.Transactions = append(s.books.Transactions, &Transaction{
		ID: fmt.Sprintf("ipi_1Fake%018d", len(s.books.Transactions)+1), Card: card, Authorization: authorization,
		Type: kind, Created: s.now().Unix(), Amount: cents,
	})
}

func (s *Server) authorization(id string) *Authorization {
	i := slices.IndexFunc(s.books.Authorizations, func(a *Authorization) bool {
		return a.ID == id && a.Status == "pending"
	})
	if i < 0 {
		panic("stripefake: there is no pending authorization " + id)
	}
	return s.books.Authorizations[i]
}
