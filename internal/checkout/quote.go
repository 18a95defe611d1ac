package checkout

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
)

// quoteLifetime is how long an offer is honoured: the payment window and a minute for the round trip.
const quoteLifetime = 5 * time.Minute

var errQuote = errors.New("not a valid quote of ours")

// quotes encodes offers as signed tokens, so that an unpaid request stores nothing.
type quotes struct {
	key    []byte
	former [][]byte
	now    func() time.Time
}

// quote is the content of a quote id. It is signed, not secret.
type quote struct {
	Kind        order.Kind      `json:"k"`
	Price       money.Cents     `json:"p"`
	Item        json.RawMessage `json:"i"`
	Description string          `json:"d"`
	// Request is the fingerprint of the request that was quoted.
	Request []byte `json:"r"`
	Expires int64  `json:"e"`
}

func (q quotes) sign(kind order.Kind, request order.Fingerprint, o order.Offer) string {
	body, err := json.Marshal(quote{
		Kind: kind, Price: o.Price, Item: o.Item, Description: o.Description, Request: request[:],
		Expires: q.now().Add(quoteLifetime).Unix(),
	})
	if err != nil {
		panic(fmt.Sprintf("checkout: marshal quote: %v", err))
	}
	return base64.RawURLEncoding.EncodeToString(append(macOf(q.key, quoteContext, body), body...))
}

// open returns the offer of a quote id, if the quote is ours, valid now, and for this request.
func (q quotes) open(id string, kind order.Kind, request order.Fingerprint) (order.Offer, error) {
	return q.openAt(id, kind, request, q.now())
}

// openAt is open for a quote that has to be valid at a time.
func (q quotes) openAt(id string, kind order.Kind, request order.Fingerprint, at time.Time) (order.Offer, error) {
	got, err := q.read(id)
	if err != nil || got.Kind != kind || at.Unix() > got.Expires || !hmac.Equal(got.Request, request[:]) {
		return order.Offer{}, errQuote
	}
	return order.Offer{Price: got.Price, Item: got.Item, Description: got.Description}, nil
}

// kindOf is what a quote of ours offers, however old it is.
func (q quotes) kindOf(id string) (kind order.Kind, ok bool) {
	got, err := q.read(id)
	return got.Kind, err == nil
}

func (q quotes) read(id string) (got quote, err error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil || !isSigned(raw, quoteContext, q.key, q.former) {
		return quote{}, errQuote
	}
	return got, json.Unmarshal(raw[macSize:], &got)
}

// macSize keeps 128 bits: a forged quote still has to pass every check of a payment.
const macSize = 16

// The contexts keep a signature of one kind from passing for another.
const (
	quoteContext = "roamcard quote v1\n"
	watchContext = "roamcard order watch v1\n"
)

func macOf(key []byte, context string, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(context))
	h.Write(body)
	return h.Sum(nil)[:macSize]
}

// isSigned reports whether a text that begins with its signature is signed with one of the keys.
func isSigned(raw []byte, context string, key []byte, former [][]byte) bool {
	if len(raw) <= macSize {
		return false
	}
	signed := hmac.Equal(raw[:macSize], macOf(key, context, raw[macSize:]))
	for _, k := range former {
		signed = signed || hmac.Equal(raw[:macSize], macOf(k, context, raw[macSize:]))
	}
	return signed
}
