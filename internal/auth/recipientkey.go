package auth

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"strings"

	"github.com/roamcard/roamcard/internal/fault"
)

const recipientKeyBytes = 32

// ParseRecipientKey reads the base64 of an X25519 public key, in the standard or the URL alphabet,
// padded or not. An empty text is no key. Anything else is a schema_invalid fault.
func ParseRecipientKey(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimSuffix(text, "="))
	key, err := base64.RawStdEncoding.Strict().DecodeString(plain)
	// The length keeps out line breaks, which the decoder skips.
	if err != nil || len(plain) != base64.RawStdEncoding.EncodedLen(recipientKeyBytes) ||
		checkRecipientKey(key) != nil {
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
		With(fault.Field{Path: "recipientKey", Rule: "x25519", Message: "must be the base64 of the 32 bytes of a public key"})
}
