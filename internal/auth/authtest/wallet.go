package authtest

import (
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/x402"
)

// Wallet is an externally owned account that signs as wallets do.
type Wallet struct {
	t   testing.TB
	key *ecdsa.PrivateKey
}

// NewWallet makes the wallet of a name. The same name gives the same account.
func NewWallet(t testing.TB, name string) Wallet {
	t.Helper()
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte("wallet of " + name)))
	if err != nil {
		t.Fatalf("make wallet: %v", err)
	}
	return Wallet{t, key}
}

// Address is the wallet's account.
func (w Wallet) Address() x402.Address {
	return x402.Address(crypto.PubkeyToAddress(w.key.PublicKey))
}

// Key is the private key, for whoever signs payments with the same account.
func (w Wallet) Key() *ecdsa.PrivateKey { return w.key }

// SignText signs a text with personal_sign.
func (w Wallet) SignText(text string) string {
	w.t.Helper()
	return w.SignDigest(handshake.PersonalDigest(text))
}

// SignTyped signs typed data with eth_signTypedData_v4, from its JSON and by go-ethereum's own
// reading of the standard.
func (w Wallet) SignTyped(document auth.TypedData) string {
	w.t.Helper()
	return w.SignDigest(TypedDigest(w.t, document))
}

// Sign signs a challenge as it asks to be signed.
func (w Wallet) Sign(c auth.Challenge, document auth.TypedData) string {
	w.t.Helper()
	if c.Scheme == auth.EIP712 {
		return w.SignTyped(document)
	}
	return w.SignText(c.Message)
}

// SignDigest signs 32 bytes; v is 27 or 28.
func (w Wallet) SignDigest(digest [32]byte) string {
	w.t.Helper()
	sig, err := crypto.Sign(digest[:], w.key)
	if err != nil {
		w.t.Fatalf("sign: %v", err)
	}
	sig[64] += 27
	return "0x" + hex.EncodeToString(sig)
}

// TypedDigest is the EIP-712 digest of a document by go-ethereum, not by package auth.
func TypedDigest(t testing.TB, document auth.TypedData) [32]byte {
	t.Helper()
	body, err := json.Marshal(document)
	if err != nil {
		t.Fatalf("encode typed data: %v", err)
	}
	var typed apitypes.TypedData
	if err := json.Unmarshal(body, &typed); err != nil {
		t.Fatalf("read typed data: %v", err)
	}
	digest, _, err := apitypes.TypedDataAndHash(typed)
	if err != nil {
		t.Fatalf("hash typed data: %v", err)
	}
	return [32]byte(digest)
}
