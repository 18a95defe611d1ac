package smartaccount

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/x402"
)

// safe is Safe, as github.com/safe-global/safe-smart-account has it: a proxy whose owners are accounts, of which as
// many sign as the threshold says.
type safe struct{}

// The hashes of what a proxy's code is, and the addresses on Base of the singletons that it may run and of the handlers
// that may answer isValidSignature for it: of the versions 1.3.0, 1.4.1 and 1.5.0, as the package
// @safe-global/safe-deployments lists them, whose code hashes are those of the project's builds.
var (
	safeProxies = []x402.Hash{
		x402.Hash(unhex("b89c1b3bdf2cf8827818646bce9a8f6e372885f8c55e5c07acbd307cb133b000")),
		x402.Hash(unhex("d7d408ebcd99b2b70be43e20253d6d92a8ea8fab29bd3be7f55b10032331fb4c")),
		x402.Hash(unhex("4e381985ca68b3e5d27b4425fa581c19cf33146d3f887a3cfca96f55528ea46f")),
	}
	safeSingletons = []x402.Address{
		x402.Address(unhex("d9db270c1b5e3bd161e8c8503c55ceabee709552")), // 1.3.0
		x402.Address(unhex("69f4d1788e39c87893c980c06edf4b7f686e2938")),
		x402.Address(unhex("3e5c63644e683549055b9be8653de26e0b4cd36e")), // 1.3.0, L2
		x402.Address(unhex("fb1bffc9d739b8d520daf37df666da4c687191ea")),
		x402.Address(unhex("41675c099f32341bf84bfc5382af534df5c7461a")), // 1.4.1
		x402.Address(unhex("29fcb43b46531bca003ddc8fcb67ffe91900c762")), // 1.4.1, L2
		x402.Address(unhex("ff51a5898e281db6dfc7855790607438df2ca44b")), // 1.5.0
		x402.Address(unhex("edd160febbd92e350d4d398fb636302fccd67c7e")), // 1.5.0, L2
	}
	safeHandlers = []x402.Address{
		x402.Address(unhex("f48f2b2d2a534e402487b3ee7c18c33aec0fe5e4")), // 1.3.0
		x402.Address(unhex("017062a1de2fe6b99be3d9d37841fed19f573804")),
		x402.Address(unhex("fd0732dc9e303f09fcef3a7388ad10a83459ec99")), // 1.4.1
		x402.Address(unhex("3efcbb83a4a7afcb4f68d501e2c2203a38be77f4")), // 1.5.0
	}
)

// What an account keeps, by its slots: the singleton, the owners, as a mapping of each to the next, how many of them
// sign, and the handler of calls that the singleton does not know.
var (
	safeSingletonSlot = x402.Hash{}
	safeOwnersSlot    = x402.Hash{31: 2}
	safeThresholdSlot = x402.Hash{31: 4}
	safeHandlerSlot   = x402.Keccak256([]byte("fallback_manager.handler.address"))
)

// safeSentinel is where the list of owners begins, which is nobody's.
var safeSentinel = x402.Address{19: 1}

var (
	safeDomainType = x402.Keccak256([]byte("EIP712Domain(uint256 chainId,address verifyingContract)"))
	safeMessage    = x402.Keccak256([]byte("SafeMessage(bytes message)"))
)

// safeDigest is what owners sign: EIP-712 with the account's address, over the digest as a message of bytes.
func safeDigest(s Statement) x402.Hash {
	var domain [3 * 32]byte
	copy(domain[0:], safeDomainType[:])
	binary.BigEndian.PutUint64(domain[56:], s.ChainID)
	copy(domain[76:], s.Account[:])
	return typedDigest(domain[:], safeMessage, x402.Keccak256(s.Digest[:]))
}

func (safe) is(ctx context.Context, at Block, account x402.Address, code []byte) (bool, error) {
	if !slices.Contains(safeProxies, x402.Keccak256(code)) {
		return false, nil
	}
	words, err := words(ctx, at, account, safeSingletonSlot, safeHandlerSlot)
	if err != nil {
		return false, fmt.Errorf("read the account's singleton and handler: %w", err)
	}
	return slices.Contains(safeSingletons, x402.Address(words[0][12:])) &&
		slices.Contains(safeHandlers, x402.Address(words[1][12:])), nil
}

// verify takes the signatures of as many owners as the threshold says, each of a key, in the order of the owners'
// addresses and nothing behind them. What an owner with code says, and what an owner approved on the chain, is not
// taken.
func (safe) verify(ctx context.Context, at Block, s Statement) error {
	const size, byHand = 65, 4
	raw := s.Signature.Bytes()
	count := len(raw) / size
	if count == 0 || len(raw)%size != 0 {
		return curve.ErrNotSigned
	}
	digest := safeDigest(s)
	prefixed := x402.Keccak256(slices.Concat([]byte("\x19Ethereum Signed Message:\n32"), digest[:]))
	slots := []x402.Hash{safeThresholdSlot}
	last := safeSentinel
	for part := range slices.Chunk(raw, size) {
		over := digest
		if v := part[size-1]; v >= 27+byHand { // as personal_sign makes it
			over, part = prefixed, append(slices.Clone(part[:size-1]), v-byHand)
		}
		owner, err := curve.Recover(over, x402.Signature(part))
		if err != nil || slices.Compare(owner[:], last[:]) <= 0 {
			return curve.ErrNotSigned
		}
		last = owner
		slots = append(slots, x402.Keccak256(slices.Concat(make([]byte, 12), owner[:], safeOwnersSlot[:])))
	}
	words, err := words(ctx, at, s.Account, slots...)
	if err != nil {
		return fmt.Errorf("read the account's owners: %w", err)
	}
	if words[0] != (x402.Hash{31: byte(count)}) || slices.Contains(words[1:], x402.Hash{}) {
		return curve.ErrNotSigned
	}
	return nil
}

// words reads words of an account's storage at the same time.
func words(ctx context.Context, at Block, account x402.Address, slots ...x402.Hash) ([]x402.Hash, error) {
	read := make([]x402.Hash, len(slots))
	all, ctx := errgroup.WithContext(ctx)
	for i, slot := range slots {
		all.Go(func() (err error) {
			read[i], err = at.Word(ctx, account, slot)
			return err
		})
	}
	return read, all.Wait()
}
