package paymenttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/x402"
)

// SignerFault is one way in which what has a key misbehaves.
type SignerFault string

// The faults of what has the key.
const (
	// SignerWorks ends a fault.
	SignerWorks SignerFault = ""
	// SignerHangs takes a request and never answers.
	SignerHangs SignerFault = "hangs"
	// SignerFails answers with an error.
	SignerFails SignerFault = "fails"
	// SignerFloods answers without end.
	SignerFloods SignerFault = "floods"
	// SignerLies signs with another key.
	SignerLies SignerFault = "lies"
	// SignerGarbles answers with what is no signature.
	SignerGarbles SignerFault = "garbles"
	// SignerReplays answers with the signature of an earlier message.
	SignerReplays SignerFault = "replays"
)

// SignerHarness is a signer under test.
type SignerHarness struct {
	// Signer is of the account Address.
	Signer  payment.Signer
	Address x402.Address
	// Misbehave injects a fault into the signing backend. Nil where the signer has the key itself, or where the backend is
	// real and takes no faults.
	Misbehave func(t *testing.T, f SignerFault)
	// Secrets are texts that no error may have.
	Secrets []string
}

// signerDomain is the token that the kit signs for.
var signerDomain = x402.Domain{Name: "USD Coin", Version: "2", ChainID: 8453, Contract: x402.Address{0x83}}

// RunSigner checks the rules of payment.Signer, and what payment.Account makes of it.
func RunSigner(t *testing.T, h SignerHarness) {
	t.Run("ItIsTheAccountThatWasAskedFor", h.addressed)
	t.Run("EveryMessageIsSignedAsTheTokenTakesIt", h.signsEverything)
	t.Run("ConcurrentMessagesGetTheirOwnSignatures", h.signsConcurrently)
	t.Run("NothingOfAnotherChainOrAccountIsSigned", h.refusesOthers)
	t.Run("ACallerThatHasGoneGetsNothing", h.endsWithItsCaller)
	if h.Misbehave == nil {
		return
	}
	for _, f := range []SignerFault{
		SignerHangs, SignerFails, SignerFloods, SignerLies, SignerGarbles, SignerReplays,
	} {
		t.Run("Nothing is taken from one that "+string(f), func(t *testing.T) { h.survives(t, f) })
	}
}

func (h SignerHarness) account() *payment.Account {
	return payment.NewAccount(h.Signer, signerDomain.ChainID, time.Now)
}

func (h SignerHarness) transfer(n byte) x402.Authorization {
	return x402.Authorization{
		From: h.Address, To: x402.Address{1}, Value: 25_000_000, ValidBefore: 2e9, Nonce: x402.Hash{n},
	}
}

func (h SignerHarness) addressed(t *testing.T) {
	if got := h.Signer.Address(); got != h.Address || h.account().Address() != h.Address {
		t.Errorf("the account is %s, want %s", got, h.Address)
	}
}

// signsEverything signs so many messages that r and s have every form that they can have: with a leading zero byte, and
// with s in the upper half where the key's owner makes no difference.
func (h SignerHarness) signsEverything(t *testing.T) {
	for n := range byte(40) {
		message := []byte(strings.Repeat(string([]byte{n, 0x80, 0}), int(n)+1))
		s, err := h.Signer.Sign(t.Context(), message)
		if err != nil {
			t.Fatalf("message %d: %v", n, err)
		}
		if err := s.Check(); err != nil {
			t.Errorf("message %d: %v", n, err)
		}
		if by, err := curve.Recover(x402.Keccak256(message), s); err != nil || by != h.Address {
			t.Errorf("message %d is signed by %s, %v", n, by, err)
		}
		a := h.transfer(n)
		s, err = h.account().SignAuthorization(t.Context(), signerDomain, a)
		if err != nil || curve.Verify(signerDomain, a, s) != nil {
			t.Errorf("authorization %d: %v", n, err)
		}
	}
}

