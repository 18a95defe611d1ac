package x402

import (
	"bytes"
	"encoding/hex"
	"log/slog"
)

// factorySuffix ends an ERC-6492 signature, which asks the verifier to call a contract of the
// payer's choosing. It is recognised to be refused, never to be obeyed.
var factorySuffix = bytes.Repeat([]byte{0x64, 0x92}, 16)

// The order of secp256k1 and its half, big-endian.
var (
	curveOrder = []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe" +
		"\xba\xae\xdc\xe6\xaf\x48\xa0\x3b\xbf\xd2\x5e\x8c\xd0\x36\x41\x41")
	halfCurveOrder = []byte("\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
		"\x5d\x57\x6e\x73\x57\xa4\x50\x1d\xdf\xe9\x2f\x46\x68\x1b\x20\xa0")
)

// ParseSignature reads the one form that the token takes of an account without code: r, s in the
// lower half, v, as 65 bytes in hex. A v of 0 or 1 becomes 27 or 28. Text that is not hex is
// malformed; every other form is rejected for its own reason, and those of contracts as a *PayerKindError.
func ParseSignature(text string) (Signature, error) {
	if len(text) < 2 || text[:2] != "0x" {
		return Signature{}, malformed("payload.signature is not 0x and hex")
	}
	raw, err := hex.DecodeString(text[2:])
	if err != nil {
		return Signature{}, malformed("payload.signature is not 0x and hex")
	}
	switch {
	case bytes.HasSuffix(raw, factorySuffix):
		return Signature{}, &PayerKindError{RejectedError{ReasonFactory,
			"Payments from contract wallets that are not deployed (ERC-6492) are not accepted. Pay from an account without " +
				"code."}}
	case len(raw) == 64:
		return Signature{},
			&RejectedError{ReasonSignatureForm, "compact signatures (EIP-2098) are not accepted; send r, s and v as 65 bytes"}
	case len(raw) > 65:
		return Signature{}, &PayerKindError{RejectedError{ReasonSignatureForm,
			"Payments from contract wallets (ERC-1271) are not accepted: a signature is 65 bytes. Pay from an account " +
				"without code."}}
	case len(raw) < 65:
		return Signature{}, &RejectedError{ReasonSignatureForm, "the signature is shorter than 65 bytes"}
	}
	s := Signature(raw)
	if s[64] < 2 {
		s[64] += 27
	}
	if err := s.Check(); err != nil {
		return Signature{}, err
	}
	return s, nil
}

// Check refuses what the token's own ECRecover refuses.
func (s Signature) Check() error {
	zero := make([]byte, 32)
	r, half := s[:32], s[32:64]
	switch {
	case s[64] != 27 && s[64] != 28:
		return &RejectedError{ReasonSignature, "the signature's v is not 27 or 28"}
	case bytes.Equal(r, zero), bytes.Compare(r, curveOrder) >= 0:
		return &RejectedError{ReasonSignature, "the signature's r is out of range"}
	case bytes.Equal(half, zero), bytes.Compare(half, curveOrder) >= 0:
		return &RejectedError{ReasonSignature, "the signature's s is out of range"}
	case bytes.Compare(half, halfCurveOrder) > 0:
		return &RejectedError{ReasonSignature, "the signature's s is in the upper half; USDC takes the lower one only"}
	}
	return nil
}

// Hex is 0x and lower-case hex. It is live money: it belongs in a header, never in a log.
func (s Signature) Hex() string { return "0x" + hex.EncodeToString(s[:]) }

// String hides the signature, so that printing a payment by accident gives nothing away.
func (s Signature) String() string { return "[redacted]" }

// LogValue hides the signature from slog.
func (s Signature) LogValue() slog.Value { return slog.StringValue(s.String()) }
