// Package receipt signs what is offered and how an order ended, and verifies it: the x402 extension offer-receipt.
//
// Offers and receipts are JWS (RFC 7515, compact) over canonical JSON (RFC 8785), signed with Ed25519 (RFC 8037). The
// keys are published as a did:web document, so whoever has that document verifies a receipt without asking anybody.
package receipt

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// version is the schema of offers and receipts by the extension.
const version = 1

// DocumentPath is where did:web finds the document of a host.
const DocumentPath = "/.well-known/did.json"

// Outcome is how a paid order ended.
type Outcome string

// The outcomes.
const (
	Delivered Outcome = "delivered"
	Refunded  Outcome = "refunded"
)

// Offer is what a 402 asks for one resource. Its members are in canonical order.
type Offer struct {
	// Amount is a decimal string in the asset's atomic units.
	Amount string `json:"amount"`
	Asset  string `json:"asset"`
	// Network is a CAIP-2 id.
	Network     string `json:"network"`
	PayTo       string `json:"payTo"`
	ResourceURL string `json:"resourceUrl"`
	Scheme      string `json:"scheme"`
	// ValidUntil is in Unix seconds.
	ValidUntil int64 `json:"validUntil"`
	Version    int   `json:"version"`
}

// Claims are what a receipt says of a paid order. Its members are in canonical order. The extension knows network,
// resourceUrl, payer, issuedAt, transaction and version; the others are ours.
type Claims struct {
	// Amount is what was paid, a decimal string in the asset's atomic units.
	Amount string `json:"amount"`
	Asset  string `json:"asset"`
	// IssuedAt is in Unix seconds.
	IssuedAt int64 `json:"issuedAt"`
	// Network is a CAIP-2 id.
	Network string  `json:"network"`
	OrderID string  `json:"orderId"`
	Outcome Outcome `json:"outcome"`
	Payer   string  `json:"payer"`
	// Product is the kind of the order.
	Product string `json:"product"`
	// RefundTransaction paid the payer back; only with the outcome Refunded.
	RefundTransaction string `json:"refundTransaction,omitempty"`
	// ResourceURL is what was paid for.
	ResourceURL string `json:"resourceUrl"`
	// Transaction is the payment's.
	Transaction string `json:"transaction"`
	Version     int    `json:"version"`
}

// Signer signs with the first of its keys, and publishes all.
type Signer struct {
	origin, did string
	keys        []ed25519.PrivateKey
	header      string
}

// New makes the signer of a service. origin is its public base URL; the first of the seeds (ed25519.SeedSize bytes
// each) signs, and the others verify what was signed with them before.
func New(origin string, seeds ...[]byte) (*Signer, error) {
	did, err := DID(origin)
	if err != nil {
		return nil, err
	}
	if len(seeds) == 0 {
		return nil, errors.New("no key to sign receipts with")
	}
	s := &Signer{origin: strings.TrimSuffix(origin, "/"), did: did}
	for _, seed := range seeds {
		if len(seed) != ed25519.SeedSize {
			return nil, fmt.Errorf("a key of receipts has %d bytes, not %d", len(seed), ed25519.SeedSize)
		}
		s.keys = append(s.keys, ed25519.NewKeyFromSeed(seed))
	}
	header, err := canonical(header{Algorithm: algorithm, KeyID: did + "#" + keyID(publicKey(s.keys[0]))})
	if err != nil {
		return nil, err
	}
	s.header = base64.RawURLEncoding.EncodeToString(header)
	return s, nil
}

// DID is the did:web of an origin, such as https://example.com or http://127.0.0.1:8402.
func DID(origin string) (string, error) {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.User != nil || strings.TrimSuffix(u.Path, "/") != "" {
		return "", fmt.Errorf("%q is not the origin of a service", origin)
	}
	return "did:web:" + strings.ReplaceAll(strings.ToLower(u.Host), ":", "%3A"), nil
}

// Origin is where what the signer signs for is sold, without a slash at the end.
func (s *Signer) Origin() string { return s.origin }

// Offer signs an offer, of which Version is set here.
func (s *Signer) Offer(o Offer) (jws string, err error) {
	o.Version = version
	return s.sign(o)
}

// Receipt signs a receipt, of which Version is set here.
func (s *Signer) Receipt(c Claims) (jws string, err error) {
	c.Version = version
	return s.sign(c)
}

func (s *Signer) sign(payload any) (string, error) {
	body, err := canonical(payload)
	if err != nil {
		return "", err
	}
	signed := s.header + "." + base64.RawURLEncoding.EncodeToString(body)
	signature := ed25519.Sign(s.keys[0], []byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// header is that of a JWS, in canonical order.
type header struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
}

// algorithm is Ed25519's name in a JWS.
const algorithm = "EdDSA"

// canonical is the canonical JSON of a struct whose members are declared in order and whose numbers are integers.
func canonical(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode what is signed: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func publicKey(key ed25519.PrivateKey) ed25519.PublicKey {
	return key.Public().(ed25519.PublicKey)
}

// keyID names a key by its thumbprint (RFC 7638), of which 96 bits are enough to tell apart the keys of one document.
func keyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256([]byte(`{"crv":"` + curve + `","kty":"` + keyType + `","x":"` + encodeKey(key) + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

func encodeKey(key ed25519.PublicKey) string { return base64.RawURLEncoding.EncodeToString(key) }
