package facilitatortest

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/secret"
)

// CDPPath is where Coinbase's facilitator lies on its host.
const CDPPath = "/platform/v2/x402"

// CDPKey is what the Coinbase Developer Platform keeps of an API key.
type CDPKey struct {
	ID string
	// Public is an ed25519.PublicKey or an *ecdsa.PublicKey on P-256.
	Public any
}

// NewEd25519 makes a key of a seed, and its secret as CDP shows it: base64 of the seed and the public half.
func NewEd25519(id string, seed [32]byte) (CDPKey, secret.Text) {
	private := ed25519.NewKeyFromSeed(seed[:])
	return CDPKey{ID: id, Public: private.Public()}, secret.New(base64.StdEncoding.EncodeToString(private))
}

// NewES256 makes a key of its private number, and its secret as the PEM of PKCS #8 and of SEC 1.
func NewES256(id string, number [32]byte) (key CDPKey, pkcs8, sec1 secret.Text) {
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), number[:])
	if err != nil {
		panic(err) // the number is the test's
	}
	write := func(kind string, der []byte, err error) secret.Text {
		if err != nil {
			panic(err)
		}
		return secret.New(string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	pkcs8 = write("PRIVATE KEY", der, err)
	der, err = x509.MarshalECPrivateKey(private)
	return CDPKey{ID: id, Public: &private.PublicKey}, pkcs8, write("EC PRIVATE KEY", der, err)
}

// CDPToken is a token as far as CDP reads it.
type CDPToken struct {
	Header struct {
		Algorithm string `json:"alg"`
		KeyID     string `json:"kid"`
		Nonce     string `json:"nonce"`
		Type      string `json:"typ"`
	}
	Claims struct {
		Issuer    string   `json:"iss"`
		Subject   string   `json:"sub"`
		Audience  any      `json:"aud"`
		URIs      []string `json:"uris"`
		IssuedAt  int64    `json:"iat"`
		NotBefore int64    `json:"nbf"`
		Expires   int64    `json:"exp"`
	}
	signed, signature []byte
}

// ReadCDPToken takes a token apart and checks nothing of it.
func ReadCDPToken(token string) (t CDPToken, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return t, errors.New("a token has three parts")
	}
	for i, to := range []any{&t.Header, &t.Claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			return t, fmt.Errorf("part %d: %w", i, err)
		}
		if err := json.Unmarshal(raw, to); err != nil {
			return t, fmt.Errorf("part %d: %w", i, err)
		}
	}
	t.signed = []byte(parts[0] + "." + parts[1])
	t.signature, err = base64.RawURLEncoding.DecodeString(parts[2])
	return t, err
}

// proves checks a token for one request, given as "METHOD host/path".
func (k CDPKey) proves(t CDPToken, request string, now time.Time) error {
	const longest = 120
	at := now.Unix()
	switch h, c := t.Header, t.Claims; {
	case h.KeyID != k.ID || c.Subject != k.ID || c.Issuer != "cdp":
		return fmt.Errorf("kid %q, sub %q and iss %q", h.KeyID, c.Subject, c.Issuer)
	case at < c.NotBefore || at >= c.Expires || c.Expires-c.NotBefore > longest:
		return fmt.Errorf("from %d to %d, at %d", c.NotBefore, c.Expires, at)
	case !slices.Equal(c.URIs, []string{request}):
		return fmt.Errorf("uris %q for %q", c.URIs, request)
	case !k.signed(t):
		return errors.New("the key did not sign it")
	}
	return nil
}

func (k CDPKey) signed(t CDPToken) bool {
	switch public := k.Public.(type) {
	case ed25519.PublicKey:
		return t.Header.Algorithm == "EdDSA" && ed25519.Verify(public, t.signed, t.signature)
	case *ecdsa.PublicKey:
		const half = 32
		hash := sha256.Sum256(t.signed)
		return t.Header.Algorithm == "ES256" && len(t.signature) == 2*half && ecdsa.Verify(public, hash[:],
			new(big.Int).SetBytes(t.signature[:half]), new(big.Int).SetBytes(t.signature[half:]))
	}
	return false
}

// authenticate checks the token of a request, whose nonce is taken once.
func (s *Server) authenticate(r *http.Request) error {
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return errors.New("there is no token")
	}
	t, err := ReadCDPToken(bearer)
	if err != nil {
		return err
	}
	// What was asked for, also where a prefix was taken from r.URL.
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if err := s.config.Key.proves(t, r.Method+" "+r.Host+path, s.config.Now()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.Header.Nonce == "" || s.nonces[t.Header.Nonce] {
		return errors.New("the nonce was used")
	}
	s.nonces[t.Header.Nonce] = true
	return nil
}
