package checkout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// signIn is a wallet's sign-in for one request; refused is what is wrong with it.
type signIn struct {
	wallet  x402.Address
	byKey   bool
	used    int
	refused error
}

func (s *signIn) Wallet() x402.Address { return s.wallet }
func (s *signIn) ByKey() bool          { return s.byKey }

func (s *signIn) Use(context.Context) error {
	s.used++
	return s.refused
}

// TestSignInRepeatsAPurchase: who signed in has the answer again, with its secrets, without another payment.
func TestSignInRepeatsAPurchase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b, other := s.NewBuyer(t), s.NewBuyer(t)
		const key = "order-1" // too short to be a secret
		first := s.PaidCard(t, b, key)
		bought := s.MustBuy(t, first)
		ask := func(by x402.Address, change ...func(*checkout.Purchase)) (checkout.PaidOrder, *signIn, error) {
			t.Helper()
			signed := &signIn{wallet: by, byKey: true}
			p := checkouttest.Purchase(key)
			p.SignIn = signed
			for _, c := range change {
				c(&p)
			}
			sold, err := s.Buy(t.Context(), p)
			return sold, signed, err
		}

		sold, signed, err := ask(b.Address)
		if err != nil || sold.Order.ID != bought.Order.ID || !sold.Replayed || !sold.ProvenCaller || signed.used != 1 {
			t.Errorf("the buyer: %+v, %v, used %d times", sold, err, signed.used)
		}
		for name, change := range map[string]func(*checkout.Purchase){
			"another wallet": func(p *checkout.Purchase) { p.SignIn.(*signIn).wallet = other.Address },
			"another key":    func(p *checkout.Purchase) { p.Key = "order-2" },
			"no key":         func(p *checkout.Purchase) { p.Key = "" },
		} {
			_, signed, err := ask(b.Address, change)
			if f := checkouttest.WantFault(t, err, fault.PaymentRequired); f.OrderID != "" {
				t.Errorf("%s is told of %s", name, f.OrderID)
			}
			if signed.used != 0 {
				t.Errorf("%s: used up for nothing", name)
			}
		}
		refused := fault.New(fault.SignatureInvalid, "")
		sold, _, err = ask(b.Address, func(p *checkout.Purchase) { p.SignIn.(*signIn).refused = refused })
		if !errors.Is(err, refused) || sold.Order.ID != "" {
			t.Errorf("one that proves nobody: %+v, %v", sold, err)
		}
		// Before a smart account's owner is proven, nobody learns that there is such a purchase.
		_, _, err = ask(b.Address, func(p *checkout.Purchase) { p.SignIn = &signIn{wallet: b.Address, refused: refused} })
		if f := checkouttest.WantFault(t, err, fault.PaymentRequired); f.OrderID != "" {
			t.Errorf("one that proves no owner is told of %s", f.OrderID)
		}
		_, signed, err = ask(b.Address, func(p *checkout.Purchase) { p.Request = json.RawMessage(`{"other":1}`) })
		checkouttest.WantFault(t, err, fault.IdempotencyKeyReused)
		if signed.used != 0 {
			t.Error("a refusal has used it up")
		}
		// With a payment, that proves the wallet.
		sold, signed, err = ask(other.Address, func(p *checkout.Purchase) { p.Payment = first.Payment })
		if err != nil || sold.Order.ID != bought.Order.ID || sold.ProvenCaller || signed.used != 0 {
			t.Errorf("next to a payment: %+v, %v, used %d times", sold, err, signed.used)
		}
		if spent := s.Spent(b); spent != 25_000_000 {
			t.Errorf("%s was paid", spent)
		}
	})
}

// TestChallengesOfPurchasesOfferASignIn: links are paid by whoever has them.
func TestChallengesOfPurchasesOfferASignIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{Signer: signsAs(t, 1)})
		b := s.NewBuyer(t)
		var asked []string
		made := 0
		renew := func() string { made++; return fmt.Sprintf("NONCE%020d", made) }
		s.OfferSignIn = func(url string) auth.RequestOffer {
			asked = append(asked, url)
			nonce := renew()
			return auth.RequestOffer{
				Nonce: nonce, Renew: renew, Extension: map[string]any{"info": map[string]any{"uri": url, "nonce": nonce}},
			}
		}
		nonceOf := func(r x402.PaymentRequired) any {
			signIn, _ := r.Extensions[x402.SignInWithX].(map[string]any)
			info, _ := signIn["info"].(map[string]any)
			return info["nonce"]
		}
		p := checkouttest.Purchase("order-1")
		p.Resource.URL += "?source=test"
		p.Extensions = map[string]any{"bazaar": map[string]any{"info": "kept"}}
		required := s.Challenge(t, p)
		if required.Extensions["bazaar"] == nil || required.Extensions[x402.SignInWithX] == nil ||
			required.Extensions[x402.OfferReceipt] == nil {
			t.Errorf("the challenge declares %v", required.Extensions)
		}
		if len(p.Extensions) != 1 {
			t.Errorf("the extensions of all purchases have become %v", p.Extensions)
		}
		if len(asked) != 1 || asked[0] != checkouttest.Purchase("").Resource.URL {
			t.Errorf("offered for %q", asked)
		}
		again := s.Challenge(t, p)
		if nonceOf(required) == nil || nonceOf(again) == nonceOf(required) {
			t.Errorf("two challenges of one second have the nonces %v and %v", nonceOf(required), nonceOf(again))
		}
		if again.Accepts[0].Extra["quoteId"] != required.Accepts[0].Extra["quoteId"] || len(asked) != 1 {
			t.Error("the second challenge of a second is made anew")
		}
		preview := p
		preview.Key = ""
		if s.Challenge(t, preview).Extensions[x402.SignInWithX] != nil {
			t.Error("a preview offers a sign-in")
		}
		o := mustCreate(t, s, newOrder(b, "order-2"))
		if termsOf(t, s, o.ID).Extensions[x402.SignInWithX] != nil {
			t.Error("a link offers a sign-in")
		}
	})
}
