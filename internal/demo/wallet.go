package demo

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/telemetry"
	"github.com/roamcard/roamcard/internal/x402"
)

// wallet is an externally owned account whose key is at hand.
type wallet struct {
	key     *ecdsa.PrivateKey
	address x402.Address
}

func openWallet(secret telemetry.Secret) (wallet, error) {
	key, err := crypto.HexToECDSA(strings.TrimPrefix(secret.Reveal(), "0x"))
	if err != nil {
		// The library's error may quote the key.
		return wallet{}, errors.New("a wallet's key is not 32 bytes in hex")
	}
	return wallet{key: key, address: x402.Address(crypto.PubkeyToAddress(key.PublicKey))}, nil
}

// signText is personal_sign.
func (w wallet) signText(text string) (string, error) {
	digest := auth.PersonalDigest(text)
	sig, err := crypto.Sign(digest[:], w.key)
	if err != nil {
		return "", fmt.Errorf("sign the message: %w", err)
	}
	const recoveryBase = 27 // what wallets add to v, since Bitcoin
	sig[64] += recoveryBase
	return "0x" + hex.EncodeToString(sig), nil
}

// paymentNonce derives the EIP-3009 nonce of a purchase. The token takes a nonce of a payer once, so
// however often this purchase is signed, even by a client that forgot everything but its key, the
// chain itself refuses to pay for it twice.
func paymentNonce(origin, path string, payer x402.Address, key string) x402.Hash {
	h := sha256.New()
	for _, part := range []string{"v1", origin, path, payer.Lower(), key} {
		// Lengths keep two lists of parts from meeting in one text.
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return x402.Hash(h.Sum(nil))
}
