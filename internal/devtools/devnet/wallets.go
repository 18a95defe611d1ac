package devnet

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/crypto"
)

// Mnemonic is the phrase every development chain uses. Its keys are public: the chain here has the real chain's id and
// token address, so what they sign is valid on the real Base too. They must never hold money.
const Mnemonic = "test test test test test test test test test test test junk"

// Role is what a wallet of the development chain is for.
type Role string

// The roles, and how many wallets play each, in the order of the mnemonic's accounts.
const (
	RoleBuyer    Role = "buyer"    // pays: 10,000 USDC and ether; accounts 0 to 19
	RoleRelayer  Role = "relayer"  // sends settlement transactions: ether only; accounts 20 to 22
	RolePayee    Role = "payee"    // is paid: starts with nothing; account 23
	RoleTreasury Role = "treasury" // refunds: 100,000 USDC and ether; account 24
	RoleOperator Role = "operator" // signs in as an operator: ether only; account 25
	RoleAdmin    Role = "admin"    // mints, pauses and blacklists the token: ether only; account 26
)

// Wallet is one publicly known key and what it is given on a fresh chain.
type Wallet struct {
	Role       Role
	Address    string // EIP-55 checksummed
	PrivateKey string // 32 bytes in hex with 0x
	USDC       int64  // millionths of a dollar
	Wei        *big.Int
}

// Wallets returns all wallets of the development chain; the role of each index never changes.
func Wallets() []Wallet { return slices.Clone(wallets()) }

// wallets derives them once: each takes two multiplications on the curve.
var wallets = sync.OnceValue(func() (all []Wallet) {
	const dollars = 1_000_000
	ether := new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil)
	thousand := new(big.Int).Mul(ether, big.NewInt(1000))
	plan := []struct {
		role  Role
		count int
		usdc  int64
		wei   *big.Int
	}{
		{RoleBuyer, 20, 10_000 * dollars, thousand},
		{RoleRelayer, 3, 0, thousand},
		{RolePayee, 1, 0, new(big.Int)},
		{RoleTreasury, 1, 100_000 * dollars, thousand},
		{RoleOperator, 1, 0, thousand},
		{RoleAdmin, 1, 0, thousand},
	}
	parent := accountsKey()
	for _, p := range plan {
		for range p.count {
			key := parent.child(uint32(len(all))).key
			all = append(all, Wallet{
				Role:       p.role,
				Address:    crypto.PubkeyToAddress(crypto.ToECDSAUnsafe(key).PublicKey).Hex(),
				PrivateKey: fmt.Sprintf("0x%x", key),
				USDC:       p.usdc,
				Wei:        p.wei,
			})
		}
	}
	return all
})

// WalletsOf returns the wallets that play the role, in order.
func WalletsOf(role Role) []Wallet {
	var found []Wallet
	for _, w := range Wallets() {
		if w.Role == role {
			found = append(found, w)
		}
	}
	return found
}

// extendedKey is a BIP-32 private key with its chain code.
type extendedKey struct{ key, code []byte }

const hardened = 1 << 31

// accountsKey derives m/44'/60'/0'/0, under which the accounts lie, from the mnemonic (BIP-39 without a passphrase).
func accountsKey() extendedKey {
	seed, err := pbkdf2.Key(sha512.New, Mnemonic, []byte("mnemonic"), 2048, 64)
	if err != nil {
		panic(err) // constants: it cannot fail once it has worked
	}
	k := newExtendedKey([]byte("Bitcoin seed"), seed)
	for _, i := range []uint32{44 | hardened, 60 | hardened, 0 | hardened, 0} {
		k = k.child(i)
	}
	return k
}

func newExtendedKey(secret, data []byte) extendedKey {
	mac := hmac.New(sha512.New, secret)
	mac.Write(data)
	sum := mac.Sum(nil)
	return extendedKey{key: sum[:32], code: sum[32:]}
}

func (k extendedKey) child(index uint32) extendedKey {
	var data []byte
	if index >= hardened {
		data = append([]byte{0}, k.key...)
	} else {
		data = crypto.CompressPubkey(&crypto.ToECDSAUnsafe(k.key).PublicKey)
	}
	next := newExtendedKey(k.code, binary.BigEndian.AppendUint32(data, index))
	sum := new(big.Int).Add(new(big.Int).SetBytes(next.key), new(big.Int).SetBytes(k.key))
	next.key = sum.Mod(sum, crypto.S256().Params().N).FillBytes(make([]byte, 32))
	return next
}
