package stripefake

import (
	"crypto/rand"
	_ "embed"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

//go:embed elements.js
var elements []byte

// look is a page that shows a card: a nonce of its script's, and the secret of the key that was made for it.
type look struct {
	card, secret string
	shown        map[string]bool
}

func (s *Server) script(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	_, _ = w.Write(elements) // the client may have disconnected
}

// postNonce makes a nonce for a page with the publishable key.
func (s *Server) postNonce(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	answered(s.newNonce(r.PostFormValue("key"), r.PostFormValue("card"))).Write(w)
}

func (s *Server) newNonce(key, card string) (any, error) {
	s.Count("nonce")
	s.mu.Lock()
	defer s.mu.Unlock()
	if key != s.publishable || s.find(card) == nil {
		return nil, &problem{http.StatusUnauthorized, "invalid_request_error", "", "", "Invalid API Key"}
	}
	nonce := "ephkn_" + rand.Text()
	s.looks[nonce] = &look{card: card, shown: map[string]bool{}}
	return map[string]string{"nonce": nonce}, nil
}

// postKey makes an ephemeral key for a nonce, once.
func (s *Server) postKey(c call) (any, error) {
	card, nonce := c.form.text("issuing_card"), c.form.text("nonce")
	if err := c.form.rest(); err != nil {
		return nil, err
	}
	one := s.looks[nonce]
	switch {
	case c.version == "":
		return nil, invalid("", "", "Ephemeral keys need a Stripe-Version.")
	case s.find(card) == nil:
		return nil, notFound("issuing card", card)
	case one == nil || one.card != card || one.secret != "":
		return nil, invalid("", "nonce", "The nonce is not one of this card, or was used.")
	}
	one.secret = "ek_test_" + rand.Text()
	now := s.now()
	return map[string]any{
		"id": "ephkey_" + rand.Text(), "object": "ephemeral_key", "created": now.Unix(),
		"expires": now.Add(15 * time.Minute).Unix(), "livemode": false, "secret": one.secret,
	}, nil
}

// frame shows a part of a card to a page that has its key, once.
func (s *Server) frame(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	s.Count("frame")
	s.mu.Lock()
	defer s.mu.Unlock()
	one, kind := s.looks[query.Get("nonce")], query.Get("kind")
	if one == nil || one.secret == "" || one.secret != query.Get("secret") || one.card != query.Get("card") ||
		one.shown[kind] {
		http.Error(w, "this key shows nothing", http.StatusUnauthorized)
		return
	}
	c := s.must(one.card)
	text, known := map[string]string{
		"issuingCardNumberDisplay": c.Number(), "issuingCardCvcDisplay": "123",
		"issuingCardExpiryDisplay": "12/" + strconv.Itoa(time.Unix(c.Created, 0).UTC().Year()+3),
	}[kind]
	if !known {
		http.Error(w, "there is no such element", http.StatusNotFound)
		return
	}
	one.shown[kind] = true
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = fmt.Fprintf(w, "<!doctype html><html><body><div id=\"app\">%s</div></body></html>\n", text)
}

// Number is the card's: it ends in Last4.
func (c Card) Number() string {
	for check := range 10 {
		number := "40000099" + "000" + strconv.Itoa(check) + c.Last4
		if luhn(number) {
			return number
		}
	}
	panic("stripefake: there is no check digit")
}

func luhn(number string) bool {
	sum := 0
	for i := range len(number) {
		digit := int(number[len(number)-1-i] - '0')
		if i%2 == 1 {
			digit = digit*2/10 + digit*2%10
		}
		sum += digit
	}
	return sum%10 == 0
}
