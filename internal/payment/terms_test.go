package payment_test

import (
	"crypto/ecdsa"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/x402"
)

const price = money.USDC(25_000_000)

var (
	now   = time.Unix(1_790_000_000, 0)
	usdc  = x402.Address(common.HexToAddress("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"))
	payee = x402.Address(common.HexToAddress("0x209693Bc6afc0C5328bA36FaF03C514EF312287C"))
	terms = payment.Terms{
		Network:     x402.NetworkID,
		Asset:       usdc,
		PayTo:       payee,
		Domain:      x402.Domain{Name: "USD Coin", Version: "2", ChainID: x402.ChainID, Contract: usdc},
		MaxTimeout:  2 * time.Minute,
		Margin:      20 * time.Second,
		MaxValidity: 25 * time.Hour,
	}
)

func testKey(t *testing.T) (*ecdsa.PrivateKey, x402.Address) {
	t.Helper()
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte("payer")))
	if err != nil {
		t.Fatal(err)
	}
	return key, x402.Address(crypto.PubkeyToAddress(key.PublicKey))
}

// goodPayment is signed by a funded payer; change alters it before it is signed.
func goodPayment(t *testing.T, domain x402.Domain, change func(*x402.Payment)) x402.Payment {
	t.Helper()
	key, payer := testKey(t)
	p := x402.Payment{
		Accepted: terms.Requirements(price, map[string]any{"quoteId": "q_1"}),
		Authorization: x402.Authorization{From: payer, To: payee, Value: price, ValidBefore: uint64(now.Unix()) + 120,
			Nonce: x402.Hash{31: 1}},
	}
	if change != nil {
		change(&p)
	}
	var err error
	if p.Signature, err = curve.Sign(domain, p.Authorization, key); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRememberedSignatureHoldsForItsBytesAlone has one payment that was verified, and others that differ in what was
// signed or in the signature.
func TestRememberedSignatureHoldsForItsBytesAlone(t *testing.T) {
	remembering := terms.Remembering()
	authentic := func(of payment.Terms, p x402.Payment) bool {
		_, err := of.Authentic(t.Context(), p)
		return err == nil
	}
	good := goodPayment(t, terms.Domain, nil)
	for range 2 {
		if !authentic(remembering, good) {
			t.Fatal("a payment is not taken for its payer's")
		}
	}
	stranger, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*x402.Payment){
		"payer": func(p *x402.Payment) { p.Authorization.From[3]++ },
		"value": func(p *x402.Payment) { p.Authorization.Value++ },
		"nonce": func(p *x402.Payment) { p.Authorization.Nonce[0]++ },
		"time":  func(p *x402.Payment) { p.Authorization.ValidBefore++ },
		"signature": func(p *x402.Payment) {
			if p.Signature, err = curve.Sign(terms.Domain, p.Authorization, stranger); err != nil {
				t.Fatal(err)
			}
		},
	} {
		p := good
		change(&p)
		for range 2 { // what was refused is not remembered
			if authentic(remembering, p) {
				t.Errorf("another %s is taken for the payer's", name)
			}
		}
	}
	moved := remembering
	moved.Domain.ChainID++
	if authentic(moved, good) {
		t.Error("a signature for another chain is taken for the payer's")
	}
}

