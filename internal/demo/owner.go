package demo

import (
	"context"
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// lookEvery is how often the service is asked how far a card has come.
	lookEvery = 500 * time.Millisecond
	// drawEvery is how often the waiting line moves on a terminal.
	drawEvery = 100 * time.Millisecond
)

// challenge is a message to sign.
type challenge struct {
	IntentID string `json:"intentId"`
	Message  string `json:"message"`
}

// schemes are the ways the demo's wallets sign messages.
func schemes() []auth.Scheme { return []auth.Scheme{auth.EIP191} }

// signMessage signs a challenge of this service for this wallet that names exactly these resources.
func (s *story) signMessage(ch challenge, resources []string) (string, error) {
	m, err := auth.ParseMessage(ch.Message)
	if err != nil {
		return "", fmt.Errorf("read the message to sign: %w", err)
	}
	origin, err := url.Parse(s.BaseURL)
	if err != nil {
		return "", fmt.Errorf("read the base URL: %w", err)
	}
	if m.Domain != origin.Host || m.URI != s.BaseURL || m.Address != s.wallet.address || m.ChainID != x402.ChainID {
		return "", fmt.Errorf("%w: the message to sign is for %s at %s, chain %d; it was not signed", ErrTerms, m.Address, m.URI, m.ChainID)
	}
	for _, r := range resources {
		if !slices.Contains(m.Resources, r) {
			return "", fmt.Errorf("%w: the message to sign does not name %s; it was not signed", ErrTerms, r)
		}
	}
	if resources == nil && len(m.Resources) > 0 {
		return "", fmt.Errorf("%w: the sign-in message names resources; it was not signed", ErrTerms)
	}
	return s.wallet.signText(ch.Message)
}

// awaitCard looks at the order until the card is ACTIVE.
func (s *story) awaitCard(ctx context.Context) error {
	s.begin("Wait for the card")
	err := s.until(ctx, func() (string, bool, error) {
		var o order
		if err := s.client.get(ctx, "/api/orders/"+url.PathEscape(s.order.OrderID), s.token, &o); err != nil {
			return "", false, err
		}
		switch o.Status {
		case "operator_review", "refund_pending", "refunded", "expired", "payment_required":
			return "", false, fmt.Errorf("order %s is in %s: no card comes of it by itself. Next: ask the service's operators", o.OrderID, o.Status)
		}
		s.order = o
		return fmt.Sprintf("order %s, issuance %s", o.Status, o.Issuance.Status), o.Issuance.Status == "active" && o.Issuance.CardID != "", nil
	})
	if err != nil {
		return fmt.Errorf("wait for the card: %w", err)
	}
	s.summary.CardID = s.order.Issuance.CardID
	s.say("Card %s is ACTIVE.", s.summary.CardID)
	return nil
}

// awaitBalance looks at the card's balance until the issue fee is withdrawn.
func (s *story) awaitBalance(ctx context.Context) error {
	s.begin("Wait until the issue fee is withdrawn")
	var b struct {
		Available money.Cents `json:"availableUsdCents"`
	}
	err := s.until(ctx, func() (string, bool, error) {
		err := s.client.get(ctx, "/api/cards/"+s.summary.CardID+"/balance", s.token, &b)
		return fmt.Sprintf("%s USD on the card", b.Available), b.Available == s.shop.Card.Available, err
	})
	if err != nil {
		return fmt.Errorf("wait for the balance: %w", err)
	}
	s.summary.OnCardUSDCents, s.summary.FeeUSDCents = b.Available, s.shop.Card.Fee
	s.say("%s USD on the card, read from the issuer: %s paid, %s fee.", b.Available, s.shop.Card.Price, s.shop.Card.Fee)
	return nil
}

// until looks again and again until it is done, and shows the phase meanwhile.
func (s *story) until(ctx context.Context, look func() (phase string, done bool, err error)) error {
	deadline := s.Now().Add(s.Patience)
	for {
		phase, done, err := look()
		pause := lookEvery
		if p, ok := errors.AsType[*Problem](err); ok {
			again := false
			if pause, again = p.again(lookEvery); again {
				phase, err = fmt.Sprintf("%d %s, looking again", p.Status, p.Code), nil
			}
		}
		if err != nil || done {
			return err
		}
		if s.Now().After(deadline) {
			return fmt.Errorf("still %s after %s. Next: the order goes on by itself; look at GET /api/orders/%s later", phase, s.Patience, s.order.OrderID)
		}
		for waited := time.Duration(0); waited < pause; waited += drawEvery {
			s.wait(phase)
			if err := s.Wait(ctx, drawEvery); err != nil {
				return err
			}
		}
	}
}

