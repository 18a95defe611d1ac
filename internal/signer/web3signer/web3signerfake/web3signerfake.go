// Package web3signerfake is a Web3Signer in the mode eth1, as its OpenAPI document and its source describe it, with
// keys that come and go and with faults. It shares nothing with the adapter that is tested against it.
package web3signerfake

import (
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"slices"
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
	// Fail answers with status 500.
	Fail
	// Flood answers without end.
	Flood
	// Lie signs with a key of nobody.
	Lie
	// Garble answers with a text that is no signature.
	Garble
	// Replay answers with the last signature that it gave.
	Replay
)

// Signer is the server. It is an http.Handler, and safe for concurrent use.
type Signer struct {
	mux *http.ServeMux

	mu    sync.Mutex
	keys  []*ecdsa.PrivateKey
	fault Fault
	last  string
	signs int
}

// New makes one with keys.
func New(keys ...*ecdsa.PrivateKey) *Signer {
	s := &Signer{mux: http.NewServeMux(), keys: keys}
	s.mux.HandleFunc("GET /upcheck", func(w http.ResponseWriter, _ *http.Request) { text(w, "OK") })
	s.mux.HandleFunc("GET /healthcheck", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"status": "UP", "checks": []any{}, "outcome": "UP"})
	})
	s.mux.HandleFunc("POST /reload", func(http.ResponseWriter, *http.Request) {})
	s.mux.HandleFunc("GET /api/v1/eth1/publicKeys", s.list)
	s.mux.HandleFunc("POST /api/v1/eth1/sign/{identifier}", s.sign)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Signer) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Load replaces the keys, as POST /reload does after its files have changed.
func (s *Signer) Load(keys ...*ecdsa.PrivateKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = keys
}

// Misbehave lets it do so until it is told otherwise.
func (s *Signer) Misbehave(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Signatures counts those that were asked for.
func (s *Signer) Signatures() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signs
}

func (s *Signer) now() (fault Fault, keys []*ecdsa.PrivateKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault, slices.Clone(s.keys)
}

func (s *Signer) list(w http.ResponseWriter, r *http.Request) {
	fault, keys := s.now()
	if misbehaves(w, r, fault) {
		return
	}
	all := []string{}
	for _, key := range keys {
		all = append(all, "0x"+hex.EncodeToString(point(key)))
	}
	answer(w, all)
}

// sign signs the Keccak-256 hash of the data. The identifier is a public key, of any case, with 0x or without.
func (s *Signer) sign(w http.ResponseWriter, r *http.Request) {
	fault, keys := s.now()
	if misbehaves(w, r, fault) {
		return
	}
	var body struct {
		Data *string `json:"data"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&body); err != nil || body.Data == nil ||
		r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "Bad Request", http.StatusBadRequest)
		return
	}
	data, err := hex.DecodeString(strings.TrimPrefix(*body.Data, "0x"))
	if err != nil || len(data) == 0 {
		http.Error(w, "Bad Request", http.StatusBadRequest)
		return
	}
	identifier := strings.ToLower(strings.TrimPrefix(r.PathValue("identifier"), "0x"))
	at := slices.IndexFunc(keys, func(key *ecdsa.PrivateKey) bool { return hex.EncodeToString(point(key)) == identifier })
	if at < 0 {
		http.Error(w, "Not Found", http.StatusNotFound)
		return
	}
	key := keys[at]
	if fault == Lie {
		key, err = crypto.GenerateKey()
	}
	var raw []byte
	if err == nil {
		raw, err = crypto.Sign(crypto.Keccak256(data), key)
	}
	if err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	raw[64] += 27
	s.mu.Lock()
	s.signs++
	signature := "0x" + hex.EncodeToString(raw)
	if fault == Replay && s.last != "" {
		signature = s.last
	}
	s.last = signature
	s.mu.Unlock()
	if fault == Garble {
		signature = signature[:100]
	}
	text(w, signature)
}

// misbehaves answers as a fault says. It is false when the request is to be answered.
func misbehaves(w http.ResponseWriter, r *http.Request, fault Fault) bool {
	switch fault {
	case Hang:
		_, _ = io.Copy(io.Discard, r.Body) // a server notices that its caller has gone once it has read the body
		<-r.Context().Done()
	case Fail:
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
	case Flood:
		for {
			if _, err := w.Write([]byte(strings.Repeat("0", 64<<10))); err != nil {
				return true
			}
		}
	case None, Lie, Garble, Replay:
		return false
	}
	return true
}

// point is a public key without its prefix: 64 bytes.
func point(key *ecdsa.PrivateKey) []byte { return crypto.FromECDSAPub(&key.PublicKey)[1:] }

func text(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(body)) // a caller that has gone needs no answer
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // a caller that has gone needs no answer
}
