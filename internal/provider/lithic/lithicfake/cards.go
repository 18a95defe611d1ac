package lithicfake

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Card is a card in the books, with what is on it in cents.
type Card struct {
	Token, Memo, State string
	// Reason is its substatus; empty for none.
	Reason  string
	Balance int64
	// Held is what merchants hold: it is not in the balance.
	Held         int64
	Number, Code string
	// Limit is what purchases may be by its Duration; zero without a limit.
	Limit    int64
	Duration string
	Created  time.Time

	// hidden keeps it out of lists.
	hidden bool
}

// Cards are all cards, the oldest first.
func (s *Server) Cards() []Card {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Card, len(s.cards))
	for n, c := range s.cards {
		all[n] = *c
	}
	return all
}

// FloatBalance is what the float's account has.
func (s *Server) FloatBalance() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.float
}

// SetFloat sets what the float's account has.
func (s *Server) SetFloat(cents int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.float = cents
}

// SetState sets a card's state, as in the vendor's dashboard.
func (s *Server) SetState(token, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setState(s.find(token), state)
}

// SetReason sets a card's state with a reason, as the vendor's or the operator's staff does.
func (s *Server) SetReason(token, state, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.find(token)
	c.Reason = reason
	s.setState(c, state)
}

// SetMemo renames a card, as in the vendor's dashboard.
func (s *Server) SetMemo(token, memo string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.find(token).Memo = memo
}

// Reveal lets lists have what was kept out of them.
func (s *Server) Reveal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.cards {
		c.hidden = false
	}
}

// SetLimit sets a card's limit, as in the vendor's dashboard.
func (s *Server) SetLimit(token string, cents int64, duration string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.find(token)
	c.Limit, c.Duration = cents, duration
}

// ForgetKeys forgets every Idempotency-Key.
func (s *Server) ForgetKeys() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.keys)
}

func (s *Server) setState(c *Card, state string) {
	was := c.State
	c.State = state
	s.happened("card.updated", map[string]any{
		"card_token": c.Token, "state": state, "previous_fields": map[string]string{"state": was},
	})
}

// find is a card by its token, or nil.
func (s *Server) find(token string) *Card {
	for _, c := range s.cards {
		if c.Token == token {
			return c
		}
	}
	return nil
}

type postedCard struct {
	Type    string `json:"type"`
	State   string `json:"state"`
	Program string `json:"card_program_token"`
	Account string `json:"account_token"`
	Memo    string `json:"memo"`
}

func (s *Server) postCard(r *http.Request, body []byte) (any, error) {
	var asked postedCard
	if err := read(body, &asked); err != nil {
		return nil, err
	}
	key := r.Header.Get("Idempotency-Key")
	switch _, err := uuid.Parse(key); {
	case key != "" && err != nil:
		return nil, invalid("the idempotency key is not a UUID")
	case asked.Type != "VIRTUAL" || asked.State != "OPEN":
		return nil, invalid("only open virtual cards are made here")
	case asked.Program != Program:
		return nil, &problem{http.StatusUnprocessableEntity, "the card program is not enabled"}
	case asked.Account != "" && asked.Account != Account:
		return nil, &problem{http.StatusUnprocessableEntity, "the account is not enrolled"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if earlier, used := s.keys[key]; used && key != "" {
		if earlier.body != string(body) && !s.replays {
			return nil, &problem{http.StatusUnprocessableEntity, "the idempotency key was used for another request"}
		}
		return s.show(earlier.card, s.numbers), nil
	}
	c := &Card{
		Token: uuid.NewString(), Memo: asked.Memo, State: "OPEN", Number: number(len(s.cards)),
		Code: fmt.Sprintf("%03d", 100+len(s.cards)%900), Created: s.now().UTC(),
	}
	s.cards = append(s.cards, c)
	s.keys[key] = kept{string(body), c}
	s.happened("card.created", map[string]any{"card_token": c.Token})
	return s.show(c, s.numbers), nil
}

// number is the nth card's, with its check digit.
func number(n int) string {
	body := Range + fmt.Sprintf("%07d", n)
	sum := 0
	for i := range len(body) {
		digit := int(body[len(body)-1-i] - '0')
		if i%2 == 0 {
			digit = digit*2/10 + digit*2%10
		}
		sum += digit
	}
	return body + strconv.Itoa((10-sum%10)%10)
}

// show is a card on the wire.
func (s *Server) show(c *Card, numbers bool) map[string]any {
	shown := map[string]any{
		"token": c.Token, "account_token": Account, "card_program_token": Program, "created": stamp(c.Created),
		"funding": nil, "last_four": c.Number[len(c.Number)-4:], "memo": c.Memo, "pin_status": "OK", "spend_limit": c.Limit,
		"spend_limit_duration": cmp.Or(c.Duration, "TRANSACTION"), "state": c.State, "type": "VIRTUAL", "exp_month": "06",
		"exp_year": strconv.Itoa(c.Created.Year() + 5), "hostname": "", "cardholder_currency": "USD",
	}
	if c.Reason != "" {
		shown["substatus"] = c.Reason
	}
	if numbers {
		shown["pan"], shown["cvv"] = c.Number, c.Code
	}
	return shown
}

// getCards lists cards, those whose memo contains a text. Lists hold no numbers.
func (s *Server) getCards(r *http.Request, _ []byte) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	memo := r.URL.Query().Get("memo")
	var all []map[string]any
	for _, c := range s.cards {
		if !c.hidden && strings.Contains(c.Memo, memo) {
			all = append(all, s.show(c, false))
		}
	}
	return s.page(r, all)
}

// page is the part of a list that a request asks for.
func (s *Server) page(r *http.Request, all []map[string]any) (any, error) {
	size := 50
	if asked := r.URL.Query().Get("page_size"); asked != "" {
		var err error
		if size, err = strconv.Atoi(asked); err != nil || size < 1 || size > 100 {
			return nil, invalid("the page size is not from 1 to 100")
		}
	}
	size = min(size, s.pageSize)
	if after := r.URL.Query().Get("starting_after"); after != "" {
		at := slices.IndexFunc(all, func(one map[string]any) bool { return one["token"] == after })
		if at < 0 {
			return nil, invalid("there is nothing by the cursor")
		}
		all = all[at+1:]
	}
	shown := all[:min(size, len(all))]
	if shown == nil {
		shown = []map[string]any{}
	}
	return map[string]any{"data": shown, "has_more": len(all) > size}, nil
}

func (s *Server) getCard(r *http.Request, _ []byte) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.find(r.PathValue("token"))
	if c == nil {
		return nil, absent()
	}
	return s.show(c, s.numbers), nil
}