// BenchmarkAuthentic compares a payment that comes again with one whose signature is verified.
func BenchmarkAuthentic(b *testing.B) {
	key, err := crypto.GenerateKey()
	if err != nil {
		b.Fatal(err)
	}
	p := x402.Payment{Authorization: x402.Authorization{From: curve.AddressOf(key), To: payee, Value: price}}
	if p.Signature, err = curve.Sign(terms.Domain, p.Authorization, key); err != nil {
		b.Fatal(err)
	}
	for name, of := range map[string]payment.Terms{"verified": terms, "remembered": terms.Remembering()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := of.Authentic(b.Context(), p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// verify is what a payment goes through before it is claimed.
func verify(t *testing.T, chain payment.Chain, p x402.Payment, amount money.USDC) error {
	t.Helper()
	signed, err := terms.Authentic(t.Context(), p)
	if err != nil {
		return err
	}
	return terms.Verify(t.Context(), chain, signed, amount, now)
}

func TestRequirementsNameToken(t *testing.T) {
	r := terms.Requirements(price, map[string]any{"quoteId": "q_1", "version": "9"})
	if r.Amount != "25000000" || r.MaxTimeoutSeconds != 120 || r.Extra["name"] != "USD Coin" ||
		r.Extra["version"] != "2" || r.Extra["quoteId"] != "q_1" {
		t.Errorf("%+v", r)
	}
}

func TestVerifyAcceptsExactTermsOnly(t *testing.T) {
	seconds := uint64(now.Unix())
	type change = func(*x402.Payment)
	accepted := func(f func(*x402.Requirements)) change { return func(p *x402.Payment) { f(&p.Accepted) } }
	signed := func(f func(*x402.Authorization)) change { return func(p *x402.Payment) { f(&p.Authorization) } }
	before := func(at uint64) change { return signed(func(a *x402.Authorization) { a.ValidBefore = at }) }
	after := func(at uint64) change { return signed(func(a *x402.Authorization) { a.ValidAfter = at }) }
	amount := func(s string) change { return accepted(func(r *x402.Requirements) { r.Amount = s }) }
	asset := func(s string) change { return accepted(func(r *x402.Requirements) { r.Asset = s }) }
	network := func(s string) change { return accepted(func(r *x402.Requirements) { r.Network = s }) }
	value := func(v money.USDC) change { return signed(func(a *x402.Authorization) { a.Value = v }) }
	tests := []struct {
		name   string
		change change
		reason string
	}{
		{"the offer as made", nil, ""},
		{"asset in lower case", asset(usdc.Lower()), ""},
		{"asset in upper case", asset("0x" + strings.ToUpper(usdc.Lower()[2:])), ""},
		{"payTo in lower case", accepted(func(r *x402.Requirements) { r.PayTo = payee.Lower() }), ""},
		{"another timeout and extra", accepted(func(r *x402.Requirements) { r.MaxTimeoutSeconds, r.Extra = 60, nil }), ""},
		{"validAfter ten minutes ago", after(seconds - 600), ""},
		{"validAfter a second ago", after(seconds - 1), ""},
		{"validBefore at the margin", before(seconds + 20), ""},
		{"validBefore in an hour", before(seconds + 3600), ""},
		{"validBefore at the most", before(seconds + 25*3600), ""},

		{"amount one more", amount("25000001"), x402.ReasonValue},
		{"amount one less", amount("24999999"), x402.ReasonValue},
		{"amount zero", amount("0"), x402.ReasonValue},
		{"amount with a sign", amount("+25000000"), x402.ReasonValue},
		{"amount with a zero in front", amount("025000000"), x402.ReasonValue},
		{"amount in dollars", amount("25.0"), x402.ReasonValue},
		{"amount in cents", amount("2500"), x402.ReasonValue},
		{"amount with 18 decimals", amount("25000000000000000000"), x402.ReasonValue},
		{"amount in hex", amount("0x17d7840"), x402.ReasonValue},
		{"value one more", value(price + 1), x402.ReasonValue},
		{"value one less", value(price - 1), x402.ReasonValue},
		{"value zero", value(0), x402.ReasonValue},

		{"bridged USDC", asset("0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA"), x402.ReasonRequirements},
		{"USDC of Base Sepolia", asset("0x036CbD53842c5426634e7929541eC2318f3dCF7e"), x402.ReasonRequirements},
		{"asset one nibble off", asset("0x833589fcd6edb6e08f4c7c32d4f71b54bda02914"), x402.ReasonRequirements},
		{"asset with a wrong checksum", asset("0x833589FCD6eDb6E08f4c7C32D4f71b54bdA02913"), x402.ReasonRequirements},
		{"no asset", asset(""), x402.ReasonRequirements},

		{"network by name", network("base"), x402.ReasonNetwork},
		{"Base Sepolia", network("eip155:84532"), x402.ReasonNetwork},
		{"Ethereum", network("eip155:1"), x402.ReasonNetwork},
		{"network with a zero in front", network("eip155:08453"), x402.ReasonNetwork},
		{"scheme upto", accepted(func(r *x402.Requirements) { r.Scheme = "upto" }), x402.ReasonScheme},

		{
			"accepted for another payee", accepted(func(r *x402.Requirements) { r.PayTo = usdc.String() }), x402.ReasonRecipient,
		},
		{"signed for a payee one nibble off", signed(func(a *x402.Authorization) { a.To[19] ^= 1 }), x402.ReasonRecipient},
		{"the payee pays itself", signed(func(a *x402.Authorization) { a.From = payee }), x402.ReasonSignature},
		{"payer zero", signed(func(a *x402.Authorization) { a.From = x402.Address{} }), x402.ReasonSignature},
		{"payer a precompile", signed(func(a *x402.Authorization) { a.From = x402.Address{19: 1} }), x402.ReasonSignature},
		{"payer P256VERIFY", signed(func(a *x402.Authorization) { a.From = x402.Address{18: 1} }), x402.ReasonSignature},
		{"payer somebody else", signed(func(a *x402.Authorization) { a.From[3]++ }), x402.ReasonSignature},

		{"validBefore long past", before(1), x402.ReasonValidBefore},
		{"validBefore zero", before(0), x402.ReasonValidBefore},
		{"validBefore now", before(seconds), x402.ReasonValidBefore},
		{"validBefore in a second", before(seconds + 1), x402.ReasonValidBefore},
		{"validBefore just inside the margin", before(seconds + 19), x402.ReasonValidBefore},
		{"validBefore beyond the most", before(seconds + 25*3600 + 1), x402.ReasonValidBefore},
		{"validBefore never", before(^uint64(0)), x402.ReasonValidBefore},
		{"validAfter now", after(seconds), x402.ReasonValidAfter},
		{"validAfter ahead", after(seconds + 1), x402.ReasonValidAfter},
		{"validAfter never", after(^uint64(0)), x402.ReasonValidAfter},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			chain := fundedChain(t)
			err := verify(t, chain, goodPayment(t, terms.Domain, tt.change), price)
			if got := reasonOf(t, err); got != tt.reason {
				t.Errorf("reason %q (%v), want %q", got, err, tt.reason)
			}
			// A payment that is wrong in itself costs no call.
			want := 0
			if tt.reason == "" {
				want = 1
			}
			if got := chain.Calls().Simulate; got != want {
				t.Errorf("%d calls to the chain, want %d", got, want)
			}
		})
	}
}

func TestVerifyRefusesSignatureOverAnotherDomain(t *testing.T) {
	domains := map[string]func(*x402.Domain){
		"name":     func(d *x402.Domain) { d.Name = "USDC" },
		"version":  func(d *x402.Domain) { d.Version = "1" },
		"chain":    func(d *x402.Domain) { d.ChainID = 84532 },
		"contract": func(d *x402.Domain) { d.Contract = payee },
	}
	for name, change := range domains {
		domain := terms.Domain
		change(&domain)
		p := goodPayment(t, domain, nil)
		// What the payer echoes of the domain is not believed.
		p.Accepted.Extra = map[string]any{"name": domain.Name, "version": domain.Version}
		err := verify(t, fundedChain(t), p, price)
		if got := reasonOf(t, err); got != x402.ReasonSignature {
			t.Errorf("%s: reason %q (%v)", name, got, err)
		}
	}
}

func TestVerifyRefusesZeroAmount(t *testing.T) {
	p := goodPayment(t, terms.Domain, func(p *x402.Payment) { p.Accepted.Amount, p.Authorization.Value = "0", 0 })
	if got := reasonOf(t, verify(t, fundedChain(t), p, 0)); got != x402.ReasonValue {
		t.Errorf("reason %q", got)
	}
}

func TestVerifyAsksChainLast(t *testing.T) {
	p := goodPayment(t, terms.Domain, nil)
	poor := paymenttest.NewChain(terms.Domain, func() time.Time { return now })
	if got := reasonOf(t, verify(t, poor, p, price)); got != x402.ReasonBalance {
		t.Errorf("poor payer: reason %q", got)
	}
	used := fundedChain(t)
	used.Cancel(p.Authorization.From, p.Authorization.Nonce)
	if got := reasonOf(t, verify(t, used, p, price)); got != x402.ReasonNonceUsed {
		t.Errorf("cancelled nonce: reason %q", got)
	}
	down := fundedChain(t)
	down.Down(true)
	err := verify(t, down, p, price)
	if _, rejected := errors.AsType[*payment.Rejection](err); rejected || !errors.Is(err, paymenttest.ErrDown) {
		t.Errorf("silent chain: %v, want its error and no rejection", err)
	}
}

func fundedChain(t *testing.T) *paymenttest.Chain {
	t.Helper()
	_, payer := testKey(t)
	chain := paymenttest.NewChain(terms.Domain, func() time.Time { return now })
	chain.Fund(payer, 100*price)
	return chain
}

// reasonOf is empty without an error, else the rejection's reason.
func reasonOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	rejection, ok := errors.AsType[*payment.Rejection](err)
	if !ok {
		t.Fatalf("not a rejection: %v", err)
	}
	return rejection.Reason
}