func (h SignerHarness) signsConcurrently(t *testing.T) {
	account := h.account()
	var all sync.WaitGroup
	for n := range byte(8) {
		all.Go(func() {
			a := h.transfer(n)
			if s, err := account.SignAuthorization(t.Context(), signerDomain, a); err != nil ||
				curve.Verify(signerDomain, a, s) != nil {
				t.Errorf("authorization %d: %v", n, err)
			}
		})
	}
	all.Wait()
}

func (h SignerHarness) refusesOthers(t *testing.T) {
	account := h.account()
	elsewhere := signerDomain
	elsewhere.ChainID = 84532
	if _, err := account.SignAuthorization(t.Context(), elsewhere, h.transfer(1)); !errors.Is(err, payment.ErrOtherChain) {
		t.Errorf("an authorization for another chain: %v", err)
	}
	if _, err := account.SignTransaction(t.Context(), 84532, []byte{2}); !errors.Is(err, payment.ErrOtherChain) {
		t.Errorf("a transaction for another chain: %v", err)
	}
	other := h.transfer(1)
	other.From = x402.Address{9}
	if _, err := account.SignAuthorization(t.Context(), signerDomain, other); err == nil {
		t.Error("a transfer from another account was signed")
	}
	s, err := account.SignTransaction(t.Context(), signerDomain.ChainID, []byte{2, 0xc0})
	if err != nil || s.Check() != nil {
		t.Errorf("a transaction of its chain: %v", err)
	}
}

func (h SignerHarness) endsWithItsCaller(t *testing.T) {
	if h.Signer.IsLocal() {
		return // it waits for nobody
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	account := h.account()
	if _, err := account.SignAuthorization(ctx, signerDomain, h.transfer(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("with a caller that has gone: %v", err)
	}
	if account.Doubtful() {
		t.Error("the signer is doubted because a caller has gone")
	}
}

// survives lets what has the key misbehave, and checks that no signature comes out, that it is known in time, and that
// the same account signs afterwards.
func (h SignerHarness) survives(t *testing.T, f SignerFault) {
	account := h.account()
	if err := account.Ready(t.Context()); err != nil {
		t.Fatalf("before: %v", err)
	}
	h.Misbehave(t, f)
	t.Cleanup(func() { h.Misbehave(t, SignerWorks) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	if f != SignerHangs {
		cancel()
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute) // Account has a timeout of its own
	}
	defer cancel()
	a := h.transfer(7)
	s, err := account.SignAuthorization(ctx, signerDomain, a)
	if err == nil || s != "" {
		t.Fatalf("it gave a signature, %v", err)
	}
	switch f {
	case SignerLies, SignerReplays:
		if !errors.Is(err, payment.ErrOtherSignature) {
			t.Errorf("%v, want that it is another signature", err)
		}
	case SignerHangs:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want that the time is over", err)
		}
	default:
		if !errors.Is(err, payment.ErrNoSignature) {
			t.Errorf("%v, want that there is no signature", err)
		}
	}
	shown := fmt.Sprintf("%v %+v %v", err, err, h.Signer)
	for _, text := range h.Secrets {
		if strings.Contains(shown, text) {
			t.Errorf("shown: %s", shown)
		}
	}
	h.recovers(t, account, f)
}

func (h SignerHarness) recovers(t *testing.T, account *payment.Account, f SignerFault) {
	if f != SignerHangs { // a caller that stopped waiting has learned nothing about it
		if !account.Doubtful() {
			t.Error("the signer is not doubted")
		}
	}
	fresh := h.account()
	within, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := fresh.Ready(within); err == nil {
		t.Error("it is ready")
	}
	h.Misbehave(t, SignerWorks)
	if err := fresh.Ready(t.Context()); err != nil || fresh.Doubtful() {
		t.Errorf("afterwards: %v", err)
	}
	if s, err := account.SignAuthorization(t.Context(), signerDomain, h.transfer(8)); err != nil ||
		curve.Verify(signerDomain, h.transfer(8), s) != nil || account.Doubtful() {
		t.Errorf("afterwards: %v", err)
	}
}
