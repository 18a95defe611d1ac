// Package smartaccounttest makes smart accounts of a development chain, and signs as they do.
package smartaccounttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"math/big"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/x402"
)

// Factory is a factory of Coinbase's wallet, and Implementation what its accounts run: version 1.1.
var (
	Factory        = common.HexToAddress("0xBA5ED110eFDBa3D005bfC882d75358ACBbB85842")
	Implementation = common.HexToAddress("0x00000110dCdEdC9581cb5eCB8467282f2926534d")
)

// wallet is the part of the ABI that is used, of the factory and of the accounts.
var wallet = parse(`[
	{"type":"function","name":"createAccount","inputs":[
		{"name":"owners","type":"bytes[]"},{"name":"nonce","type":"uint256"}]},
	{"type":"function","name":"addOwnerAddress","inputs":[{"name":"owner","type":"address"}]},
	{"type":"function","name":"removeOwnerAtIndex","inputs":[
		{"name":"index","type":"uint256"},{"name":"owner","type":"bytes"}]},
	{"type":"function","name":"salt","inputs":[{"name":"owners","type":"bytes[]"},{"name":"nonce","type":"uint256"}]},
	{"type":"function","name":"creation","inputs":[
		{"name":"factory","type":"address"},{"name":"call","type":"bytes"},{"name":"signature","type":"bytes"}]},
	{"type":"function","name":"wrapper","inputs":[{"name":"w","type":"tuple","components":[
		{"name":"ownerIndex","type":"uint256"},{"name":"signatureData","type":"bytes"}]}]},
	{"type":"function","name":"assertion","inputs":[{"name":"a","type":"tuple","components":[
		{"name":"authenticatorData","type":"bytes"},{"name":"clientDataJSON","type":"string"},
		{"name":"challengeIndex","type":"uint256"},{"name":"typeIndex","type":"uint256"},
		{"name":"r","type":"uint256"},{"name":"s","type":"uint256"}]}]}
]`)

func parse(text string) abi.ABI {
	parsed, err := abi.JSON(strings.NewReader(text))
	if err != nil {
		panic(err) // a constant
	}
	return parsed
}

// pack is the call of a function.
func pack(name string, args ...any) []byte {
	call, err := wallet.Pack(name, args...)
	if err != nil {
		panic(err) // the types are constant
	}
	return call
}

// Owner signs a digest in the form that the account takes of it.
type Owner interface {
	// Bytes name the owner: 32 of an address, 64 of a passkey.
	Bytes() []byte
	Sign(digest x402.Hash) []byte
}

// Key is an owner that is an account without code.
type Key struct{ Private *ecdsa.PrivateKey }

// Bytes implements Owner.
func (k Key) Bytes() []byte {
	return common.LeftPadBytes(crypto.PubkeyToAddress(k.Private.PublicKey).Bytes(), 32)
}

// Sign implements Owner.
func (k Key) Sign(digest x402.Hash) []byte {
	s, err := crypto.Sign(digest[:], k.Private)
	if err != nil {
		panic(err) // a digest has 32 bytes
	}
	s[64] += 27
	return s
}

// Assertion is what a passkey signs with.
type Assertion struct {
	AuthenticatorData         []byte
	ClientDataJSON            string
	ChallengeIndex, TypeIndex *big.Int
	R, S                      *big.Int
}

// Passkey is an owner that is a passkey.
type Passkey struct {
	Private *ecdsa.PrivateKey
	// Spoil changes what is signed, and Change what was signed; nil changes nothing.
	Spoil, Change func(*Assertion)
}

// NewPasskey makes a passkey.
func NewPasskey() Passkey {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // there is randomness
	}
	return Passkey{Private: private}
}

// Bytes implements Owner.
func (p Passkey) Bytes() []byte {
	raw, err := p.Private.PublicKey.Bytes()
	if err != nil {
		panic(err) // it was made here
	}
	return raw[1:]
}

