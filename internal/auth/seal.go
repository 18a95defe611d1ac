package auth

import (
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/roamcard/roamcard/internal/fault"
)

const (
	// SealSuite names the HPKE suite of Seal (RFC 9180, base mode).
	SealSuite = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM"
	// RevealInfo is the HPKE info of a sealed card; the associated data is the card's id.
	RevealInfo = "roamcard card reveal v1"

	recipientKeyBytes = 32
)

// Seal encrypts to an X25519 public key with HPKE as SealSuite names it. enc is the encapsulated
// key that the recipient needs. A key of another length or of low order, which would make the
// secret known to everybody, is an error.
func Seal(recipientKey, info, aad, plaintext []byte) (enc, ciphertext []byte, err error) {
	public, err := hpke.DHKEM(ecdh.X25519()).NewPublicKey(recipientKey)
	if err != nil {
		return nil, nil, fmt.Errorf("read recipient key: %w", err)
	}
	enc, sender, err := hpke.NewSender(public, hpke.HKDFSHA256(), hpke.AES256GCM(), info)
	if err != nil {
		return nil, nil, fmt.Errorf("agree on a key with the recipient: %w", err)
	}
	ciphertext, err = sender.Seal(aad, plaintext)
	if err != nil {
		return nil, nil, fmt.Errorf("seal: %w", err)
	}
	return enc, ciphertext, nil
}

// ParseRecipientKey reads the base64 of an X25519 public key, in the standard or the URL alphabet,
// padded or not. An empty text is no key. Anything else is a schema_invalid fault.
func ParseRecipientKey(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	standard := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimSuffix(text, "="))
	key, err := base64.RawStdEncoding.Strict().DecodeString(standard)
	// The length keeps out line breaks, which the decoder skips.
	if err != nil || len(standard) != base64.RawStdEncoding.EncodedLen(recipientKeyBytes) || checkRecipientKey(key) != nil {
		return nil, recipientKeyFault()
	}
	return key, nil
}

// checkRecipientKey agrees on a throw-away secret, which fails for points of low order.
func checkRecipientKey(key []byte) error {
	public, err := ecdh.X25519().NewPublicKey(key)
	if err != nil {
		return err
	}
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	_, err = private.ECDH(public)
	return err
}

func recipientKeyFault() error {
	return fault.New(fault.SchemaInvalid, "The recipient key is not an X25519 public key.").
		With(fault.Field{Path: "recipientKey", Rule: "x25519", Message: "must be the base64 of 32 bytes"})
}
