package sandbox

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/vendorfake"
)

const currencyUSD = "USD"

func (s *Server) vendorRoutes() {
	s.mux.HandleFunc("POST /v1/cards", s.vendor("open", s.postCard))
	s.mux.HandleFunc("GET /v1/cards", s.vendor("account", s.getCards))
	s.mux.HandleFunc("GET /v1/cards/{id}", s.vendor("account", s.getCard))
	s.mux.HandleFunc("POST /v1/cards/{id}/movements", s.vendor("move", s.postMovement))
	s.mux.HandleFunc("GET /v1/movements", s.vendor("moved", s.getMovements))
	s.mux.HandleFunc("GET /v1/cards/{id}/balance", s.vendor("balance", s.getBalance))
	s.mux.HandleFunc("POST /v1/cards/{id}/sensitive", s.vendor("sensitive", s.postSensitive))
	s.mux.HandleFunc("POST /v1/cards/{id}/lock", s.vendor("lock", s.postLock(true)))
	s.mux.HandleFunc("POST /v1/cards/{id}/unlock", s.vendor("lock", s.postLock(false)))
	s.mux.HandleFunc("GET /v1/cards/{id}/remainder", s.vendor("left", s.getRemainder))
	s.mux.HandleFunc("POST /v1/cards/{id}/terminate", s.vendor("end", s.postTerminate))
	s.mux.HandleFunc("GET /v1/cards/{id}/purchases", s.vendor("purchases", s.getPurchases))
	s.mux.HandleFunc("GET /v1/cards/{id}/limits", s.vendor("limits", s.getLimits))
	s.mux.HandleFunc("PUT /v1/cards/{id}/limits", s.vendor("set_limits", s.putLimits))
	s.mux.HandleFunc("GET /v1/cards/{id}/details", s.vendor("details", s.getDetails))
	s.mux.HandleFunc("GET /v1/account", s.vendor("stock", s.getAccount))
	s.mux.HandleFunc("GET /v1/statement", s.vendor("statement", s.getStatement))
	s.mux.HandleFunc("GET /v1/bins", s.vendor("stock", s.getBINs))
}