// Sign implements Owner, as a phone does.
func (p Passkey) Sign(digest x402.Hash) []byte {
	party := sha256.Sum256([]byte("keys.coinbase.com"))
	client := `{"type":"webauthn.get","challenge":"` + base64.RawURLEncoding.EncodeToString(digest[:]) +
		`","origin":"https://keys.coinbase.com"}`
	a := Assertion{
		AuthenticatorData: append(party[:], 0x05, 0, 0, 0, 0), ClientDataJSON: client,
		ChallengeIndex: big.NewInt(23), TypeIndex: big.NewInt(1),
	}
	if p.Spoil != nil {
		p.Spoil(&a)
	}
	hashed := sha256.Sum256([]byte(a.ClientDataJSON))
	signed := sha256.Sum256(slices.Concat(a.AuthenticatorData, hashed[:]))
	var err error
	if a.R, a.S, err = ecdsa.Sign(rand.Reader, p.Private, signed[:]); err != nil {
		panic(err) // there is randomness
	}
	n := elliptic.P256().Params().N
	if a.S.Cmp(new(big.Int).Rsh(n, 1)) > 0 {
		a.S.Sub(n, a.S)
	}
	if p.Change != nil {
		p.Change(&a)
	}
	return pack("assertion", a)[4:]
}

// Account is a smart account with its first owners, of Coinbase's wallet.
type Account struct {
	ChainID uint64
	Address x402.Address
	Owners  []Owner
	nonce   int64
}

// New is the account that the factory makes of owners; CreateCall makes it.
func New(chainID uint64, nonce int64, owners ...Owner) Account {
	a := Account{ChainID: chainID, Owners: owners, nonce: nonce}
	salt := crypto.Keccak256Hash(pack("salt", a.ownerBytes(), big.NewInt(nonce))[4:])
	code := slices.Concat(common.FromHex("603d3d8160223d3973"), Implementation[:], common.FromHex("60095155f3"+
		"363d3d373d3d363d7f360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc"+
		"545af43d6000803e6038573d6000fd5b3d6000f3"))
	a.Address = x402.Address(crypto.CreateAddress2(Factory, salt, crypto.Keccak256(code)))
	return a
}

func (a Account) ownerBytes() [][]byte {
	all := make([][]byte, len(a.Owners))
	for i, o := range a.Owners {
		all[i] = o.Bytes()
	}
	return all
}

// CreateCall is the factory's call that makes the account.
func (a Account) CreateCall() []byte {
	return pack("createAccount", a.ownerBytes(), big.NewInt(a.nonce))
}

// RemoveCall is the account's call, by an owner, that removes the owner at an index.
func (a Account) RemoveCall(index int) []byte {
	return pack("removeOwnerAtIndex", big.NewInt(int64(index)), a.Owners[index].Bytes())
}

// AddCall is the account's call, by an owner, that adds an address as owner, at the next index.
func (a Account) AddCall(owner common.Address) []byte { return pack("addOwnerAddress", owner) }

// Digest is what an owner signs for the account.
func (a Account) Digest(digest x402.Hash) x402.Hash {
	domain := crypto.Keccak256(
		crypto.Keccak256([]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")),
		crypto.Keccak256([]byte("Coinbase Smart Wallet")), crypto.Keccak256([]byte("1")),
		common.BigToHash(new(big.Int).SetUint64(a.ChainID)).Bytes(), common.LeftPadBytes(a.Address[:], 32))
	message := crypto.Keccak256(crypto.Keccak256([]byte("CoinbaseSmartWalletMessage(bytes32 hash)")), digest[:])
	return x402.Hash(crypto.Keccak256([]byte{0x19, 0x01}, domain, message))
}

// Sign is the account's signature of a digest by the owner at an index.
func (a Account) Sign(index int, digest x402.Hash) x402.Signature {
	return Wrap(int64(index), a.Owners[index].Sign(a.Digest(digest)))
}

// SignUndeployed is the signature of an account that has no code yet, as wallets make it (ERC-6492).
func (a Account) SignUndeployed(index int, digest x402.Hash) x402.Signature {
	return MadeBy(Factory, a.CreateCall(), a.Sign(index, digest))
}

// MadeBy is a signature of an account that a factory's call makes (ERC-6492).
func MadeBy(factory common.Address, call []byte, s x402.Signature) x402.Signature {
	const mark = "\x64\x92"
	return x402.Signature(pack("creation", factory, call, []byte(s))[4:]) + x402.Signature(strings.Repeat(mark, 16))
}

// Wrap is the form in which an account takes an owner's signature.
func Wrap(index int64, signature []byte) x402.Signature {
	wrapped := pack("wrapper", struct {
		OwnerIndex    *big.Int
		SignatureData []byte
	}{big.NewInt(index), signature})
	return x402.Signature(wrapped[4:])
}
