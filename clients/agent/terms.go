package agent

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// approvalFor is how long an approval is good.
const approvalFor = 10 * time.Minute

// Terms are what a person approves: all that decides where money goes and for what. An approval is for exactly these.
type Terms struct {
	Key       string `json:"key"`
	Tool      string `json:"tool"`
	Operation string `json:"operation"`
	// PlanID is the plan of an eSIM.
	PlanID string `json:"planId,omitempty"`
	// Amount is in USDC's atomic units, 10^-6 USDC, as a decimal text.
	Amount  string `json:"amount"`
	PayTo   string `json:"payTo"`
	Asset   string `json:"asset"`
	Network string `json:"network"`
	Origin  string `json:"origin"`
}

func (s *Server) termsOf(want purchase, q roamcard.Quote) Terms {
	return Terms{
		Key: q.IdempotencyKey, Tool: want.Tool, Operation: q.Operation, PlanID: want.PlanID, Amount: q.AmountUSDC,
		PayTo: strings.ToLower(q.PayTo), Asset: strings.ToLower(q.Asset), Network: q.Network, Origin: s.settings.Origin,
	}
}

// Price is the amount in US dollars, rounded up to a cent.
func (t Terms) Price() string {
	units, err := strconv.ParseInt(t.Amount, 10, 64)
	if err != nil {
		return "?"
	}
	const perCent = 10_000
	return roamcard.Cents((units + perCent - 1) / perCent).String()
}

// Question is the terms as a person reads them. What a model chose is quoted, and stays on its line: it must not look
// like a line of this program's.
func (t Terms) Question() string {
	plan := "the eSIM plan " + quoted(t.PlanID, maxName)
	if t.PlanID == "" {
		plan = "the cheapest eSIM plan"
	}
	what := map[string]string{
		"buy_card": "a virtual card", "top_up_card": "a top-up of the card", "buy_esim": plan,
	}[t.Tool]
	return fmt.Sprintf("Pay %s USDC for %s?\nTo %s on %s, token %s, for the service %s.\nPurchase key, chosen by the "+
		"agent: %s",
		t.Price(), what, identifier(t.PayTo), identifier(t.Network), identifier(t.Asset), quoted(t.Origin, maxDetail),
		quoted(t.Key, maxCommand))
}

// states seals terms into the state that a client returns with a person's answer. Only this process opens them,
// once, for ten minutes.
type states struct {
	secret []byte
	now    func() time.Time
	mu     sync.Mutex
	spent  map[string]time.Time
}

type sealed struct {
	Terms   Terms  `json:"terms"`
	ID      string `json:"id"`
	Expires int64  `json:"expires"`
}

func newStates(now func() time.Time) *states {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails: the program ends when there is no randomness
	return &states{secret: secret, now: now, spent: map[string]time.Time{}}
}

func (s *states) seal(t Terms) (string, error) {
	body, err := json.Marshal(sealed{Terms: t, ID: rand.Text(), Expires: s.now().Add(approvalFor).Unix()})
	if err != nil {
		return "", fmt.Errorf("encode the terms: %w", err)
	}
	return authenticated(s.secret, body), nil
}

// open gives the terms of a state that was sealed here, has not expired and was not opened before.
func (s *states) open(state string) (Terms, bool) {
	body, ok := authentic(s.secret, state)
	var in sealed
	if !ok || json.Unmarshal(body, &in) != nil {
		return Terms{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for id, until := range s.spent {
		if until.Before(now) {
			delete(s.spent, id)
		}
	}
	expires := time.Unix(in.Expires, 0)
	if _, again := s.spent[in.ID]; again || !now.Before(expires) {
		return Terms{}, false
	}
	s.spent[in.ID] = expires
	return in.Terms, true
}

// authenticated is a body with its MAC, as a text.
func authenticated(secret, body []byte) string {
	return base64.RawURLEncoding.EncodeToString(body) + "." + base64.RawURLEncoding.EncodeToString(macOf(secret, body))
}

// authentic gives the body of such a text, if its MAC was made with the secret.
func authentic(secret []byte, text string) (body []byte, ok bool) {
	text, sum, _ := strings.Cut(text, ".")
	body, err1 := base64.RawURLEncoding.DecodeString(text)
	mac, err2 := base64.RawURLEncoding.DecodeString(sum)
	return body, err1 == nil && err2 == nil && hmac.Equal(mac, macOf(secret, body))
}

func macOf(secret, body []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(body)
	return h.Sum(nil)
}
