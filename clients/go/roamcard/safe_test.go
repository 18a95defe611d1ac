package roamcard_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// safeVector is one of clients/testing/safes.json, which the clients of every language stand.
type safeVector struct {
	OwnerKeys          []string
	Account            string
	TypedData          roamcard.TypedData
	Message            string
	TypedDataSignature string
	MessageSignature   string
}

func (v safeVector) owners(t *testing.T) (owners []roamcard.Signer) {
	t.Helper()
	for _, key := range v.OwnerKeys {
		owner, err := roamcard.NewKeySigner(key)
		if err != nil {
			t.Fatal(err)
		}
		owners = append(owners, owner)
	}
	return owners
}

func TestSafesSignAsInEveryLanguage(t *testing.T) {
	t.Parallel()
	var all []safeVector
	data, err := os.ReadFile("../../testing/safes.json")
	if err := errors.Join(err, json.Unmarshal(data, &all)); err != nil || len(all) == 0 {
		t.Fatalf("%d vectors, %v", len(all), err)
	}
	for _, v := range all {
		account, err := roamcard.NewSafeAccount(v.Account, v.owners(t)...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.EqualFold(account.Address(), v.Account) {
			t.Errorf("the account is %s", account.Address())
		}
		typed, err1 := account.SignTypedData(t.Context(), v.TypedData)
		text, err2 := account.SignMessage(t.Context(), v.Message)
		if err := errors.Join(err1, err2, account.VerifyTypedData(v.TypedData, typed)); err != nil {
			t.Fatal(err)
		}
		if "0x"+hex.EncodeToString(typed) != v.TypedDataSignature || "0x"+hex.EncodeToString(text) != v.MessageSignature {
			t.Errorf("%d owners: %x and %x", len(v.OwnerKeys), typed, text)
		}
		for i := range typed {
			other := bytes.Clone(typed)
			other[i] ^= 1
			if account.VerifyTypedData(v.TypedData, other) == nil {
				t.Errorf("with byte %d changed it is the account's, too", i)
			}
		}
		if account.VerifyTypedData(v.TypedData, append(slices.Clone(typed), 0)) == nil {
			t.Error("with a byte more it is the account's, too")
		}
	}
}

func TestSafeNamesItsOwners(t *testing.T) {
	t.Parallel()
	owners := safeVector{OwnerKeys: []string{"0x" + strings.Repeat("46", 32)}}.owners(t)
	const account = "0x5afe5afe5afe5afe5afe5afe5afe5afe5afe5afe"
	tests := []struct {
		name, account string
		owners        []roamcard.Signer
	}{
		{"no address", "0x12", owners},
		{"no owner", account, nil},
		{"an owner twice", account, []roamcard.Signer{owners[0], owners[0]}},
		{"its own owner", owners[0].Address(), owners},
		{"too many owners", account, make([]roamcard.Signer, 32)},
	}
	for _, tt := range tests {
		if _, err := roamcard.NewSafeAccount(tt.account, tt.owners...); err == nil {
			t.Errorf("made with %s", tt.name)
		}
	}
}
