package receipt

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// The kind of key by its names in a JWK (RFC 8037) and in a DID document.
const (
	curve      = "Ed25519"
	keyType    = "OKP"
	methodType = "JsonWebKey2020"
)

// document is a DID document, as far as receipts need it.
type document struct {
	Context         []string `json:"@context,omitempty"`
	ID              string   `json:"id"`
	Methods         []method `json:"verificationMethod"`
	AssertionMethod []string `json:"assertionMethod"`
}

type method struct {
	ID         string `json:"id"`
	Type       string `json:"type"`
	Controller string `json:"controller"`
	Key        jwk    `json:"publicKeyJwk"`
}

type jwk struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	Algorithm string `json:"alg,omitempty"`
	KeyID     string `json:"kid,omitempty"`
}

// Document is the DID document with all keys of the signer, in JSON.
func (s *Signer) Document() ([]byte, error) {
	d := document{
		Context: []string{"https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/jws-2020/v1"}, ID: s.did,
	}
	for _, key := range s.keys {
		public := publicKey(key)
		id := keyID(public)
		d.AssertionMethod = append(d.AssertionMethod, s.did+"#"+id)
		d.Methods = append(d.Methods, method{
			ID: s.did + "#" + id, Type: methodType, Controller: s.did,
			Key: jwk{Type: keyType, Curve: curve, X: encodeKey(public), Algorithm: algorithm, KeyID: id},
		})
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(d)
	return b.Bytes(), err
}

// key is the key of a document that a JWS names, if it may sign what the document's subject asserts.
func (d document) key(id string) (ed25519.PublicKey, error) {
	at := slices.IndexFunc(d.Methods, func(m method) bool { return m.ID == id })
	switch {
	case at < 0:
		return nil, fmt.Errorf("the DID document of %s has no key %s", d.ID, id)
	case d.Methods[at].Controller != d.ID, !slices.Contains(d.AssertionMethod, id):
		return nil, fmt.Errorf("the key %s may not sign for %s", id, d.ID)
	}
	k := d.Methods[at].Key
	raw, err := base64.RawURLEncoding.Strict().DecodeString(k.X)
	if err != nil || k.Type != keyType || k.Curve != curve || len(raw) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("the key %s is not a key of Ed25519", id)
	}
	return raw, nil
}

// parseDocument reads a DID document; its other members are left out.
func parseDocument(text []byte) (d document, err error) {
	if err := json.Unmarshal(text, &d); err != nil || d.ID == "" {
		return document{}, errors.New("this is not a DID document with keys of this kind")
	}
	return d, nil
}
