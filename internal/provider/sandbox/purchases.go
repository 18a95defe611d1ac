package sandbox

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/roamcard/roamcard/internal/money"
)

// The kinds and statuses of purchases.
const (
	kindPurchase = "purchase"
	kindRefund   = "refund"

	purchaseDone     = "done"
	purchaseDeclined = "declined"
)

// lockedByClient is the reason of a lock that the API asked for, which the API may undo.
const lockedByClient = "client_request"

// bought adds a purchase of a card.
func (c *change) bought(card string, p purchaseRow) purchaseRow {
	p.ID, p.Seq, p.Card, p.At = newID("pur"), c.next(), card, c.at
	c.purchases = append(c.purchases, p)
	return p
}

// purchaseBody is a purchase on the wire.
type purchaseBody struct {
	ID       string      `json:"id"`
	Card     string      `json:"cardId"`
	Kind     string      `json:"kind"`
	Status   string      `json:"status"`
	Reason   string      `json:"reason,omitempty"`
	Amount   money.Cents `json:"amountCents"`
	Currency string      `json:"currency"`
	Merchant string      `json:"merchant"`
	Category string      `json:"category,omitempty"`
	Country  string      `json:"country,omitempty"`
	At       time.Time   `json:"at"`
}

func purchaseBodyOf(p purchaseRow) purchaseBody {
	return purchaseBody{
		p.ID, p.Card, p.Kind, p.Status, p.Reason, p.Amount, currencyUSD, p.Merchant, p.Category, p.Country, p.At,
	}
}

// charge is a merchant's attempt at a card: declined where the card is locked or limited, or has not enough.
func (s *Server) charge(c call) (any, error) {
	var asked struct {
		Amount   money.Cents `json:"amountCents"`
		Merchant string      `json:"merchant"`
		Category string      `json:"category"`
		Country  string      `json:"country"`
	}
	if err := read(c.Body, &asked); err != nil {
		return nil, err
	}
	if asked.Amount <= 0 || asked.Amount > maxAmount || len(asked.Merchant) > 1000 {
		return nil, invalid("amountCents is an amount, and merchant a name")
	}
	id := c.PathValue("id")
	var made purchaseRow
	err := s.books.edit(func(ch *change) error {
		row, ok := ch.card(id)
		if !ok {
			return errNoCard
		}
		p := purchaseRow{
			Kind: kindPurchase, Status: purchaseDone, Amount: asked.Amount,
			Merchant: cmp.Or(asked.Merchant, "Merchant"), Category: asked.Category, Country: asked.Country,
		}
		switch {
		case row.Status != cardLive:
			p.Status, p.Reason = purchaseDeclined, codeCardNotUsable
		case ch.beyond(row, p) != "":
			p.Status, p.Reason = purchaseDeclined, ch.beyond(row, p)
		case row.Balance < p.Amount:
			p.Status, p.Reason = purchaseDeclined, codeBalanceTooLow
		default:
			row.Balance -= p.Amount
			ch.cards[id] = row
		}
		made = ch.bought(id, p)
		return nil
	})
	return purchaseBodyOf(made), err
}

// postLock locks a card or undoes that. What the issuer's staff has locked stays locked.
func (s *Server) postLock(locked bool) func(call) (any, error) {
	return func(c call) (any, error) {
		id := c.PathValue("id")
		if _, err := s.books.card(id); err != nil {
			return nil, err
		}
		var now cardRow
		err := s.books.edit(func(ch *change) error {
			row, _ := ch.card(id)
			var err error
			switch {
			case row.Status != cardLive && row.Status != cardLocked,
				!locked && row.Status == cardLocked && row.Reason != lockedByClient:
				err = &problem{http.StatusConflict, codeCardNotUsable, "the card is " + string(row.Status)}
			case locked && row.Status == cardLive:
				err = ch.become(row, cardLocked, lockedByClient)
			case !locked:
				err = ch.become(row, cardLive, "")
			}
			now, _ = ch.card(id)
			return err
		})
		return s.cardBody(now), err
	}
}

// purchasePage is the most that one answer lists.
const purchasePage = 100

type purchaseListBody struct {
	Items []purchaseBody `json:"items"`
	// Next is where the next page begins; absent on the last page.
	Next string `json:"next,omitempty"`
}

// getPurchases lists the purchases of a card, newest first.
func (s *Server) getPurchases(c call) (any, error) {
	query := c.URL.Query()
	before, err := strconv.Atoi(cmp.Or(query.Get("before"), "0"))
	if err != nil || before < 0 {
		return nil, invalid("before is the next of a page")
	}
	most, err := strconv.Atoi(cmp.Or(query.Get("limit"), strconv.Itoa(purchasePage)))
	if err != nil || most < 1 || most > purchasePage {
		return nil, invalid("limit is 1 to 100")
	}
	row, err := s.books.card(c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	list := purchaseListBody{Items: []purchaseBody{}}
	for _, p := range slices.Backward(s.books.purchasesOf(row.ID)) {
		if before != 0 && p.Seq >= before {
			continue
		}
		if len(list.Items) == most {
			list.Next = strconv.Itoa(before)
			return list, nil
		}
		list.Items, before = append(list.Items, purchaseBodyOf(p)), p.Seq
	}
	return list, nil
}

func (b *books) purchasesOf(card string) []purchaseRow {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.purchases[card])
}
