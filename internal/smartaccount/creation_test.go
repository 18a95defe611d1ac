package smartaccount_test

import (
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/smartaccount"
	"github.com/roamcard/roamcard/internal/smartaccount/smartaccounttest"
	"github.com/roamcard/roamcard/internal/x402"
)

// FuzzCreationOf: whatever a payer sends, what is read of it makes the same bytes again, so nothing is called but what
// was read.
func FuzzCreationOf(f *testing.F) {
	key, err := crypto.GenerateKey()
	if err != nil {
		f.Fatal(err)
	}
	account := smartaccounttest.New(8453, 7, smartaccounttest.Key{Private: key}, smartaccounttest.NewPasskey())
	digest := x402.Keccak256([]byte("signed"))
	for _, s := range []x402.Signature{
		account.SignUndeployed(0, digest), account.SignUndeployed(1, digest), account.Sign(0, digest), x402.CreationMark, "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sent := x402.Signature(data)
		c, ok := smartaccount.CreationOf(sent)
		if ok && smartaccount.WithCreation(c.Factory, c.Call(), c.Signature) != sent {
			t.Errorf("%x is read as another one", data)
		}
		if _, again := smartaccount.CreationOf(c.Signature); ok && again && !c.Signature.IsOfCreation() {
			t.Error("a signature that makes nothing is read as one that does")
		}
	})
}

func TestKindsAreNamed(t *testing.T) {
	for text, want := range map[string]string{"": "", "coinbase-smart-wallet": "coinbase-smart-wallet",
		" coinbase-smart-wallet ,": "coinbase-smart-wallet", "safe, coinbase-smart-wallet": "safe,coinbase-smart-wallet"} {
		if kinds, err := smartaccount.Parse(text); err != nil || kinds.String() != want {
			t.Errorf("%q: %s, %v", text, kinds, err)
		}
	}
	for _, text := range []string{"kernel", "coinbase-smart-wallet,coinbase-smart-wallet"} {
		if kinds, err := smartaccount.Parse(text); err == nil {
			t.Errorf("%q: %s", text, kinds)
		}
	}
}