// cardBody is a card on the wire.
type cardBody struct {
	ID        string      `json:"id"`
	Reference string      `json:"reference"`
	Status    cardStatus  `json:"status"`
	Reason    string      `json:"reason,omitempty"`
	Last4     string      `json:"last4,omitempty"`
	Load      money.Cents `json:"loadCents"`
	Currency  string      `json:"currency"`
	// Note is the request's note.
	Note      string    `json:"note,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
}

// movementBody is a movement on the wire.
type movementBody struct {
	ID        string      `json:"id"`
	Reference string      `json:"reference"`
	Card      string      `json:"cardId"`
	Direction string      `json:"direction"`
	Amount    money.Cents `json:"amountCents"`
	// Limit is what the movement made the card's limit, where there are spending limits.
	Limit     money.Cents `json:"limitCents,omitempty"`
	Currency  string      `json:"currency"`
	Status    moveStatus  `json:"status"`
	Reason    string      `json:"reason,omitempty"`
	CreatedAt time.Time   `json:"createdAt"`
}

type balanceBody struct {
	Card      string      `json:"cardId"`
	Available money.Cents `json:"availableCents"`
	Currency  string      `json:"currency"`
	AsOf      time.Time   `json:"asOf"`
}

type sensitiveBody struct {
	Card         string `json:"cardId"`
	Number       string `json:"number"`
	SecurityCode string `json:"cvv"`
	ExpiryMonth  int    `json:"expiryMonth"`
	ExpiryYear   int    `json:"expiryYear"`
}

type accountBody struct {
	Available money.Cents `json:"availableCents"`
	Currency  string      `json:"currency"`
}

type binBody struct {
	Prefix string `json:"prefix"`
	Status string `json:"status"`
}

type listBody[T any] struct {
	Items []T `json:"items"`
}

func (s *Server) cardBody(row cardRow) cardBody {
	return cardBody{
		row.ID, row.Reference, row.Status, row.Reason, s.books.last4(row), row.Load, currencyUSD, row.Note, row.CreatedAt,
	}
}

func movementBodyOf(row moveRow) movementBody {
	return movementBody{
		row.ID, row.Reference, row.Card, row.Direction, row.Amount, row.Limit, currencyUSD, row.Status, row.Reason,
		row.CreatedAt,
	}
}

func (s *Server) postCard(c call) (any, error) {
	var asked struct {
		Reference string      `json:"reference"`
		Load      money.Cents `json:"loadCents"`
		Limit     money.Cents `json:"limitCents"`
		Currency  string      `json:"currency"`
		Scenario  string      `json:"scenario"`
		Note      string      `json:"note"`
	}
	if err := read(c.Body, &asked); err != nil {
		return nil, err
	}
	amount := asked.Load
	if s.limits {
		amount = asked.Limit
	}
	if asked.Load+asked.Limit != amount {
		return nil, invalid("a card opens with loadCents, or with limitCents where there are spending limits")
	}
	if err := validate(asked.Reference, amount, asked.Currency, asked.Scenario); err != nil {
		return nil, err
	}
	row, err := s.books.openCard(opening{asked.Reference, amount, s.limits, asked.Scenario, asked.Note}, c.Hide)
	if err != nil {
		return nil, err
	}
	if row.AtOnce {
		return nil, &problem{http.StatusUnprocessableEntity, row.Reason, "the card is declined"}
	}
	return s.cardBody(row), nil
}

// cardPage is how many cards one answer lists.
const cardPage = 500

type cardListBody struct {
	Items []cardBody `json:"items"`
	// Next is where the next page begins; absent on the last page.
	Next string `json:"next,omitempty"`
}

// listCards shows a page of all cards, oldest first.
func (s *Server) listCards(c call) (any, error) {
	after, err := strconv.Atoi(cmp.Or(c.URL.Query().Get("after"), "0"))
	if err != nil || after < 0 {
		return nil, invalid("after is the next of a page")
	}
	rows, more, err := s.books.listCards(after, cardPage)
	if err != nil {
		return nil, err
	}
	list := cardListBody{Items: []cardBody{}}
	for _, row := range rows {
		list.Items = append(list.Items, s.cardBody(row))
	}
	if more {
		list.Next = strconv.Itoa(rows[len(rows)-1].Seq)
	}
	return list, nil
}

func (s *Server) getCards(c call) (any, error) {
	if !c.URL.Query().Has("reference") {
		return s.listCards(c)
	}
	reference, err := reference(c.Request)
	if err != nil {
		return nil, err
	}
	rows, err := s.books.findCards(reference)
	if err != nil {
		return nil, err
	}
	list := listBody[cardBody]{Items: []cardBody{}}
	for _, row := range rows {
		list.Items = append(list.Items, s.cardBody(row))
	}
	return list, nil
}

func (s *Server) getCard(c call) (any, error) {
	row, err := s.books.card(c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return s.cardBody(row), nil
}

func (s *Server) postMovement(c call) (any, error) {
	var asked struct {
		Reference string      `json:"reference"`
		Direction string      `json:"direction"`
		Amount    money.Cents `json:"amountCents"`
		Limit     money.Cents `json:"limitCents"`
		Currency  string      `json:"currency"`
		Scenario  string      `json:"scenario"`
	}
	if err := read(c.Body, &asked); err != nil {
		return nil, err
	}
	if asked.Limit < 0 || asked.Limit > maxAmount {
		return nil, invalid("limitCents is an amount")
	}
	if err := validate(asked.Reference, asked.Amount, asked.Currency, asked.Scenario); err != nil {
		return nil, err
	}
	if asked.Direction != intoCard && asked.Direction != outOfCard {
		return nil, invalid("direction is in or out")
	}
	row, err := s.books.move(moving{
		asked.Reference, c.PathValue("id"), asked.Direction, asked.Amount, asked.Limit, asked.Scenario,
	}, c.Hide)
	if err != nil {
		return nil, err
	}
	if row.AtOnce {
		return nil, &problem{http.StatusUnprocessableEntity, row.Reason, "the movement is declined"}
	}
	return movementBodyOf(row), nil
}

func (s *Server) getMovements(c call) (any, error) {
	reference, err := reference(c.Request)
	if err != nil {
		return nil, err
	}
	rows, err := s.books.findMovements(reference)
	if err != nil {
		return nil, err
	}
	list := listBody[movementBody]{Items: []movementBody{}}
	for _, row := range rows {
		list.Items = append(list.Items, movementBodyOf(row))
	}
	return list, nil
}

func (s *Server) getBalance(c call) (any, error) {
	row, err := s.books.card(c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return balanceBody{row.ID, row.Balance, currencyUSD, s.books.clock()}, nil
}

type remainderBody struct {
	Card      string      `json:"cardId"`
	Available money.Cents `json:"availableCents"`
	Held      money.Cents `json:"heldCents"`
	Currency  string      `json:"currency"`
}

// getRemainder is what is left on a card, and what merchants hold of it.
func (s *Server) getRemainder(c call) (any, error) {
	row, err := s.books.card(c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return remainderBody{row.ID, row.Balance, row.Held, currencyUSD}, nil
}

// postTerminate ends a card; what is left on it goes back to the master balance.
func (s *Server) postTerminate(c call) (any, error) {
	id := c.PathValue("id")
	if _, err := s.books.card(id); err != nil {
		return nil, err
	}
	var now cardRow
	err := s.books.edit(func(ch *change) error {
		row, _ := ch.card(id)
		err := ch.become(row, cardTerminated, lockedByClient)
		now, _ = ch.card(id)
		return err
	})
	return s.cardBody(now), err
}

func (s *Server) postSensitive(c call) (any, error) {
	row, err := s.books.card(c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if row.Status != cardLive && row.Status != cardLocked {
		return nil, &problem{http.StatusConflict, codeCardNotUsable, "the card is " + string(row.Status)}
	}
	return sensitiveBody{
		Card: row.ID, Number: s.books.number(row), SecurityCode: s.books.securityCode(row),
		ExpiryMonth: int(row.CreatedAt.Month()), ExpiryYear: row.CreatedAt.Year() + validYears,
	}, nil
}

func (s *Server) getAccount(call) (any, error) {
	float, _, err := s.books.stock()
	if err != nil {
		return nil, err
	}
	return accountBody{float, currencyUSD}, nil
}

func (s *Server) getBINs(call) (any, error) {
	_, rows, err := s.books.stock()
	if err != nil {
		return nil, err
	}
	list := listBody[binBody]{Items: []binBody{}}
	for _, row := range rows {
		status := "offline"
		if row.Open {
			status = "online"
		}
		list.Items = append(list.Items, binBody{row.Prefix, status})
	}
	return list, nil
}

func invalid(message string) error {
	return &problem{http.StatusBadRequest, codeInvalidRequest, message}
}

// maxAmount is above the limit of any card, and small enough that sums never overflow.
const maxAmount money.Cents = 100_000_000

func validate(reference string, amount money.Cents, currency, scenario string) error {
	if _, err := uuid.Parse(reference); err != nil || len(reference) != 36 {
		return invalid("reference is a uuid")
	}
	if amount <= 0 || amount > maxAmount {
		return invalid("the amount is out of range")
	}
	if currency != currencyUSD {
		return invalid("currency is USD")
	}
	if scenario != "" && (len(scenario) != 3 || strings.Trim(scenario, "0123456789") != "") {
		return invalid("scenario is three digits")
	}
	return nil
}

func reference(r *http.Request) (string, error) {
	ref := r.URL.Query().Get("reference")
	if _, err := uuid.Parse(ref); err != nil || len(ref) != 36 {
		return "", invalid("reference is a uuid")
	}
	return ref, nil
}

// read decodes a whole body and nothing but the documented members.
func read(body []byte, into any) error {
	if vendorfake.Read(body, into) != nil {
		return invalid("the body does not match the documentation")
	}
	return nil
}

// isPrefix says whether a text can begin a card number.
func isPrefix(s string) bool {
	return len(s) >= 4 && len(s) <= 8 && strings.Trim(s, "0123456789") == ""
}
