package receipt

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxSize bounds what Verify reads, in bytes. A receipt has about 900.
const maxSize = 16 << 10

// Proof is what a verified receipt proves.
type Proof struct {
	Claims
	// Signer is the did:web of the service that signed, KeyID the key in its document.
	Signer string `json:"signer"`
	KeyID  string `json:"keyId"`
}

// Verify verifies a receipt with the DID document of whoever is said to have signed it. It asks nobody. The error says
// why the receipt proves nothing, and is fit to show.
//
// The receipt has to be written as Signer writes it, byte for byte: so no other algorithm, no member that is unknown,
// twice or in another place, and no other encoding passes. The signer has to be the host of what was paid for.
func Verify(jws string, did []byte) (Proof, error) {
	d, err := parseDocument(did)
	if err != nil {
		return Proof{}, err
	}
	parts := strings.Split(jws, ".")
	if len(jws) > maxSize || len(parts) != 3 {
		return Proof{}, errors.New("this is not a receipt: a JWS has three parts, separated by dots")
	}
	var h header
	if err := decode(parts[0], "header", &h); err != nil {
		return Proof{}, err
	}
	if h.Algorithm != algorithm {
		return Proof{}, fmt.Errorf("the receipt is signed by %q, and only %s is taken", h.Algorithm, algorithm)
	}
	key, err := d.key(h.KeyID)
	if err != nil {
		return Proof{}, err
	}
	signature, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if err != nil || !ed25519.Verify(key, []byte(parts[0]+"."+parts[1]), signature) {
		return Proof{}, errors.New("the signature is not by the key " + h.KeyID)
	}
	p := Proof{Signer: d.ID, KeyID: h.KeyID}
	if err := decode(parts[1], "payload", &p.Claims); err != nil {
		return Proof{}, err
	}
	return p, p.check()
}

// check refuses what a key of the service may have signed, and is no receipt of it.
func (p Proof) check() error {
	if p.Version != version {
		return fmt.Errorf("the receipt is of version %d, and only %d is known", p.Version, version)
	}
	if p.Outcome != Delivered && p.Outcome != Refunded {
		return fmt.Errorf("the receipt has the outcome %q, which is unknown", p.Outcome)
	}
	if (p.Outcome == Refunded) != (p.RefundTransaction != "") {
		return errors.New("the receipt names a refund, or none, against its outcome")
	}
	if host, err := hostOf(p.ResourceURL); err != nil || host != p.Signer {
		return fmt.Errorf("%s may not sign for %s", p.Signer, p.ResourceURL)
	}
	return nil
}

// hostOf is the did:web of the host of a URL.
func hostOf(resource string) (string, error) {
	scheme, rest, found := strings.Cut(resource, "://")
	if !found {
		return "", fmt.Errorf("%q is not a URL", resource)
	}
	host, _, _ := strings.Cut(rest, "/")
	return DID(scheme + "://" + host)
}

// decode reads a part of a JWS, which has to be as canonical writes it.
func decode(part, name string, into any) error {
	text, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return fmt.Errorf("the %s of the receipt is not base64url", name)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("the %s of the receipt is not one of version %d: %s", name, version,
			strings.TrimPrefix(err.Error(), "json: "))
	}
	again, err := canonical(into)
	if err != nil || !bytes.Equal(again, text) {
		return fmt.Errorf("the %s of the receipt is not canonical: a member is twice, or not in its place", name)
	}
	return nil
}
