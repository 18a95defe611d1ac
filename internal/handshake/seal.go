package handshake

import (
	"crypto/ecdh"
	"crypto/hpke"
	"fmt"
)

const (
	// SealSuite names the HPKE suite of Seal (RFC 9180, base mode).
	SealSuite = "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM"
	// RevealInfo is the HPKE info of a sealed card; the associated data is the card's id.
	RevealInfo = "roamcard card reveal v1"
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

// Open decrypts what Seal has made for the key, with the same info and associated data.
func Open(key hpke.PrivateKey, enc, info, aad, ciphertext []byte) ([]byte, error) {
	r, err := hpke.NewRecipient(enc, key, hpke.HKDFSHA256(), hpke.AES256GCM(), info)
	if err != nil {
		return nil, fmt.Errorf("agree on a key with the sender: %w", err)
	}
	plaintext, err := r.Open(aad, ciphertext)
	if err != nil {
		return nil, fmt.Errorf("open what is sealed: %w", err)
	}
	return plaintext, nil
}
