package roamcard_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// accountVector is one of clients/testing/smartaccounts.json, which the clients of every language stand.
type accountVector struct {
	OwnerKey, Account  string
	OwnerIndex         uint64
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
	account, err := roamcard.NewCoinbaseSmartAccount(owner, v.Account, v.OwnerIndex)
	if err != nil {
		t.Fatal(err)
	}
	return account
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
	v := accountVectors(t)[0]
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
	v.OwnerIndex++
	elsewhere, err := v.signer(t).SignTypedData(t.Context(), v.TypedData)
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

// factory is an account that is not deployed, whose signatures say how it would be (ERC-6492).
type factory struct{ roamcard.SmartAccount }

func (f factory) SignTypedData(ctx context.Context, doc roamcard.TypedData) ([]byte, error) {
	signature, err := f.SmartAccount.SignTypedData(ctx, doc)
	return slices.Concat(signature, bytes.Repeat([]byte{0x64, 0x92}, 16)), err
}

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
	account := accountVectors(t)[0].signer(t)
	for name, c := range map[string]struct {
		signer roamcard.Signer
		node   string
		want   error
	}{
		"deployed":                          {account, node(t, "0x363d"), nil},
		"nobody can be asked":               {account, "", nil},
		"a node that does not answer":       {account, node(t, "null"), nil},
		"without code":                      {account, node(t, "0x"), roamcard.ErrNotDeployed},
		"a signature that brings a factory": {factory{account}, "", roamcard.ErrNotDeployed},
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
	s := open(t, refusal, refusal)
	s.accounts = true
	p := paysFrom(t, accountVectors(t)[0].signer(t), "")
	for range 2 {
		if status, err := buy(p, s, "k"); err != nil || status != http.StatusForbidden {
			t.Errorf("%d, %v", status, err)
		}
	}
	if sent := s.sent(); len(sent) != 2 || sent[0] != sent[1] {
		t.Errorf("%d payments, which are not the same", len(sent))
	}
}
