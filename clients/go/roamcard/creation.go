package roamcard

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/roamcard/roamcard/clients/go/internal/curve"
	"github.com/roamcard/roamcard/internal/x402"
)

// The factory of version 1.1 of Coinbase's wallet, and what the accounts that it makes run and are: proxies of the
// implementation. On Base, by script/DeployFactory.s.sol of github.com/coinbase/smart-wallet.
const (
	coinbaseFactory        = "ba5ed110efdba3d005bfc882d75358acbbb85842"
	coinbaseImplementation = "00000110dcdedc9581cb5ecb8467282f2926534d"
	coinbaseProxy          = "603d3d8160223d3973" + coinbaseImplementation + "60095155f3" +
		"363d3d373d3d363d7f360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc" +
		"545af43d6000803e6038573d6000fd5b3d6000f3"
)

// NewUndeployedCoinbaseSmartAccount makes the signer of a Coinbase Smart Wallet, version 1.1, that need not be
// deployed: its first payment does that. Its address follows from the owners, in their order, and the nonce, which is 0
// for the first account of the same owners. Owners are addresses, or the public keys of passkeys, x and y in 64 bytes;
// the signer is one of them, or the only one when none is named. It signs in the same form (ERC-6492) once the account
// is deployed, and the service takes that, too; the signatures of NewCoinbaseSmartAccount are shorter.
func NewUndeployedCoinbaseSmartAccount(owner Signer, nonce uint64, owners ...string) (*CoinbaseSmartAccount, error) {
	key, err := x402.ParseAddress(owner.Address())
	if err != nil {
		return nil, fmt.Errorf("read the owner's address: %w", err)
	}
	if len(owners) == 0 {
		owners = []string{owner.Address()}
	}
	all := make([]string, len(owners))
	for i, text := range owners {
		if all[i], err = parseOwner(text); err != nil {
			return nil, err
		}
		if slices.Contains(all[:i], all[i]) {
			return nil, fmt.Errorf("the owner %s is named twice", text)
		}
	}
	word := key.Word()
	index := slices.Index(all, string(word[:]))
	if index < 0 {
		return nil, fmt.Errorf("the signer %s is none of the owners", key)
	}
	arguments := createArguments(all, nonce)
	s := &CoinbaseSmartAccount{owner: owner, key: key, account: createdBy(arguments), index: uint64(index)}
	s.before, s.after = creationForm(arguments), x402.CreationMark
	if len(s.before)+wrappedBytes+len(s.after) > x402.MaxContractSignature {
		return nil, errors.New("the account has more owners than a signature has room for")
	}
	return s, nil
}

// parseOwner reads an owner as the account's code keeps it: the word of an address, or the 64 bytes of a passkey.
func parseOwner(text string) (string, error) {
	if address, err := x402.ParseAddress(text); err == nil {
		word := address.Word()
		return string(word[:]), nil
	}
	digits, prefixed := strings.CutPrefix(text, "0x")
	raw, err := hex.DecodeString(digits)
	word := len(raw) == wordBytes && strings.Trim(string(raw[:12]), "\x00") == ""
	if err != nil || !prefixed || !word && len(raw) != 2*wordBytes {
		return "", fmt.Errorf("the owner %q is neither an address nor a passkey's public key of 64 bytes", text)
	}
	return string(raw), nil
}

// createdBy is the address of the account that the factory makes by the arguments of createAccount (CREATE2).
func createdBy(arguments []byte) x402.Address {
	salt, code := x402.Keccak256(arguments), x402.Keccak256(unhex(coinbaseProxy))
	made := x402.Keccak256([]byte{0xff}, unhex(coinbaseFactory), salt[:], code[:])
	return x402.Address(made[12:])
}

// createArguments encodes (bytes[] owners, uint256 nonce).
func createArguments(owners []string, nonce uint64) []byte {
	encoded := slices.Concat(abiWord(2*wordBytes), abiWord(nonce), abiWord(uint64(len(owners))))
	var all []byte
	for _, owner := range owners {
		encoded = append(encoded, abiWord(uint64(len(owners)*wordBytes+len(all)))...)
		all = append(all, abiBytes([]byte(owner))...)
	}
	return append(encoded, all...)
}

// creationForm is what comes before an account's own signature where (address factory, bytes call, bytes signature) is
// encoded. The signature has wrappedBytes, which are whole words.
func creationForm(arguments []byte) []byte {
	selector := x402.Keccak256([]byte("createAccount(bytes[],uint256)"))
	call := abiBytes(slices.Concat(selector[:4], arguments))
	factory := x402.Address(unhex(coinbaseFactory)).Word()
	const head = 3 * wordBytes
	return slices.Concat(factory[:], abiWord(head), abiWord(head+uint64(len(call))), call, abiWord(wrappedBytes))
}

// namesCreation reports that a signature says how its account is made (ERC-6492). The error is that it has the mark of
// such a signature, and is none.
func namesCreation(s x402.Signature) (bool, error) {
	text, marked := strings.CutSuffix(string(s), x402.CreationMark)
	if !marked {
		return false, nil
	}
	// The factory's word, and where the call and the signature begin, each with its length.
	const head = 3 * wordBytes
	call, ok := abiLength(text, head)
	if !ok || text[:12] != strings.Repeat("\x00", 12) || text[wordBytes:2*wordBytes] != string(abiWord(head)) {
		return true, curve.ErrNotSigned
	}
	begin := head + call
	inner, ok := abiLength(text, begin)
	if !ok || text[2*wordBytes:head] != string(abiWord(uint64(begin))) || begin+inner != len(text) {
		return true, curve.ErrNotSigned
	}
	return true, nil
}

// abiLength is how many bytes the encoding of bytes takes that begins at a place. ok is false when it goes beyond the
// end.
func abiLength(text string, at int) (n int, ok bool) {
	if at+wordBytes > len(text) || text[at:at+24] != strings.Repeat("\x00", 24) {
		return 0, false
	}
	size := binary.BigEndian.Uint64([]byte(text[at+24 : at+wordBytes]))
	if size > uint64(len(text)) {
		return 0, false
	}
	n = wordBytes + (int(size)+wordBytes-1)/wordBytes*wordBytes
	return n, at+n <= len(text)
}

func abiWord(n uint64) []byte { return binary.BigEndian.AppendUint64(make([]byte, 24, wordBytes), n) }

func abiBytes(data []byte) []byte {
	return slices.Concat(abiWord(uint64(len(data))), data, make([]byte, -len(data)&(wordBytes-1)))
}

// unhex reads the constants of this file.
func unhex(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return b
}
