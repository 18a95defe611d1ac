package goclient_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/smartaccount/smartaccounttest"
	"github.com/roamcard/roamcard/internal/x402"
)

// smartAccount buys from an account whose owner is a key, and from one that its first payment makes.
func smartAccount(s *stage) {
	ctx, w := s.t.Context(), s.walletWith(0)
	account := s.SmartAccount(w, 1_000_000_000)
	s.accounts = append(s.accounts, account.Address())
	journal := s.storedIn(filepath.Join(s.t.TempDir(), "journal.json"))
	c := s.buyer(account, journal)
	bought, err := c.Cards.Purchase(ctx, "one")
	if err != nil || bought.Order.GetPayment().GetPayer() != account.Address() {
		s.t.Fatalf("%v, %v", bought.Order, err)
	}
	again, err := s.buyer(account, journal).Cards.Purchase(ctx, "one")
	if err != nil || again.Order.GetOrderId() != bought.Order.GetOrderId() || !again.Order.GetReplayed() {
		s.t.Errorf("again: %v, %v", again.Order, err)
	}
	if w.signed() != 1 {
		s.t.Errorf("the owner signed %d times for one payment", w.signed())
	}
	// Without its journal it signs once more, and the nonce is the same.
	lost, err := s.buyer(account).Cards.Purchase(ctx, "one")
	if err != nil || lost.Order.GetOrderId() != bought.Order.GetOrderId() || !lost.Order.GetReplayed() {
		s.t.Errorf("without a journal: %v, %v", lost.Order, err)
	}
	if session, err := c.Auth.SignIn(ctx); err != nil || session.GetWallet() != account.Address() {
		s.t.Errorf("signed in: %v, %v", session, err)
	}
	card, err := c.Cards.WaitUntilActive(ctx, bought.Order.GetOrderId())
	if err != nil {
		s.t.Fatal(err)
	}
	var pages []string
	if shown, err := c.Cards.Reveal(ctx, card, s.person(&pages)); err != nil || !shown.Seen || len(pages) != 1 {
		s.t.Errorf("%v, %v", shown, err)
	}
	if paid := s.Transfers(account.Address()); len(paid) != 1 || paid[0] != 25_000_000 {
		s.t.Errorf("paid %v", paid)
	}
	s.buysBeforeItIsDeployed()
}

// buysBeforeItIsDeployed signs in and buys by an account that its first payment makes, and goes on with it.
func (s *stage) buysBeforeItIsDeployed() {
	ctx, w := s.t.Context(), s.walletWith(0)
	account := s.UndeployedAccount(w, 1_000_000_000)
	s.accounts = append(s.accounts, account.Address())
	plain, err := roamcard.NewCoinbaseSmartAccount(w, account.Address(), 0)
	if err != nil {
		s.t.Fatal(err)
	}
	asking := func(c *roamcard.Config) { c.RPCURL = s.RPCURL }
	if _, err := s.buyer(plain, asking).Cards.Purchase(ctx, "one"); !errors.Is(err, roamcard.ErrNotDeployed) {
		s.t.Errorf("without its creation: %v", err)
	}
	journal := s.storedIn(filepath.Join(s.t.TempDir(), "journal.json"))
	c := s.buyer(account, journal, asking)
	if session, err := c.Auth.SignIn(ctx); err != nil || session.GetWallet() != account.Address() {
		s.t.Errorf("signed in before it is deployed: %v, %v", session, err)
	}
	before := w.signed()
	bought, err := c.Cards.Purchase(ctx, "one")
	if err != nil || bought.Order.GetPayment().GetPayer() != account.Address() {
		s.t.Fatalf("%v, %v", bought.Order, err)
	}
	again, err := s.buyer(account, journal).Cards.Purchase(ctx, "one")
	if err != nil || again.Order.GetOrderId() != bought.Order.GetOrderId() || !again.Order.GetReplayed() {
		s.t.Errorf("again: %v, %v", again.Order, err)
	}
	if signed := w.signed() - before; signed != 1 {
		s.t.Errorf("the owner signed %d times for one payment", signed)
	}
	var code string
	if s.RPC("eth_getCode", &code, account.Address(), "latest"); code == "0x" {
		s.t.Error("the payment did not make the account")
	}
	// Both forms are taken now.
	for name, signer := range map[string]roamcard.Signer{"as before": account, "as one that is deployed": plain} {
		if session, err := s.buyer(signer).Auth.SignIn(ctx); err != nil || session.GetWallet() != account.Address() {
			s.t.Errorf("signed in %s: %v, %v", name, session, err)
		}
		lost, err := s.buyer(signer, asking).Cards.Purchase(ctx, "one")
		if err != nil || lost.Order.GetOrderId() != bought.Order.GetOrderId() {
			s.t.Errorf("%s, without a journal: %v, %v", name, lost.Order, err)
		}
	}
	if _, err := c.Cards.WaitUntilActive(ctx, bought.Order.GetOrderId()); err != nil {
		s.t.Fatal(err)
	}
	// The next payment, in the same form, of an account that has code.
	if _, err := c.Cards.TopUp(ctx, 2500, "two"); err != nil {
		s.t.Error(err)
	}
	if paid := s.Transfers(account.Address()); len(paid) != 2 {
		s.t.Errorf("paid %v", paid)
	}
}

// The client and the service make the same of what an account signs, each by its own code.
func TestSmartAccountSignsLikeTheService(t *testing.T) {
	t.Parallel()
	owner, err := roamcard.NewKeySigner(signersKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := crypto.HexToECDSA(signersKey)
	if err != nil {
		t.Fatal(err)
	}
	const index, nonce = 1, 3
	by, passkey := smartaccounttest.Key{Private: key}, smartaccounttest.NewPasskey()
	reference := smartaccounttest.New(x402.ChainID, nonce, passkey, by)
	account, err1 := roamcard.NewCoinbaseSmartAccount(owner, reference.Address.String(), index)
	created, err2 := roamcard.NewUndeployedCoinbaseSmartAccount(owner, nonce, "0x"+hex.EncodeToString(passkey.Bytes()),
		owner.Address())
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if got := created.Address(); got != reference.Address.String() {
		t.Fatalf("the account is %s, and the service's %s", got, reference.Address)
	}
	digest, _, err := apitypes.TypedDataAndHash(documentOf[apitypes.TypedData](t, mail))
	if err != nil {
		t.Fatal(err)
	}
	typed, err := account.SignTypedData(t.Context(), documentOf[roamcard.TypedData](t, mail))
	if want := reference.Sign(index, x402.Hash(digest)); err != nil || !bytes.Equal(typed, []byte(want)) {
		t.Errorf("typed data: %x, %v; want %x", typed, err, []byte(want))
	}
	text, err := account.SignMessage(t.Context(), "bitte schön")
	if want := reference.Sign(index, x402.Hash(accounts.TextHash([]byte("bitte schön")))); err != nil ||
		!bytes.Equal(text, []byte(want)) {
		t.Errorf("a text: %x, %v; want %x", text, err, []byte(want))
	}
	typed, err = created.SignTypedData(t.Context(), documentOf[roamcard.TypedData](t, mail))
	if want := reference.SignUndeployed(index, x402.Hash(digest)); err != nil || !bytes.Equal(typed, []byte(want)) {
		t.Errorf("typed data before it is deployed: %x, %v; want %x", typed, err, []byte(want))
	}
}
