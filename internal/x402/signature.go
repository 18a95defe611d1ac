package x402

import (
	"bytes"
	"encoding/hex"
	"log/slog"
	"strings"
)

// CreationMark ends an ERC-6492 signature, which asks the verifier to call a contract of the payer's choosing first, so
// that it makes the payer's account. What is called is never what the payer says.
const CreationMark = "\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92" +
	"\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92"

// The order of secp256k1 and its half, big-endian.
const (
	curveOrder = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe" +
		"\xba\xae\xdc\xe6\xaf\x48\xa0\x3b\xbf\xd2\x5e\x8c\xd0\x36\x41\x41"
	halfCurveOrder = "\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
		"\x5d\x57\x6e\x73\x57\xa4\x50\x1d\xdf\xe9\x2f\x46\x68\x1b\x20\xa0"
)

// keySize is the size of a key's signature: r, s and v.
const keySize = 65

// accountMark ends a smart account's signature that has a key's size, so that it is told from a key's.
const accountMark = "\x00"

// MaxContractSignature is how many bytes the signature of a smart account may have. A passkey's has about 700, and with
// the call that makes the account about 1,300.
const MaxContractSignature = 2 << 10

// ParseSignature reads the one form that the token takes of an account without code: r, s in the
// lower half, v, as 65 bytes in hex. A v of 0 or 1 becomes 27 or 28. Text that is not hex is
// malformed; every other form is rejected for its own reason, and those of contracts as a *PayerKindError.
func ParseSignature(text string) (Signature, error) {
	raw, err := parseSignatureHex(text)
	if err != nil {
		return "", err
	}
	switch {
	case strings.HasSuffix(raw, CreationMark):
		return "", &PayerKindError{RejectedError{ReasonFactory,
			"Payments from contract wallets that are not deployed (ERC-6492) are not accepted. Pay from an account without " +
				"code."}}
	case len(raw) == 64:
		return "",
			&RejectedError{ReasonSignatureForm, "compact signatures (EIP-2098) are not accepted; send r, s and v as 65 bytes"}
	case len(raw) > keySize:
		return "", &PayerKindError{RejectedError{ReasonSignatureForm,
			"Payments from contract wallets (ERC-1271) are not accepted: a signature is 65 bytes. Pay from an account " +
				"without code."}}
	case len(raw) < keySize:
		return "", &RejectedError{ReasonSignatureForm, "the signature is shorter than 65 bytes"}
	}
	s := keySignature(raw)
	if err := s.Check(); err != nil {
		return "", err
	}
	return s, nil
}

// ParseAnySignature is ParseSignature that takes the signatures of smart accounts, too: what is longer than a key's is
// read as it is, up to MaxContractSignature, and so is what has another v.
func ParseAnySignature(text string) (Signature, error) {
	raw, err := parseSignatureHex(text)
	switch {
	case err != nil:
		return "", err
	case len(raw) > MaxContractSignature:
		return "", &RejectedError{ReasonSignatureForm, "the signature is longer than any smart account's that pays here"}
	case len(raw) < keySize && len(raw) != 64:
		return "", &RejectedError{ReasonSignatureForm, "the signature is shorter than 65 bytes"}
	case len(raw) > keySize, len(raw) == keySize && raw[keySize-1] > 30:
		return AccountSignature(raw), nil
	}
	return ParseSignature(text)
}

func parseSignatureHex(text string) (string, error) {
	if len(text) < 2 || text[:2] != "0x" {
		return "", malformed("payload.signature is not 0x and hex")
	}
	raw, err := hex.DecodeString(text[2:])
	if err != nil {
		return "", malformed("payload.signature is not 0x and hex")
	}
	return string(raw), nil
}

// keySignature is a key's signature of 65 bytes, whose v may be 0 or 1.
func keySignature(raw string) Signature {
	if v := raw[keySize-1]; v < 2 {
		raw = raw[:keySize-1] + string([]byte{v + 27})
	}
	return Signature(raw)
}

// KeySignature is the signature that a key made: r and s in 64 bytes, and which of the two keys recovers, 0 or 1.
func KeySignature(rs []byte, recovery byte) Signature {
	return Signature(append(bytes.Clone(rs), recovery+27))
}

// AccountSignature is a smart account's signature, of the bytes that its code takes. One owner's of a Safe has the size
// of a key's, and is none.
func AccountSignature(raw string) Signature {
	if len(raw) == keySize {
		raw += accountMark
	}
	return Signature(raw)
}

// OfAccount is the signature as a smart account's: a key's that is not the payer's.
func (s Signature) OfAccount() Signature { return AccountSignature(string(s)) }

// IsKeySized reports that a smart account's signature is as long as a key's.
func (s Signature) IsKeySized() bool { return s.IsOfAccount() && len(s.Bytes()) == keySize }

// Bytes are what the payer sent and its account takes.
func (s Signature) Bytes() []byte {
	if len(s) == keySize+len(accountMark) {
		s = Signature(strings.TrimSuffix(string(s), accountMark))
	}
	return []byte(s)
}

// IsOfKey reports that the signature has the form of a key's.
func (s Signature) IsOfKey() bool { return len(s) == keySize }

// IsOfAccount reports that the signature is a smart account's.
func (s Signature) IsOfAccount() bool { return len(s) > keySize }

// IsOfCreation reports that the signature says how its account is made.
func (s Signature) IsOfCreation() bool { return strings.HasSuffix(string(s), CreationMark) }

// Check refuses what the token's own ECRecover refuses.
func (s Signature) Check() error {
	if !s.IsOfKey() {
		return &RejectedError{ReasonSignatureForm, "the signature is not a key's of 65 bytes"}
	}
	const zero = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	r, half := string(s[:32]), string(s[32:64])
	switch {
	case s[64] != 27 && s[64] != 28:
		return &RejectedError{ReasonSignature, "the signature's v is not 27 or 28"}
	case r == zero, r >= curveOrder:
		return &RejectedError{ReasonSignature, "the signature's r is out of range"}
	case half == zero, half >= curveOrder:
		return &RejectedError{ReasonSignature, "the signature's s is out of range"}
	case half > halfCurveOrder:
		return &RejectedError{ReasonSignature, "the signature's s is in the upper half; USDC takes the lower one only"}
	}
	return nil
}

// Hex is 0x and lower-case hex. It is live money: it belongs in a header, never in a log.
func (s Signature) Hex() string { return "0x" + hex.EncodeToString(s.Bytes()) }

// redacted is shown in place of a signature.
const redacted = "[redacted]"

// String hides the signature, so that printing a payment by accident gives nothing away.
func (s Signature) String() string { return redacted }

// MarshalText hides the signature from encoders.
func (s Signature) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue hides the signature from slog.
func (s Signature) LogValue() slog.Value { return slog.StringValue(redacted) }
