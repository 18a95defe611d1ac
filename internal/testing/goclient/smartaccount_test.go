package goclient_test

import (
	"bytes"
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

// smartAccount buys from an account whose owner is a key, and from one that nobody has made on the chain.
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
	s.refusesAccountWithoutCode()
}

// refusesAccountWithoutCode buys from an account that nobody has made: the service says so, and no more is signed.
func (s *stage) refusesAccountWithoutCode() {
	ctx, w := s.t.Context(), s.walletWith(0)
	account := s.UndeployedAccount(w, 1_000_000_000)
	s.accounts = append(s.accounts, account.Address())
	journal := s.storedIn(filepath.Join(s.t.TempDir(), "journal.json"))
	for range 2 {
		_, err := s.buyer(account, journal).Cards.Purchase(ctx, "one")
		if !errors.Is(err, &roamcard.APIError{Code: "payer_kind_not_accepted"}) {
			s.t.Errorf("the service takes an account without code: %v", err)
		}
	}
	if w.signed() != 1 {
		s.t.Errorf("the owner signed %d times", w.signed())
	}
	asking := func(c *roamcard.Config) { c.RPCURL = s.RPCURL }
	if _, err := s.buyer(account, asking).Cards.Purchase(ctx, "two"); !errors.Is(err, roamcard.ErrNotDeployed) {
		s.t.Errorf("a node says that there is no code: %v", err)
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
	const index = 1
	by := smartaccounttest.Key{Private: key}
	reference := smartaccounttest.New(x402.ChainID, 0, smartaccounttest.NewPasskey(), by)
	account, err := roamcard.NewCoinbaseSmartAccount(owner, reference.Address.String(), index)
	if err != nil {
		t.Fatal(err)
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
}
