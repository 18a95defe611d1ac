package payment

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// Signer signs with the key of one account, which may be on another machine. Its answers are not believed: Account
// checks them.
type Signer interface {
	// Address is the account, which never changes.
	Address() x402.Address
	// Sign signs the Keccak-256 hash of a message: not of a text with a prefix. It takes the message because some signers
	// hash themselves. It ends when ctx does, reads a bounded answer, and may be called again and concurrently: a
	// signature has no effect before somebody uses it. Errors hold no key, no credential and no signature.
	Sign(ctx context.Context, message []byte) (x402.Signature, error)
	// IsLocal reports that this process has the key, so that signing asks nobody.
	IsLocal() bool
}

// The errors of an Account. After any of them nothing is stored, and nothing is sent.
var (
	// ErrNoSignature says that the signer did not answer in time, or refused.
	ErrNoSignature = errors.New("the signer gave no signature")
	// ErrOtherSignature says that what it gave is not the account's signature of the message.
	ErrOtherSignature = errors.New("the signer gave what is not the account's signature")
	// ErrOtherChain says that something is for another chain, and was not given to the signer.
	ErrOtherChain = errors.New("this is for another chain")
)

const (
	// signTimeout bounds one signature.
	signTimeout = 5 * time.Second
	// provenFor is how long a signature proves that the signer works, and doubtedFor how long a failure that it does not.
	provenFor  = 10 * time.Second
	doubtedFor = 30 * time.Second
)

// Account is a signer for one chain, whose every signature is checked before anybody has it.
type Account struct {
	signer  Signer
	chainID uint64
	now     func() time.Time

	mu             sync.Mutex
	proven, failed time.Time
}

// NewAccount makes an account of a chain.
func NewAccount(s Signer, chainID uint64, now func() time.Time) *Account {
	return &Account{signer: s, chainID: chainID, now: now}
}

// Address is the account's address.
func (a *Account) Address() x402.Address { return a.signer.Address() }

// IsLocal reports that this process has the key, so that signing asks nobody.
func (a *Account) IsLocal() bool { return a.signer.IsLocal() }

// SignTransaction signs a transaction of a chain: unsigned is what its sender signs, as EIP-2718 and its type say.
func (a *Account) SignTransaction(ctx context.Context, chainID uint64, unsigned []byte) (x402.Signature, error) {
	if chainID != a.chainID {
		return "", fmt.Errorf("sign a transaction: %w: %d, not %d", ErrOtherChain, chainID, a.chainID)
	}
	return a.sign(ctx, unsigned)
}

// SignAuthorization signs a transfer from this account.
func (a *Account) SignAuthorization(
	ctx context.Context, d x402.Domain, of x402.Authorization,
) (x402.Signature, error) {
	if d.ChainID != a.chainID {
		return "", fmt.Errorf("sign an authorization: %w: %d, not %d", ErrOtherChain, d.ChainID, a.chainID)
	}
	if of.From != a.Address() {
		return "", fmt.Errorf("sign an authorization: it is from %s, not from %s", of.From, a.Address())
	}
	message := x402.SignedMessage(d.Separator(), of)
	return a.sign(ctx, message[:])
}

// Ready fails with a fault while the signer does not work. One on another machine is asked for a signature that is of
// no use to anybody, unless it has just given one.
func (a *Account) Ready(ctx context.Context) error {
	if a.IsLocal() || a.since(&a.proven) < provenFor {
		return nil
	}
	if _, err := a.sign(ctx, probe(a.now())); err != nil {
		if fault.Gone(ctx) {
			return fault.Ended(ctx, err)
		}
		const detail = "The key that payments are settled or refunded with cannot be used now."
		return fmt.Errorf("%w: %w", err, fault.New(fault.DependencyDown, detail))
	}
	return nil
}

// Doubtful reports that the last signature failed, a moment ago. It only helps to choose between accounts.
func (a *Account) Doubtful() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed.After(a.proven) && a.now().Sub(a.failed) < doubtedFor
}

// probe is a message that is neither a transaction nor typed data nor a text: those begin with 0x00 to 0x7f, or from
// 0xc0 on. It is another one each time, so that no answer can be an old one.
func probe(now time.Time) []byte {
	return binary.BigEndian.AppendUint64([]byte("\x80roamcard asks whether this signer works\n"), uint64(now.UnixNano()))
}

func (a *Account) sign(ctx context.Context, message []byte) (x402.Signature, error) {
	within, cancel := fault.Within(ctx, signTimeout)
	defer cancel()
	s, err := a.signer.Sign(within, message)
	if err != nil && !errors.Is(err, curve.ErrNotSigned) {
		if !fault.Gone(ctx) {
			a.mark(&a.failed)
		}
		return "", fmt.Errorf("sign for %s: %w: %w", a.Address(), ErrNoSignature, err)
	}
	if err == nil {
		err = a.check(x402.Keccak256(message), s)
	}
	if err != nil {
		a.mark(&a.failed)
		return "", fmt.Errorf("sign for %s: %w: %w", a.Address(), ErrOtherSignature, err)
	}
	a.mark(&a.proven)
	return s, nil
}

// check recovers the signer as the chain does, and compares it with the account.
func (a *Account) check(digest x402.Hash, s x402.Signature) error {
	by, err := curve.Recover(digest, s)
	if err == nil && by != a.Address() {
		return curve.ErrNotSigned
	}
	return err
}

func (a *Account) mark(at *time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*at = a.now()
}

func (a *Account) since(at *time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now().Sub(*at)
}