func (s *Server) patchCard(r *http.Request, body []byte) (any, error) {
	var asked struct {
		State    string `json:"state"`
		Limit    *int64 `json:"spend_limit"`
		Duration string `json:"spend_limit_duration"`
	}
	if err := read(body, &asked); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.find(r.PathValue("token"))
	if c != nil && asked.State == "" {
		asked.State = c.State
	}
	switch {
	case c == nil:
		return nil, absent()
	case asked.Limit != nil && (*asked.Limit < 0 || c.State == "CLOSED"):
		return nil, invalid("the limit is not possible")
	case !slices.Contains([]string{"", "ANNUALLY", "FOREVER", "MONTHLY", "TRANSACTION"}, asked.Duration):
		return nil, invalid("the duration is unknown")
	case asked.State != "OPEN" && asked.State != "PAUSED" && asked.State != "CLOSED":
		return nil, invalid("the state is unknown")
	case c.State == "CLOSED" && asked.State != "CLOSED":
		return nil, invalid("a closed card stays closed")
	}
	if asked.Limit != nil {
		c.Limit = *asked.Limit
	}
	c.Duration = cmp.Or(asked.Duration, c.Duration)
	if asked.State != c.State || asked.Limit == nil {
		s.setState(c, asked.State)
	}
	return s.show(c, s.numbers), nil
}

func (s *Server) getBalance(r *http.Request, _ []byte) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.find(r.PathValue("token"))
	if c == nil {
		return nil, absent()
	}
	return s.balance(c.Token, "ISSUING", c.Balance, c.Held), nil
}

func (s *Server) getFloat(r *http.Request, _ []byte) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.PathValue("token") != Float {
		return nil, absent()
	}
	return s.balance(Float, "OPERATING", s.float, 0), nil
}

func (s *Server) balance(token, kind string, cents, held int64) any {
	last := uuid.NewString()
	now := stamp(s.now())
	return map[string]any{"has_more": false, "data": []map[string]any{{
		"token": token, "type": kind, "available_amount": cents, "pending_amount": held, "total_amount": cents + held,
		"currency": "USD", "created": now, "updated": now, "last_transaction_token": last,
		"last_transaction_event_token": last,
	}}}
}

func (s *Server) getProgram(r *http.Request, _ []byte) (any, error) {
	if r.PathValue("token") != Program {
		return nil, absent()
	}
	return map[string]any{
		"token": Program, "name": "Prepaid", "created": stamp(s.now()), "pan_range_start": Range, "pan_range_end": Range,
		"cardholder_currency": "USD", "settlement_currencies": []string{"USD"}, "account_level_management_enabled": false,
	}, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
