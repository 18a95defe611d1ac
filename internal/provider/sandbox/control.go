package sandbox

import (
	"cmp"
	"maps"
	"slices"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

// controlRoutes is the control API for tests and developers.
func (s *Server) controlRoutes() {
	s.Control(s.mux, "/control/", s.showBooks)
	s.mux.HandleFunc("POST /control/float", vendorfake.Local(s.setFloat))
	s.mux.HandleFunc("POST /control/bins", vendorfake.Local(s.setBIN))
	s.mux.HandleFunc("POST /control/settle", vendorfake.Local(s.settle))
	s.mux.HandleFunc("POST /control/webhooks", vendorfake.Local(s.setWebhooks))
	s.mux.HandleFunc("POST /control/cards/{id}", vendorfake.Local(s.setCard))
	s.mux.HandleFunc("POST /control/cards/{id}/purchases", vendorfake.Local(s.charge))
}

// booksBody is all the issuer knows, without card numbers.
type booksBody struct {
	Float     money.Cents `json:"floatCents"`
	BINs      []binRow    `json:"bins"`
	Cards     []cardShown `json:"cards"`
	Movements []moveRow   `json:"movements"`
	// Executed counts, by reference, the mutations that were really executed.
	Executed map[string]int `json:"executed"`
	// Requests counts what arrived since the start, by operation.
	Requests map[string]int `json:"requests"`
	// Sent counts the mutating requests that arrived since the start, by reference.
	Sent map[string]int `json:"sent"`
}

type cardShown struct {
	cardRow
	Number string `json:"number"`
}

func (s *Server) showBooks() (any, error) {
	b := s.books
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.advance(b.clock()); err != nil {
		return nil, err
	}
	shown := booksBody{
		Float: b.float, BINs: slices.Clone(b.bins), Cards: []cardShown{}, Movements: []moveRow{},
		Executed: maps.Clone(b.executed),
	}
	for _, row := range b.cards {
		shown.Cards = append(shown.Cards, cardShown{row, b.masked(row)})
	}
	for _, row := range b.movements {
		shown.Movements = append(shown.Movements, row)
	}
	slices.SortFunc(shown.Cards, func(a, b cardShown) int { return cmp.Compare(a.Seq, b.Seq) })
	slices.SortFunc(shown.Movements, func(a, b moveRow) int { return cmp.Compare(a.Seq, b.Seq) })
	shown.Requests, shown.Sent = s.Requests(), s.Sent()
	return shown, nil
}

func (s *Server) setFloat(c call) (any, error) {
	var asked struct {
		Cents *money.Cents `json:"cents"`
	}
	if err := read(c.Body, &asked); err != nil {
		return nil, err
	}
	if asked.Cents == nil || *asked.Cents < 0 {
		return nil, invalid("cents is an amount")
	}
	return struct{}{}, s.books.edit(func(ch *change) error {
		ch.float = *asked.Cents
		return nil
	})
}

func (s *Server) setBIN(c call) (any, error) {
	var asked struct {
		Prefix string `json:"prefix"`
		Open   *bool  `json:"open"`
	}
	if err := read(c.Body, &asked); err != nil {
		return nil, err
	}
	if !isPrefix(asked.Prefix) || asked.Open == nil {
		return nil, invalid("prefix is 4 to 8 digits, open is true or false")
	}
	return struct{}{}, s.books.edit(func(ch *change) error {
		ch.bins = append(ch.bins, binRow{asked.Prefix, *asked.Open})
		return nil
	})
}

// settle takes everything that has a change due one step on, without waiting for the clock. What
// stays pending by its scenario has none.
func (s *Server) settle(call) (any, error) {
	steps := 0
	err := s.books.edit(func(ch *change) error {
		for _, w := range ch.waiters(farFuture) {
			if err := ch.step(w.id, ch.at); err != nil {
				return err
			}
			steps++
		}
		return nil
	})
	return map[string]int{"settled": steps}, err
}

// setCard changes a card as the issuer's staff, its owner or a merchant would: its state, money spent, money returned.
func (s *Server) setCard(c call) (any, error) {
	var asked struct {
		State  cardStatus  `json:"state"`
		Spend  money.Cents `json:"spendCents"`
		Refund money.Cents `json:"refundCents"`
		// Hold is what a merchant holds from now on, Take and Release are of what is held.
		Hold    money.Cents `json:"holdCents"`
		Take    money.Cents `json:"takeCents"`
		Release money.Cents `json:"releaseCents"`
	}
	if err := read(c.Body, &asked); err != nil {
		return nil, err
	}
	id := c.PathValue("id")
	return struct{}{}, s.books.edit(func(ch *change) error {
		row, ok := ch.card(id)
		if !ok {
			return errNoCard
		}
		if asked.Spend < 0 || asked.Spend > row.Balance {
			return invalid("spendCents is at most the balance")
		}
		if asked.Refund < 0 || asked.Refund > maxAmount {
			return invalid("refundCents is an amount")
		}
		if asked.Hold < 0 || asked.Take < 0 || asked.Release < 0 || asked.Hold > row.Balance ||
			asked.Take+asked.Release > row.Held {
			return invalid("holdCents is at most the balance, takeCents and releaseCents what is held")
		}
		row.Balance += asked.Refund - asked.Spend - asked.Hold + asked.Release
		row.Held += asked.Hold - asked.Release - asked.Take
		ch.cards[id] = row
		if spent := asked.Spend + asked.Take; spent > 0 {
			ch.bought(id, purchaseRow{Kind: kindPurchase, Status: purchaseDone, Amount: spent, Merchant: "Merchant"})
		}
		if asked.Refund > 0 {
			ch.bought(id, purchaseRow{Kind: kindRefund, Status: purchaseDone, Amount: asked.Refund, Merchant: "Merchant"})
		}
		switch asked.State {
		case "":
			return nil
		case cardLive, cardLocked, cardTerminated, cardDeclined:
			return ch.become(row, asked.State, "")
		default:
			return invalid("state is live, locked, terminated or declined")
		}
	})
}

// edit makes a change from the control API.
func (b *books) edit(do func(*change) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	if err := b.advance(now); err != nil {
		return err
	}
	ch := b.begin(now)
	if err := do(ch); err != nil {
		return err
	}
	return ch.commit()
}
