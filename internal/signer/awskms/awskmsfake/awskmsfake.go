// Package awskmsfake is the part of AWS KMS that signs: CreateKey, GetPublicKey and Sign over its JSON protocol, with
// faults. Its signatures are in DER, and every other one has s in the upper half, as those of KMS may. It shares
// nothing with the adapter that is tested against it.
package awskmsfake

import (
	"crypto/ecdsa"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"sync"

	"github.com/ethereum/go-ethereum/crypto"
)

// Fault is one way in which it misbehaves.
type Fault int

// The faults.
const (
	// None signs as it should.
	None Fault = iota
	// Hang takes a request and does not answer before its caller leaves.
	Hang
	// Fail answers with an internal error.
	Fail
	// Flood answers without end.
	Flood
	// Lie signs with a key of nobody.
	Lie
	// Garble answers with what is no signature in DER.
	Garble
	// Replay answers with the last signature that it gave.
	Replay
)

// KMS is the server. It is an http.Handler, and safe for concurrent use.
type KMS struct {
	mu    sync.Mutex
	keys  map[string]*ecdsa.PrivateKey
	fault Fault
	last  []byte
	signs int
}

// New makes one without keys.
func New() *KMS { return &KMS{keys: map[string]*ecdsa.PrivateKey{}} }

// Put gives it a key under an id.
func (k *KMS) Put(id string, key *ecdsa.PrivateKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys[id] = key
}

// Misbehave lets it do so until it is told otherwise.
func (k *KMS) Misbehave(f Fault) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fault = f
}

// request has the members of the calls that it knows.
type request struct {
	KeyID            string `json:"KeyId"`
	Message          []byte
	MessageType      string
	SigningAlgorithm string
}

// ServeHTTP implements http.Handler.
func (k *KMS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	fault := k.fault
	k.mu.Unlock()
	switch fault {
	case Hang:
		_, _ = io.Copy(io.Discard, r.Body) // a server notices that its caller has gone once it has read the body
		<-r.Context().Done()
		return
	case Fail:
		refuse(w, http.StatusInternalServerError, "KMSInternalException")
		return
	case Flood:
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		for {
			if _, err := w.Write([]byte(strings.Repeat(" ", 64<<10))); err != nil {
				return
			}
		}
	case None, Lie, Garble, Replay:
	}
	if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ") {
		refuse(w, http.StatusBadRequest, "MissingAuthenticationTokenException")
		return
	}
	var in request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&in); err != nil {
		refuse(w, http.StatusBadRequest, "SerializationException")
		return
	}
	k.mu.Lock()
	key, known := k.keys[in.KeyID]
	k.mu.Unlock()
	if !known {
		refuse(w, http.StatusBadRequest, "NotFoundException")
		return
	}
	switch r.Header.Get("X-Amz-Target") {
	case "TrentService.GetPublicKey":
		k.publicKey(w, in, key)
	case "TrentService.Sign":
		k.sign(w, in, key, fault)
	default:
		refuse(w, http.StatusBadRequest, "UnknownOperationException")
	}
}

func (k *KMS) publicKey(w http.ResponseWriter, in request, key *ecdsa.PrivateKey) {
	curve, err := asn1.Marshal(asn1.ObjectIdentifier{1, 3, 132, 0, 10})
	var der []byte
	if err == nil {
		der, err = asn1.Marshal(struct {
			Algorithm pkix.AlgorithmIdentifier
			Key       asn1.BitString
		}{
			pkix.AlgorithmIdentifier{
				Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}, Parameters: asn1.RawValue{FullBytes: curve},
			},
			asn1.BitString{Bytes: crypto.FromECDSAPub(&key.PublicKey), BitLength: 65 * 8},
		})
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, "KMSInternalException")
		return
	}
	answer(w, http.StatusOK, map[string]any{
		"KeyId": in.KeyID, "PublicKey": der, "KeySpec": "ECC_SECG_P256K1", "CustomerMasterKeySpec": "ECC_SECG_P256K1",
		"KeyUsage": "SIGN_VERIFY", "SigningAlgorithms": []string{"ECDSA_SHA_256"},
	})
}

func (k *KMS) sign(w http.ResponseWriter, in request, key *ecdsa.PrivateKey, fault Fault) {
	if in.MessageType != "DIGEST" || in.SigningAlgorithm != "ECDSA_SHA_256" || len(in.Message) != 32 {
		refuse(w, http.StatusBadRequest, "ValidationException")
		return
	}
	var err error
	if fault == Lie {
		key, err = crypto.GenerateKey()
	}
	var raw []byte
	if err == nil {
		raw, err = crypto.Sign(in.Message, key)
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, "KMSInternalException")
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.signs++
	r, s := new(big.Int).SetBytes(raw[:32]), new(big.Int).SetBytes(raw[32:64])
	if k.signs%2 == 0 {
		s.Sub(crypto.S256().Params().N, s)
	}
	der, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
	if err != nil {
		refuse(w, http.StatusInternalServerError, "KMSInternalException")
		return
	}
	if fault == Replay && k.last != nil {
		der = k.last
	}
	k.last = der
	if fault == Garble {
		der = der[:len(der)/2]
	}
	answer(w, http.StatusOK, map[string]any{"KeyId": in.KeyID, "Signature": der, "SigningAlgorithm": "ECDSA_SHA_256"})
}

func refuse(w http.ResponseWriter, status int, kind string) {
	answer(w, status, map[string]any{"__type": kind, "message": fmt.Sprintf("the fake answers %s", kind)})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a caller that has gone needs no answer
}
