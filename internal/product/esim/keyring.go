package esim

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/secret"
)

// Sealed is activation data at rest: AES-256-GCM under the named key, bound to its order.
type Sealed struct {
	// Key is the id of the encryption key; empty when there is no data.
	Key string
	// Box is the nonce and the ciphertext.
	Box []byte
}

// Keyring encrypts with its first key and decrypts with any of them.
type Keyring struct {
	first string
	keys  map[string]cipher.AEAD
}

// ParseKeyring reads id:hex pairs separated by commas; each key has 32 bytes. No error quotes a key.
func ParseKeyring(text secret.Text) (Keyring, error) {
	k := Keyring{keys: map[string]cipher.AEAD{}}
	for part := range strings.SplitSeq(text.Reveal(), ",") {
		id, digits, _ := strings.Cut(strings.TrimSpace(part), ":")
		key, err := hex.DecodeString(digits)
		if err != nil || len(key) != 32 || !isKeyID(id) {
			return Keyring{}, errors.New("must be id:key pairs separated by commas, the id of 1 to 32 letters, digits, - and " +
				"_, the key 32 bytes in hex")
		}
		if _, twice := k.keys[id]; twice {
			return Keyring{}, fmt.Errorf("the key %s is named twice", id)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return Keyring{}, fmt.Errorf("make the cipher: %w", err)
		}
		if k.keys[id], err = cipher.NewGCM(block); err != nil {
			return Keyring{}, fmt.Errorf("make the cipher: %w", err)
		}
		if k.first == "" {
			k.first = id
		}
	}
	return k, nil
}

func isKeyID(s string) bool {
	return s != "" && len(s) <= 32 &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// IDs are the ids of its keys, sorted.
func (k Keyring) IDs() []string { return slices.Sorted(maps.Keys(k.keys)) }

// Current is the id of the key that encrypts.
func (k Keyring) Current() string { return k.first }

// plain is the plaintext of sealed activation data.
type plain struct {
	ICCID       string `json:"iccid"`
	SMDPAddress string `json:"smdp"`
	MatchingID  string `json:"matching"`
	OID         string `json:"oid,omitempty"`
}

// Seal encrypts an order's activation data with the first key.
func (k Keyring) Seal(id order.ID, m ActivationData) (Sealed, error) {
	text, err := json.Marshal(plain{m.ICCID.Reveal(), m.SMDPAddress.Reveal(), m.MatchingID.Reveal(), m.OID.Reveal()})
	if err != nil {
		return Sealed{}, fmt.Errorf("encode the activation data: %w", err)
	}
	defer clear(text)
	aead := k.keys[k.first]
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(text)+aead.Overhead())
	_, _ = rand.Read(nonce) // never fails: the program ends when there is no randomness
	return Sealed{Key: k.first, Box: aead.Seal(nonce, nonce, text, bound(id, k.first))}, nil
}

// Open decrypts an order's activation data.
func (k Keyring) Open(id order.ID, s Sealed) (ActivationData, error) {
	aead, ok := k.keys[s.Key]
	if !ok {
		return ActivationData{}, fmt.Errorf("decrypt the activation data of %s: there is no key %q", id, s.Key)
	}
	if len(s.Box) < aead.NonceSize() {
		return ActivationData{}, fmt.Errorf("decrypt the activation data of %s: %d bytes", id, len(s.Box))
	}
	text, err := aead.Open(nil, s.Box[:aead.NonceSize()], s.Box[aead.NonceSize():], bound(id, s.Key))
	if err != nil {
		return ActivationData{}, fmt.Errorf("decrypt the activation data of %s with the key %s: %w", id, s.Key, err)
	}
	defer clear(text)
	var p plain
	if err := json.Unmarshal(text, &p); err != nil {
		// The decoder's own error would quote the activation data.
		return ActivationData{}, fmt.Errorf("decode the activation data of %s: not what was encrypted", id)
	}
	return ActivationData{
		ICCID: secret.New(p.ICCID), SMDPAddress: secret.New(p.SMDPAddress), MatchingID: secret.New(p.MatchingID),
		OID: secret.New(p.OID),
	}, nil
}

// bound is the additional data that binds a box to its order and key.
func bound(id order.ID, key string) []byte {
	return []byte("roamcard esim material v1\n" + string(id) + "\n" + key)
}
