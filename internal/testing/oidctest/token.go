package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"testing"
)

// Public is the public part of a key as a JSON Web Key.
func (k Key) Public() map[string]any {
	return map[string]any{
		"kty": "RSA", "kid": k.ID, "use": "sig", "alg": "RS256", "n": Base64(k.N.Bytes()),
		"e": Base64(big.NewInt(int64(k.E)).Bytes()),
	}
}

// Sign makes a token as the key's holder does.
func (k Key) Sign(t testing.TB, claims map[string]any) string {
	t.Helper()
	return Token(t, map[string]any{"alg": "RS256", "kid": k.ID, "typ": "JWT"}, claims, RS256(t, k))
}

// Signature signs the text of a token.
type Signature func(signed string) []byte

// Token makes a token with whatever header, claims and signature.
func Token(t testing.TB, header, claims map[string]any, sign Signature) string {
	t.Helper()
	signed := Part(t, header) + "." + Part(t, claims)
	return signed + "." + Base64(sign(signed))
}

// Part is a value as a part of a token.
func Part(t testing.TB, v any) string {
	t.Helper()
	encoded, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return Base64(encoded)
}

// Base64 is how tokens and keys have bytes.
func Base64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// Unsigned has no signature.
func Unsigned(string) []byte { return nil }

// RS256 signs with an RSA key.
func RS256(t testing.TB, key Key) Signature {
	return func(signed string) []byte {
		sum := sha256.Sum256([]byte(signed))
		signature, err := rsa.SignPKCS1v15(rand.Reader, key.PrivateKey, crypto.SHA256, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return signature
	}
}

// ES256 signs with a key on the curve P-256.
func ES256(t testing.TB, key *ecdsa.PrivateKey) Signature {
	return func(signed string) []byte {
		sum := sha256.Sum256([]byte(signed))
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		signature := make([]byte, 64)
		r.FillBytes(signature[:32])
		s.FillBytes(signature[32:])
		return signature
	}
}

// HS256 signs with a secret, such as a text that everybody knows.
func HS256(secret []byte) Signature {
	return func(signed string) []byte {
		mac := hmac.New(sha256.New, secret)
		_, _ = mac.Write([]byte(signed)) // never fails
		return mac.Sum(nil)
	}
}