// credentials are what a merchant asks for.
type credentials struct {
	Number       string `json:"number"`
	ExpiryMonth  int    `json:"expiryMonth"`
	ExpiryYear   int    `json:"expiryYear"`
	SecurityCode string `json:"securityCode"`
}

// sealed is an HPKE ciphertext as the service writes it.
type sealed struct {
	Suite      string `json:"suite"`
	Enc        []byte `json:"enc"`
	Ciphertext []byte `json:"ciphertext"`
}

// reveal gets the card sealed to a key that exists only here, and for this once.
func (s *story) reveal(ctx context.Context) error {
	s.begin("Reveal the card, sealed to a fresh key")
	key, err := hpke.DHKEM(ecdh.X25519()).GenerateKey()
	if err != nil {
		return fmt.Errorf("make a key to seal to: %w", err)
	}
	public := key.PublicKey().Bytes()
	recipient := base64.StdEncoding.EncodeToString(public)
	path, id := "/api/cards/"+s.summary.CardID, s.summary.CardID
	var ch challenge
	err = s.client.post(ctx, path+"/reveal-challenge", s.token,
		map[string]any{"preferredMessageSchemes": schemes(), "recipientKey": recipient}, &ch)
	if err != nil {
		return err
	}
	signature, err := s.signMessage(ch, []string{
		"urn:roamcard:card:" + id, "urn:roamcard:recipient-key:" + base64.RawURLEncoding.EncodeToString(public),
	})
	if err != nil {
		return err
	}
	var answer struct {
		Sealed *sealed `json:"sealed"`
	}
	err = s.client.post(ctx, path+"/reveal", s.token,
		map[string]any{"intentId": ch.IntentID, "messageScheme": schemes()[0], "signature": signature, "recipientKey": recipient}, &answer)
	if err != nil {
		return err
	}
	if answer.Sealed == nil {
		return fmt.Errorf("%w: the card came unsealed", ErrOutcome)
	}
	c, err := open(key, *answer.Sealed, id)
	if err != nil {
		return err
	}
	s.summary.Card = masked(c.Number)
	s.say("The owner signed for this card and this key; the answer opens here and nowhere else.")
	if s.ShowCard && !s.JSON {
		s.say("%s  valid to %02d/%d  code %s (a sandbox card: it buys nothing)", grouped(c.Number), c.ExpiryMonth, c.ExpiryYear, c.SecurityCode)
	} else {
		s.say("%s  valid to %02d/%d", s.summary.Card, c.ExpiryMonth, c.ExpiryYear)
	}
	return nil
}

func open(key hpke.PrivateKey, box sealed, cardID string) (credentials, error) {
	if box.Suite != auth.SealSuite {
		return credentials{}, fmt.Errorf("open the card: the suite is %q, not %s", box.Suite, auth.SealSuite)
	}
	r, err := hpke.NewRecipient(box.Enc, key, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(auth.RevealInfo))
	if err != nil {
		return credentials{}, fmt.Errorf("open the card: %w", err)
	}
	plain, err := r.Open([]byte(cardID), box.Ciphertext)
	if err != nil {
		return credentials{}, fmt.Errorf("open the card: %w", err)
	}
	defer clear(plain)
	var c credentials
	if err := json.Unmarshal(plain, &c); err != nil || len(c.Number) < 12 {
		// A decoding error could quote the number.
		return credentials{}, errors.New("open the card: what was sealed is not a card")
	}
	return c, nil
}

// masked keeps the first six and the last four digits, the most that may be shown of a real card.
func masked(number string) string {
	hidden := []rune(number)
	for i := 6; i < len(hidden)-4; i++ {
		hidden[i] = '•'
	}
	return grouped(string(hidden))
}

// grouped writes a number in fours.
func grouped(number string) string {
	var b strings.Builder
	for i, r := range []rune(number) {
		if i > 0 && i%4 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}
