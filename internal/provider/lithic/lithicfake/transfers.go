package lithicfake

import (
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Transfer is a book transfer in the books.
type Transfer struct {
	Token, From, To string
	Amount          int64
	Status, Memo    string
	Subtype         string
	Created         time.Time

	asked postedTransfer
	why   string
	event string
}

// Transfers are all book transfers, the oldest first.
func (s *Server) Transfers() []Transfer {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Transfer, len(s.transfers))
	for n, t := range s.transfers {
		all[n] = *t
	}
	return all
}

// Donate puts money on a card by hand, with a memo of its own.
func (s *Server) Donate(token string, cents int64, memo string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book(postedTransfer{
		Token: uuid.NewString(), Amount: cents, From: Float, To: token, Category: "REWARD", Type: "CASH_BACK",
		Subtype: "gift", Memo: memo,
	})
}

type postedTransfer struct {
	Token    string `json:"token"`
	Amount   int64  `json:"amount"`
	From     string `json:"from_financial_account_token"`
	To       string `json:"to_financial_account_token"`
	Category string `json:"category"`
	Type     string `json:"type"`
	Subtype  string `json:"subtype"`
	Memo     string `json:"memo"`
	OnClosed string `json:"on_closed_account"`
}

func (s *Server) postTransfer(_ *http.Request, body []byte) (any, error) {
	var asked postedTransfer
	if err := read(body, &asked); err != nil {
		return nil, err
	}
	if _, err := uuid.Parse(asked.Token); err != nil || asked.Amount < 1 || asked.Category == "" || asked.Type == "" ||
		asked.Subtype == "" {
		return nil, invalid("a member is missing or wrong")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := slices.IndexFunc(s.transfers, func(t *Transfer) bool { return t.Token == asked.Token }); at >= 0 {
		if s.transfers[at].asked != asked && !s.replays {
			return nil, invalid("the token was used for another transfer")
		}
		return s.transfers[at].show(), nil
	}
	for _, end := range []string{asked.From, asked.To} {
		c := s.find(end)
		switch {
		case c == nil && end != Float:
			return nil, absent()
		case c != nil && c.State == "CLOSED":
			return nil, invalid("the account is closed")
		}
	}
	return s.book(asked).show(), nil
}

// book makes a transfer, or declines it when the sender has too little.
func (s *Server) book(asked postedTransfer) *Transfer {
	t := &Transfer{
		Token: asked.Token, From: asked.From, To: asked.To, Amount: asked.Amount, Status: "SETTLED", Memo: asked.Memo,
		Subtype: asked.Subtype, Created: s.now().UTC(), asked: asked, why: "APPROVED", event: uuid.NewString(),
	}
	if *s.holds(asked.From) < asked.Amount {
		t.Status, t.why = "DECLINED", "FUNDS_INSUFFICIENT"
	} else {
		*s.holds(asked.From) -= asked.Amount
		*s.holds(asked.To) += asked.Amount
	}
	s.transfers = append(s.transfers, t)
	s.happened("book_transfer_transaction.created", t.show())
	return t
}

// holds is where the balance of a card or the float is kept.
func (s *Server) holds(token string) *int64 {
	if token == Float {
		return &s.float
	}
	return &s.find(token).Balance
}

// show is a transfer on the wire.
func (t *Transfer) show() map[string]any {
	settled, result := t.Amount, "APPROVED"
	if t.Status == "DECLINED" {
		settled, result = 0, "DECLINED"
	}
	return map[string]any{
		"token": t.Token, "family": "TRANSFER", "status": t.Status, "result": result, "category": t.asked.Category,
		"currency": "USD", "settled_amount": settled, "pending_amount": 0, "created": stamp(t.Created),
		"updated": stamp(t.Created), "from_financial_account_token": t.From, "to_financial_account_token": t.To,
		"events": []map[string]any{{
			"token": t.event, "amount": t.Amount, "type": t.asked.Type, "subtype": t.Subtype, "result": result,
			"created": stamp(t.Created), "memo": t.Memo, "detailed_results": []string{t.why},
		}},
	}
}

func (s *Server) getTransfer(r *http.Request, _ []byte) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.transfers {
		if t.Token == r.PathValue("token") {
			return t.show(), nil
		}
	}
	return nil, absent()
}

func (s *Server) getTransfers(r *http.Request, _ []byte) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := r.URL.Query().Get("financial_account_token")
	var all []map[string]any
	for _, t := range s.transfers {
		if of == "" || of == t.From {
			all = append(all, t.show())
		}
	}
	return s.page(r, all)
}

// event is something that happened.
type event struct {
	token, kind string
	payload     map[string]any
	at          time.Time
}

// happened records an event. The Server is locked.
func (s *Server) happened(kind string, payload map[string]any) {
	s.events = append(s.events,
		event{"msg_" + uuid.New().String()[:8] + uuid.New().String()[:8], kind, payload, s.now().UTC()})
}

// getEvents lists events, the latest first, as a list of what happened is mostly read.
func (s *Server) getEvents(r *http.Request, _ []byte) (any, error) {
	query := r.URL.Query()
	begin, wrong := time.Parse(time.RFC3339, query.Get("begin"))
	end, amiss := time.Parse(time.RFC3339, query.Get("end"))
	if wrong != nil || amiss != nil {
		return nil, invalid("begin and end are times")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []map[string]any
	for _, e := range slices.Backward(s.events) {
		if e.at.After(begin) && e.at.Before(end) && slices.Contains(query["event_types"], e.kind) {
			all = append(all, map[string]any{
				"token": e.token, "event_type": e.kind, "created": stamp(e.at), "payload": e.payload,
			})
		}
	}
	return s.page(r, all)
}
