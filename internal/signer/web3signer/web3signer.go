// Package web3signer signs with a key that a Web3Signer keeps, by its HTTP API in the mode eth1. It is payment.Signer.
//
// The API has two ways to sign. POST /api/v1/eth1/sign/{public key} signs the Keccak-256 hash of the data that it is
// given, without a prefix: of an unsigned transaction and of typed data alike. The JSON-RPC calls eth_signTransaction
// and eth_signTypedData need a downstream node in the Web3Signer's configuration, and answer with forms that would have
// to be taken apart again. So the first is used for both. It names keys by their public keys, not by their accounts.
package web3signer

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// maxKeys and maxSignature bound the answers: some thousand public keys, and one signature.
	maxKeys, maxSignature = 1 << 20, 1 << 10
	signatureLength       = 65
)

// ErrNoKey says that the Web3Signer answers and does not have the account's key.
var ErrNoKey = errors.New("the Web3Signer has no key of this account")

// Signer signs for one account.
type Signer struct {
	base    *url.URL
	address x402.Address
	http    *http.Client

	mu sync.Mutex
	// key is the account's public key as the Web3Signer names it; empty until it was asked for.
	key string
}

// New makes a signer. It asks nothing yet. Whoever reaches a Web3Signer can sign with it, so the rule is not that of a
// sandbox.
func New(base string, account x402.Address, rule outward.Rule) (*Signer, error) {
	origin, err := rule.Origin(base)
	if err != nil {
		return nil, err
	}
	return &Signer{base: origin, address: account, http: outward.New(outward.Config{Rule: rule})}, nil
}

// Address is the account.
func (s *Signer) Address() x402.Address { return s.address }

// IsLocal says that another machine has the key.
func (s *Signer) IsLocal() bool { return false }

// Sign signs the Keccak-256 hash of a message.
func (s *Signer) Sign(ctx context.Context, message []byte) (x402.Signature, error) {
	key, err := s.publicKey(ctx)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]string{"data": "0x" + hex.EncodeToString(message)})
	if err != nil {
		return "", fmt.Errorf("encode the request: %w", err)
	}
	answer, err := s.call(ctx, http.MethodPost, "/api/v1/eth1/sign/"+key, body, maxSignature)
	if errors.Is(err, ErrNoKey) {
		s.mu.Lock()
		s.key = "" // its keys were loaded again, so the next call looks
		s.mu.Unlock()
	}
	if err != nil {
		return "", err
	}
	raw, err := hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(answer)), "0x"))
	if err != nil || len(raw) != signatureLength {
		return "", errors.New("the Web3Signer's answer is not a signature of 65 bytes")
	}
	r, half := new(big.Int).SetBytes(raw[:32]), new(big.Int).SetBytes(raw[32:64])
	return curve.Complete(x402.Keccak256(message), r, half, s.address)
}

// publicKey finds the account among the keys that the Web3Signer has.
func (s *Signer) publicKey(ctx context.Context) (string, error) {
	s.mu.Lock()
	key := s.key
	s.mu.Unlock()
	if key != "" {
		return key, nil
	}
	answer, err := s.call(ctx, http.MethodGet, "/api/v1/eth1/publicKeys", nil, maxKeys)
	if err != nil {
		return "", err
	}
	var all []string
	if err := json.Unmarshal(answer, &all); err != nil {
		return "", errors.New("the Web3Signer's list of keys is not a list of texts")
	}
	for _, text := range all {
		raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
		if err != nil {
			continue
		}
		if account, err := curve.AddressOfPoint(raw); err == nil && account == s.address {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.key = text
			return text, nil
		}
	}
	return "", ErrNoKey
}

// call makes one call. Its errors quote no answer.
func (s *Signer) call(ctx context.Context, method, path string, body []byte, most int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the Web3Signer: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the Web3Signer: %w", outward.Cause(err))
	}
	defer func() { _ = res.Body.Close() }() // only read
	answer, err := outward.Read(res.Body, most)
	switch {
	case res.StatusCode == http.StatusNotFound && method == http.MethodPost:
		return nil, ErrNoKey
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the Web3Signer answers with status %d", res.StatusCode)
	case err != nil:
		return nil, fmt.Errorf("read the Web3Signer's answer: %w", err)
	}
	return answer, nil
}
