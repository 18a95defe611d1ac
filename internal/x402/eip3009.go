package x402

import (
	"bytes"
	"encoding/binary"

	"github.com/roamcard/roamcard/internal/money"
)

// The hashes and selectors of EIP-712 and EIP-3009, as FiatTokenV2_2 has them.
var (
	domainTypeHash = Keccak256(
		[]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"))
	transferTypeHash = Keccak256([]byte("TransferWithAuthorization(address from,address to,uint256 value,uint256 " +
		"validAfter,uint256 validBefore,bytes32 nonce)"))

	// TopicTransfer is Transfer(from, to, value), the first two indexed.
	TopicTransfer = Keccak256([]byte("Transfer(address,address,uint256)"))
	// TopicUsed is AuthorizationUsed(authorizer, nonce), both indexed.
	TopicUsed = Keccak256([]byte("AuthorizationUsed(address,bytes32)"))
	// TopicCanceled is AuthorizationCanceled(authorizer, nonce), both indexed.
	TopicCanceled = Keccak256([]byte("AuthorizationCanceled(address,bytes32)"))

	selectorTransfer = selector(
		"transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)")
	selectorTransferBytes = selector("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)")
	selectorState         = selector("authorizationState(address,bytes32)")
	selectorBalance       = selector("balanceOf(address)")
	selectorSeparator     = selector("DOMAIN_SEPARATOR()")
	selectorPaused        = selector("paused()")
	selectorBlacklisted   = selector("isBlacklisted(address)")
)

func selector(signature string) (s [4]byte) {
	hash := Keccak256([]byte(signature))
	copy(s[:], hash[:])
	return s
}

// Separator is the EIP-712 domain separator.
func (d Domain) Separator() Hash {
	var b [5 * 32]byte
	copy(b[0:], domainTypeHash[:])
	name, version := Keccak256([]byte(d.Name)), Keccak256([]byte(d.Version))
	copy(b[32:], name[:])
	copy(b[64:], version[:])
	binary.BigEndian.PutUint64(b[120:], d.ChainID)
	copy(b[140:], d.Contract[:])
	return Keccak256(b[:])
}

// Digest is what a payer signs for an authorization over this domain.
func (d Domain) Digest(a Authorization) Hash { return Digest(d.Separator(), a) }

// Digest is the EIP-712 digest of an authorization under a domain separator.
func Digest(separator Hash, a Authorization) Hash {
	b := SignedMessage(separator, a)
	return Keccak256(b[:])
}

// SignedMessage is what Digest hashes, for signers that hash themselves.
func SignedMessage(separator Hash, a Authorization) (b [66]byte) {
	structHash := StructHash(a)
	b[0], b[1] = 0x19, 0x01
	copy(b[2:], separator[:])
	copy(b[34:], structHash[:])
	return b
}

// StructHash is the EIP-712 hashStruct of an authorization: seven words.
func StructHash(a Authorization) Hash {
	var b [7 * 32]byte
	copy(b[0:], transferTypeHash[:])
	putAuthorization(b[32:], a)
	return Keccak256(b[:])
}

// putAuthorization writes the six words that the typed data and the calls share.
func putAuthorization(b []byte, a Authorization) {
	copy(b[12:], a.From[:])
	copy(b[44:], a.To[:])
	binary.BigEndian.PutUint64(b[88:], uint64(a.Value))
	binary.BigEndian.PutUint64(b[120:], a.ValidAfter)
	binary.BigEndian.PutUint64(b[152:], a.ValidBefore)
	copy(b[160:], a.Nonce[:])
}

// TransferCall is the call data of transferWithAuthorization: with v, r and s, which every USDC has, for a key's
// signature, and with bytes for a smart account's.
func TransferCall(a Authorization, s Signature) []byte {
	if !s.IsOfKey() {
		return TransferBytesCall(a, s.Bytes())
	}
	b := make([]byte, 4+9*32)
	copy(b, selectorTransfer[:])
	putAuthorization(b[4:], a)
	b[4+7*32-1] = s[64]
	copy(b[4+7*32:], s[:64])
	return b
}

// TransferBytesCall is the call data of transferWithAuthorization(…, bytes signature).
func TransferBytesCall(a Authorization, signature []byte) []byte {
	padded := (len(signature) + 31) / 32 * 32
	b := make([]byte, 4+8*32+padded)
	copy(b, selectorTransferBytes[:])
	putAuthorization(b[4:], a)
	binary.BigEndian.PutUint64(b[4+7*32-8:], 7*32)
	binary.BigEndian.PutUint64(b[4+8*32-8:], uint64(len(signature)))
	copy(b[4+8*32:], signature)
	return b
}

// TransferOf reads what TransferCall makes. ok is false for any other call.
func TransferOf(call []byte) (a Authorization, s Signature, ok bool) {
	const head = 4 + 8*32 // of the form with bytes, whose length is the last word; the other one is longer
	if len(call) < head {
		return Authorization{}, "", false
	}
	at := func(word int) []byte { return call[4+32*word:][:32] }
	number := func(word int) uint64 { return binary.BigEndian.Uint64(at(word)[24:]) }
	a = Authorization{
		From: Address(at(0)[12:]), To: Address(at(1)[12:]), Value: money.USDC(number(2)),
		ValidAfter: number(3), ValidBefore: number(4), Nonce: Hash(at(5)),
	}
	switch {
	case [4]byte(call) == selectorTransfer && len(call) == 4+9*32:
		s = KeySignature(call[4+7*32:], at(6)[31]-27)
	case [4]byte(call) == selectorTransferBytes && number(7) <= uint64(len(call)-head):
		s = AccountSignature(string(call[head:][:number(7)]))
	}
	return a, s, bytes.Equal(call, TransferCall(a, s))
}

// StateCall is the call data of authorizationState(authorizer, nonce).
func StateCall(authorizer Address, nonce Hash) []byte {
	b := make([]byte, 4+2*32)
	copy(b, selectorState[:])
	copy(b[16:], authorizer[:])
	copy(b[36:], nonce[:])
	return b
}

// BalanceCall is the call data of balanceOf(account).
func BalanceCall(account Address) []byte {
	b := make([]byte, 4+32)
	copy(b, selectorBalance[:])
	copy(b[16:], account[:])
	return b
}

// SeparatorCall is the call data of DOMAIN_SEPARATOR().
func SeparatorCall() []byte { return selectorSeparator[:] }

// PausedCall is the call data of paused().
func PausedCall() []byte { return selectorPaused[:] }

// BlacklistedCall is the call data of isBlacklisted(account).
func BlacklistedCall(account Address) []byte {
	b := make([]byte, 4+32)
	copy(b, selectorBlacklisted[:])
	copy(b[16:], account[:])
	return b
}

// Word is the address as an ABI word, the form of an indexed event argument.
func (a Address) Word() (w Hash) {
	copy(w[12:], a[:])
	return w
}
