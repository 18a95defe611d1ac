package roamcard_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/clients/go/roamcard/roamcardtest"
)

// accountVector is one of clients/testing/smartaccounts.json, which the clients of every language stand.
type accountVector struct {
	OwnerKey, Account string
	OwnerIndex        uint64
	// Owners and Nonce make an account that is not deployed.
	Owners             []string
	Nonce              uint64
	TypedData          roamcard.TypedData
	Message            string
	TypedDataSignature string
	MessageSignature   string
}

func (v accountVector) signer(t *testing.T) *roamcard.CoinbaseSmartAccount {
	t.Helper()
	owner, err := roamcard.NewKeySigner(v.OwnerKey)
	if err != nil {
		t.Fatal(err)
	}
	var account *roamcard.CoinbaseSmartAccount
	if v.Owners == nil {
		account, err = roamcard.NewCoinbaseSmartAccount(owner, v.Account, v.OwnerIndex)
	} else {
		account, err = roamcard.NewUndeployedCoinbaseSmartAccount(owner, v.Nonce, v.Owners...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return account
}

// undeployed is the vector of an account that is not deployed, whose owner is a key.
func undeployed(t *testing.T) accountVector {
	t.Helper()
	all := accountVectors(t)
	return all[slices.IndexFunc(all, func(v accountVector) bool { return len(v.Owners) == 1 })]
}

func accountVectors(t *testing.T) (all []accountVector) {
	t.Helper()
	data, err := os.ReadFile("../../testing/smartaccounts.json")
	if err := errors.Join(err, json.Unmarshal(data, &all)); err != nil || len(all) == 0 {
		t.Fatalf("%d vectors, %v", len(all), err)
	}
	return all
}

func TestSmartAccountsSignAsInEveryLanguage(t *testing.T) {
	t.Parallel()
	for _, v := range accountVectors(t) {
		account := v.signer(t)
		if !strings.EqualFold(account.Address(), v.Account) {
			t.Errorf("owner %d of %v: the account is %s, want %s", v.OwnerIndex, v.Owners, account.Address(), v.Account)
		}
		typed, err1 := account.SignTypedData(t.Context(), v.TypedData)
		text, err2 := account.SignMessage(t.Context(), v.Message)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if got := "0x" + hex.EncodeToString(typed); got != v.TypedDataSignature {
			t.Errorf("owner %d, typed data: %s, want %s", v.OwnerIndex, got, v.TypedDataSignature)
		}
		if got := "0x" + hex.EncodeToString(text); got != v.MessageSignature {
			t.Errorf("owner %d, message: %s, want %s", v.OwnerIndex, got, v.MessageSignature)
		}
	}
}

func TestSmartAccountVerifiesWhatItSigned(t *testing.T) {
	t.Parallel()
	deployed := accountVectors(t)[0]
	for _, v := range []accountVector{deployed, undeployed(t)} {
		account := v.signer(t)
		signature, err := account.SignTypedData(t.Context(), v.TypedData)
		if err != nil {
			t.Fatal(err)
		}
		if err := account.VerifyTypedData(v.TypedData, signature); err != nil {
			t.Error(err)
		}
		for i := range signature {
			other := bytes.Clone(signature)
			other[i] ^= 1
			if account.VerifyTypedData(v.TypedData, other) == nil {
				t.Errorf("with byte %d changed it is the account's, too", i)
			}
		}
		deployed.OwnerIndex++
		elsewhere, err := deployed.signer(t).SignTypedData(t.Context(), v.TypedData)
		if err != nil {
			t.Fatal(err)
		}
		for name, other := range map[string][]byte{
			"nothing": nil, "a word less": signature[:len(signature)-32], "a byte more": append(bytes.Clone(signature), 0),
			"another owner's": elsewhere, "a key's": signature[128:193],
		} {
			if account.VerifyTypedData(v.TypedData, other) == nil {
				t.Errorf("%s is the account's, too", name)
			}
		}
	}
}

func TestUndeployedAccountIsOfItsOwners(t *testing.T) {
	t.Parallel()
	owner, err := roamcard.NewKeySigner(key)
	if err != nil {
		t.Fatal(err)
	}
	alone, err1 := roamcard.NewUndeployedCoinbaseSmartAccount(owner, 0)
	word := "0x" + strings.Repeat("0", 24) + strings.TrimPrefix(owner.Address(), "0x")
	named, err2 := roamcard.NewUndeployedCoinbaseSmartAccount(owner, 0, word)
	next, err3 := roamcard.NewUndeployedCoinbaseSmartAccount(owner, 1)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if alone.Address() != named.Address() || alone.Address() == next.Address() {
		t.Errorf("%s, by name %s, the next one %s", alone.Address(), named.Address(), next.Address())
	}
	many := []string{owner.Address()}
	for i := range 20 {
		many = append(many, fmt.Sprintf("0x%040x", i+1))
	}
	for name, owners := range map[string][]string{
		"without the signer": {payTo}, "the signer twice": {owner.Address(), word}, "a text": {owner.Address(), "owner"},
		"another word":                {owner.Address(), "0x" + strings.Repeat("1", 64)},
		"an address without 0x":       {owner.Address(), payTo[2:]},
		"33 bytes":                    {owner.Address(), "0x" + strings.Repeat("0", 66)},
		"a wrong checksum":            {owner.Address(), strings.Replace(payTo, "C", "c", 1)},
		"more than a signature takes": many,
	} {
		if _, err := roamcard.NewUndeployedCoinbaseSmartAccount(owner, 0, owners...); err == nil {
			t.Errorf("%s: an account is made", name)
		}
	}
	if _, err := roamcard.NewUndeployedCoinbaseSmartAccount(posing{owner, "0x12"}, 0); err == nil {
		t.Error("an owner without an address has an account")
	}
}

func TestSmartAccountNeedsAnOwner(t *testing.T) {
	t.Parallel()
	owner, err := roamcard.NewKeySigner(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, account := range []string{"", "0x12", owner.Address()} {
		if _, err := roamcard.NewCoinbaseSmartAccount(owner, account, 0); err == nil {
			t.Errorf("%q is an account", account)
		}
	}
	// An owner that signs with another key than its address is of.
	v := accountVectors(t)[0]
	account, err := roamcard.NewCoinbaseSmartAccount(posing{owner, payTo}, v.Account, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := account.SignTypedData(t.Context(), v.TypedData); err == nil {
		t.Error("another key signed for the owner")
	}
}

// posing is a signer that says it has another address.
type posing struct {
	roamcard.Signer
	address string
}

func (p posing) Address() string { return p.address }

// altered is an account that signs with another signature than its own, and vouches for it.
type altered struct {
	roamcard.SmartAccount
	change func(signature []byte) []byte
}

func (a altered) SignTypedData(ctx context.Context, doc roamcard.TypedData) ([]byte, error) {
	signature, err := a.SmartAccount.SignTypedData(ctx, doc)
	return a.change(signature), err
}

func (altered) VerifyTypedData(roamcard.TypedData, []byte) error { return nil }

// bare hides that a signer is a smart account.
type bare struct{ roamcard.Signer }

// node answers eth_getCode.
func node(t *testing.T, code string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(asked), "eth_getCode") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":"`+code+`"}`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// paysFrom is a payer of a signer, with a node to ask or none.
func paysFrom(t *testing.T, signer roamcard.Signer, node string) *roamcard.Payer {
	t.Helper()
	p, _ := payer(t, roamcard.NewMemoryStore())
	p.Signer, p.RPCURL = signer, node
	return p
}

func TestSmartAccountPaysWhenItIsDeployed(t *testing.T) {
	t.Parallel()
	account, created := accountVectors(t)[0].signer(t), undeployed(t).signer(t)
	for name, c := range map[string]struct {
		signer roamcard.Signer
		node   string
		want   error
	}{
		"deployed":                    {account, node(t, "0x363d"), nil},
		"nobody can be asked":         {account, "", nil},
		"a node that does not answer": {account, node(t, "null"), nil},
		"without code":                {account, node(t, "0x"), roamcard.ErrNotDeployed},
		"made by its payment":         {created, node(t, "0x"), nil},
		"made meanwhile":              {created, node(t, "0x363d"), nil},
	} {
		s := open(t)
		s.accounts = true
		p := paysFrom(t, c.signer, c.node)
		status, err := buy(p, s, "k")
		if !errors.Is(err, c.want) || err == nil && status != http.StatusOK {
			t.Errorf("%s: %d, %v; want %v", name, status, err, c.want)
		}
		sent := s.sent()
		if len(sent) > 0 != (c.want == nil) {
			t.Errorf("%s: %d payments were sent", name, len(sent))
		}
		if c.want == nil {
			continue
		}
		if kept, err := p.Store.Read(t.Context()); err != nil || len(kept.Purchases) != 0 {
			t.Errorf("%s: the journal has %v, %v", name, kept.Purchases, err)
		}
		if got := roamcard.ReportOf(err).Code; got != "account_not_deployed" {
			t.Errorf("%s: the code is %s", name, got)
		}
	}
}

// What has the mark of ERC-6492 has its form, whatever the account says.
func TestSignatureThatNamesNoCreationIsNotSent(t *testing.T) {
	t.Parallel()
	created, mark := undeployed(t).signer(t), bytes.Repeat([]byte{0x64, 0x92}, 16)
	change := func(at int, to byte) func([]byte) []byte {
		return func(signature []byte) []byte {
			signature[at] = to
			return signature
		}
	}
	for name, c := range map[string]struct {
		change func([]byte) []byte
		sent   bool
	}{
		"as it is":                      {func(s []byte) []byte { return s }, true},
		"the mark alone":                {func([]byte) []byte { return append(make([]byte, 65), mark...) }, false},
		"a factory of 32 bytes":         {change(0, 1), false},
		"the call begins elsewhere":     {change(63, 0x80), false},
		"the signature begins too late": {change(94, 0x7f), false},
		"a call that is too long":       {change(126, 0x7f), false},
		"a call of 2^63 bytes":          {change(120, 0x80), false},
		"a call of 2^255 bytes":         {change(96, 0x80), false},
		"a word too many":               {func(s []byte) []byte { return slices.Concat(s[:len(s)-32], mark, mark) }, false},
		"a byte too few": {func(s []byte) []byte {
			return append(bytes.Clone(s[:len(s)-33]), mark...)
		}, false},
	} {
		s := open(t)
		s.accounts = true
		_, err := buy(paysFrom(t, altered{created, c.change}, ""), s, "k")
		if err == nil != c.sent || len(s.sent()) > 0 != c.sent {
			t.Errorf("%s: %v, %d payments were sent", name, err, len(s.sent()))
		}
	}
}

func TestKeysSignatureIsHeldToTheKey(t *testing.T) {
	t.Parallel()
	v := accountVectors(t)[0]
	owner, err := roamcard.NewKeySigner(v.OwnerKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, signer := range map[string]roamcard.Signer{
		"an account that is not named as one": bare{v.signer(t)},
		"a key for another address":           posing{owner, v.Account},
	} {
		s := open(t)
		if _, err := buy(paysFrom(t, signer, ""), s, "k"); err == nil || len(s.sent()) != 0 {
			t.Errorf("%s: %v, %d payments were sent", name, err, len(s.sent()))
		}
	}
}

func TestRefusedKindOfPayerIsNotSignedForAgain(t *testing.T) {
	t.Parallel()
	refusal := status(http.StatusForbidden, `{"code":"payer_kind_not_accepted","detail":"no","status":403}`)
	for _, v := range []accountVector{accountVectors(t)[0], undeployed(t)} {
		s := open(t, refusal, refusal)
		s.accounts = true
		p := paysFrom(t, v.signer(t), "")
		for range 2 {
			if status, err := buy(p, s, "k"); err != nil || status != http.StatusForbidden {
				t.Errorf("%d, %v", status, err)
			}
		}
		if sent := s.sent(); len(sent) != 2 || sent[0] != sent[1] {
			t.Errorf("%d payments, which are not the same", len(sent))
		}
	}
}

// TestRefusedKindOfPayerCannotRetry: another signature of such an account is none, too.
func TestRefusedKindOfPayerCannotRetry(t *testing.T) {
	t.Parallel()
	service := roamcardtest.New(roamcardtest.Config{})
	c, err := roamcard.New(roamcard.Config{
		BaseURL: service.URL(), Signer: accountVectors(t)[0].signer(t), HTTP: service.Transport(),
		Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 5000, MaxPerDay: 20_000},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Cards.Purchase(t.Context(), "k")
	if told, ok := errors.AsType[*roamcard.APIError](err); !ok || told.Code != "payer_kind_not_accepted" ||
		told.Retryable || !told.RetryAt.IsZero() || told.IdempotencyKey != "k" {
		t.Errorf("%+v", err)
	}
}
