package esimgo

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"

	"github.com/roamcard/roamcard/internal/secret"
)

// SignatureHeader carries the signature of a callback of version 3; version 2 has none and is not taken.
const SignatureHeader = "X-Signature-SHA256"

// ErrSignature says that a callback is not proven to be the vendor's.
var ErrSignature = errors.New("the callback is not signed with our key")

// VerifyCallback checks the signature of a callback: base64 of HMAC-SHA256 over the body as it was sent, with the API
// key. While a key is replaced, either one signs. What is verified is a reason to read the eSIM, never a fact.
func VerifyCallback(body []byte, signature string, keys ...secret.Text) error {
	for _, key := range keys {
		if key.IsZero() {
			continue
		}
		mac := hmac.New(sha256.New, []byte(key.Reveal()))
		_, _ = mac.Write(body) // never fails
		if hmac.Equal([]byte(signature), []byte(base64.StdEncoding.EncodeToString(mac.Sum(nil)))) {
			return nil
		}
	}
	return ErrSignature
}
