package smartaccount

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"math/big"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/x402"
)

// assertion is WebAuthnAuth of github.com/base/webauthn-sol: what a passkey signed for a challenge.
type assertion struct {
	AuthenticatorData         []byte
	ClientDataJSON            string
	ChallengeIndex, TypeIndex *big.Int
	R, S                      *big.Int
}

var assertionType = tuple(
	abi.ArgumentMarshaling{Name: "authenticatorData", Type: "bytes"},
	abi.ArgumentMarshaling{Name: "clientDataJSON", Type: "string"},
	abi.ArgumentMarshaling{Name: "challengeIndex", Type: "uint256"},
	abi.ArgumentMarshaling{Name: "typeIndex", Type: "uint256"},
	abi.ArgumentMarshaling{Name: "r", Type: "uint256"},
	abi.ArgumentMarshaling{Name: "s", Type: "uint256"},
)

const (
	// flagsAt is where the authenticator's flags are, behind the hash of the relying party; userPresent is one of them.
	flagsAt     = 32
	userPresent = 0x01
)

// halfP256 is half of the order of P-256, rounded down: as for keys, s is in the lower half.
var halfP256 = new(big.Int).Rsh(elliptic.P256().Params().N, 1)

// byPasskey reports whether a passkey, by its point of 64 bytes, signed a digest as its challenge (WebAuthn), present.
// That is curve.ErrNotSigned else.
func byPasskey(point []byte, digest x402.Hash, signature []byte) error {
	var a assertion
	if !decode(assertionType, signature, &a) || a.S.Cmp(halfP256) > 0 {
		return curve.ErrNotSigned
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, point))
	if err != nil {
		return curve.ErrNotSigned
	}
	challenge := `"challenge":"` + base64.RawURLEncoding.EncodeToString(digest[:]) + `"`
	if !standsAt(a.ClientDataJSON, a.TypeIndex, `"type":"webauthn.get"`) ||
		!standsAt(a.ClientDataJSON, a.ChallengeIndex, challenge) ||
		len(a.AuthenticatorData) <= flagsAt || a.AuthenticatorData[flagsAt]&userPresent == 0 {
		return curve.ErrNotSigned
	}
	client := sha256.Sum256([]byte(a.ClientDataJSON))
	signed := sha256.Sum256(slices.Concat(a.AuthenticatorData, client[:]))
	if !ecdsa.Verify(key, signed[:], a.R, a.S) {
		return curve.ErrNotSigned
	}
	return nil
}

// standsAt reports whether a part stands at an index of a text.
func standsAt(text string, index *big.Int, part string) bool {
	return index.IsInt64() && index.Int64() <= int64(len(text)) && strings.HasPrefix(text[index.Int64():], part)
}
