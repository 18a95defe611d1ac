package payment_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestHeldKeySigns(t *testing.T) {
	wallet := authtest.NewWallet(t, "held")
	paymenttest.RunSigner(t, paymenttest.SignerHarness{
		Signer: curve.NewLocalSigner(wallet.Key()), Address: wallet.Address(),
	})
}

// pretending is a signer elsewhere that says it is of one account, and gives signatures that do is asked for.
type pretending struct {
	of x402.Address
	do func(ctx context.Context, message []byte) (x402.Signature, error)
}

func (p *pretending) Address() x402.Address { return p.of }
func (p *pretending) IsLocal() bool         { return false }
func (p *pretending) Sign(ctx context.Context, message []byte) (x402.Signature, error) {
	return p.do(ctx, message)
}

func TestSignatureOfAnotherKeyIsNotedBeforeAnybodyHasIt(t *testing.T) {
	ours, other := authtest.NewWallet(t, "ours"), authtest.NewWallet(t, "other")
	of := curve.NewLocalSigner(ours.Key())
	domain := x402.Domain{Name: "USD Coin", Version: "2", ChainID: 8453, Contract: x402.Address{1}}
	a := x402.Authorization{From: ours.Address(), To: x402.Address{2}, Value: 1, ValidBefore: 2e9, Nonce: x402.Hash{3}}
	for name, do := range map[string]func(context.Context, []byte) (x402.Signature, error){
		"another key": curve.NewLocalSigner(other.Key()).Sign,
		"another message": func(ctx context.Context, message []byte) (x402.Signature, error) {
			return of.Sign(ctx, append(message, 0))
		},
		"a prefix": func(ctx context.Context, message []byte) (x402.Signature, error) {
			return of.Sign(ctx, append([]byte("\x19Ethereum Signed Message:\n66"), message...))
		},
		"the upper half": func(ctx context.Context, message []byte) (x402.Signature, error) {
			s, err := of.Sign(ctx, message)
			return upperHalf(s), err
		},
		"v of 0": func(ctx context.Context, message []byte) (x402.Signature, error) {
			s, err := of.Sign(ctx, message)
			return s[:64] + x402.Signature([]byte{s[64] - 27}), err
		},
		"nothing": func(context.Context, []byte) (x402.Signature, error) { return "", nil },
	} {
		t.Run(name, func(t *testing.T) {
			account := payment.NewAccount(&pretending{ours.Address(), do}, domain.ChainID, time.Now)
			s, err := account.SignAuthorization(t.Context(), domain, a)
			if !errors.Is(err, payment.ErrOtherSignature) || s != "" {
				t.Errorf("%v, %v", s.Hex(), err)
			}
			if s, err := account.SignTransaction(t.Context(), domain.ChainID, []byte{2, 0xc0}); err == nil ||
				s != "" {
				t.Errorf("a transaction: %v, %v", s.Hex(), err)
			}
			if err := account.Ready(t.Context()); err == nil {
				t.Error("it is ready")
			} else if _, told := fault.As(err); !told {
				t.Errorf("ready: %v, without a fault for the payer", err)
			}
		})
	}
}

func TestReadinessAsksNoOftenerThanItHasTo(t *testing.T) {
	wallet := authtest.NewWallet(t, "asked")
	now, asked := time.Unix(1_700_000_000, 0), 0
	var broken error
	seen := map[string]bool{}
	sign := func(ctx context.Context, m []byte) (x402.Signature, error) {
		if asked++; seen[string(m)] || m[0] < 0x80 || m[0] > 0xbf {
			t.Errorf("asked for %q", m)
		}
		seen[string(m)] = true
		if broken != nil {
			return "", broken
		}
		return curve.NewLocalSigner(wallet.Key()).Sign(ctx, m)
	}
	account := payment.NewAccount(&pretending{wallet.Address(), sign}, 8453, func() time.Time { return now })
	want := func(calls int, ready bool) {
		t.Helper()
		if err := account.Ready(t.Context()); (err == nil) != ready || asked != calls {
			t.Errorf("%v after %d calls, want %d", err, asked, calls)
		}
	}
	want(1, true)
	want(1, true)
	now = now.Add(time.Minute)
	broken = errors.New("down")
	want(2, false)
	now = now.Add(time.Second)
	want(3, false)
	if !account.Doubtful() {
		t.Error("it is not doubted")
	}
	broken = nil
	now = now.Add(time.Second)
	want(4, true)
	if account.Doubtful() {
		t.Error("it is still doubted")
	}
}

// TestCallerWhoLeavesDoesNotCastDoubtOnASigner: it has not failed, it was not waited for.
func TestCallerWhoLeavesDoesNotCastDoubtOnASigner(t *testing.T) {
	wallet := authtest.NewWallet(t, "asked")
	ctx, leave := context.WithCancel(t.Context())
	account := payment.NewAccount(&pretending{wallet.Address(),
		func(ctx context.Context, _ []byte) (x402.Signature, error) {
			leave()
			<-ctx.Done()
			return "", ctx.Err()
		}}, 8453, time.Now)
	if err := account.Ready(ctx); fault.Of(err) != fault.Canceled {
		t.Errorf("%v, want that the caller has left", err)
	}
	if account.Doubtful() {
		t.Error("the signer is doubted")
	}
}

// upperHalf is the same signature with s in the upper half, which other chains take.
func upperHalf(s x402.Signature) x402.Signature {
	order := [32]byte([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe" +
		"\xba\xae\xdc\xe6\xaf\x48\xa0\x3b\xbf\xd2\x5e\x8c\xd0\x36\x41\x41"))
	rs, borrow := []byte(s[:64]), 0
	for i := 31; i >= 0; i-- {
		d := int(order[i]) - int(rs[32+i]) - borrow
		borrow = 0
		if d < 0 {
			d, borrow = d+256, 1
		}
		rs[32+i] = byte(d)
	}
	return x402.KeySignature(rs, 28-s[64])
}
