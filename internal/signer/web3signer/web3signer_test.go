package web3signer_test

import (
	"crypto/ecdsa"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/signer/web3signer"
	"github.com/roamcard/roamcard/internal/signer/web3signer/web3signerfake"
)

// serve plays a Web3Signer until the test ends.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

func TestWeb3SignerKeepsTheRulesOfSigners(t *testing.T) {
	wallet, others := authtest.NewWallet(t, "remote"), authtest.NewWallet(t, "others")
	fake := web3signerfake.New(others.Key(), wallet.Key())
	signer, err := web3signer.New(serve(t, fake), wallet.Address(), outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	faults := map[paymenttest.SignerFault]web3signerfake.Fault{
		paymenttest.SignerWorks: web3signerfake.None, paymenttest.SignerHangs: web3signerfake.Hang,
		paymenttest.SignerFails: web3signerfake.Fail, paymenttest.SignerFloods: web3signerfake.Flood,
		paymenttest.SignerLies: web3signerfake.Lie, paymenttest.SignerGarbles: web3signerfake.Garble,
		paymenttest.SignerReplays: web3signerfake.Replay,
	}
	paymenttest.RunSigner(t, paymenttest.SignerHarness{
		Signer: signer, Address: wallet.Address(),
		Misbehave: func(_ *testing.T, f paymenttest.SignerFault) { fake.Misbehave(faults[f]) },
	})
}

// TestKeyIsFoundAmongThoseOfTheWeb3Signer, also after they were loaded again.
func TestKeyIsFoundAmongThoseOfTheWeb3Signer(t *testing.T) {
	wallet, others := authtest.NewWallet(t, "remote"), authtest.NewWallet(t, "others")
	fake := web3signerfake.New(others.Key())
	signer, err := web3signer.New(serve(t, fake)+"/", wallet.Address(), outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	sign := func(keys ...*ecdsa.PrivateKey) error {
		fake.Load(keys...)
		_, err := signer.Sign(t.Context(), []byte("message"))
		return err
	}
	if err := sign(others.Key()); !errors.Is(err, web3signer.ErrNoKey) {
		t.Errorf("without the key: %v", err)
	}
	if err := sign(others.Key(), wallet.Key()); err != nil {
		t.Errorf("with the key: %v", err)
	}
	if err := sign(); !errors.Is(err, web3signer.ErrNoKey) {
		t.Errorf("once it is taken away: %v", err)
	}
	if err := sign(wallet.Key()); err != nil {
		t.Errorf("once it is back: %v", err)
	}
}

func TestWeb3SignerIsAskedNowhereElse(t *testing.T) {
	wallet := authtest.NewWallet(t, "remote")
	elsewhere := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect was followed")
	}))
	signer, err := web3signer.New(serve(t, http.RedirectHandler(elsewhere, http.StatusTemporaryRedirect)),
		wallet.Address(), outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signer.Sign(t.Context(), []byte("message")); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("%v", err)
	}
	for _, base := range []string{
		"http://signer.example:9000", "ftp://127.0.0.1", "https://", "https://user:word@signer.example",
		"https://a.example?x=1",
	} {
		_, err := web3signer.New(base, wallet.Address(), outward.Rule{})
		if err == nil || strings.Contains(err.Error(), "word") {
			t.Errorf("%s: %v", base, err)
		}
	}
}
