package cdp

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/roamcard/roamcard/internal/secret"
)

var (
	errForm = errors.New("it is neither base64 of an Ed25519 key's 64 bytes nor the PEM of an EC key")
	errPair = errors.New("its public half is not that of its private half: a letter may be missing or wrong")
	errPEM  = errors.New("its PEM is no private key on P-256")
)

// parse reads an API key's secret. An Ed25519 key is base64 of its seed and its public half, an EC key the PEM of SEC 1
// or PKCS #8. Line ends may be written as \n, as in a file of variables. The errors have nothing of the secret.
func parse(key secret.Text) (jose.SignatureAlgorithm, any, error) {
	text := strings.TrimSpace(strings.ReplaceAll(key.Reveal(), `\n`, "\n"))
	if strings.HasPrefix(text, "-----BEGIN ") {
		private, err := parsePEM(text)
		return jose.ES256, private, err
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.PrivateKeySize {
		return "", nil, errForm
	}
	// A signature by halves that do not belong together would give the private one away.
	private := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
	if !bytes.Equal(private, raw) {
		return "", nil, errPair
	}
	return jose.EdDSA, private, nil
}

func parsePEM(text string) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errPEM
	}
	private, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, errPEM
		}
		private, _ = parsed.(*ecdsa.PrivateKey)
	}
	if private == nil || private.Curve != elliptic.P256() {
		return nil, errPEM
	}
	return private, nil
}
