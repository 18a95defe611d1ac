package auth_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/auth/authtest"
)

func TestTypedDataHasTheFormOfWallets(t *testing.T) {
	d, w := newBench(t), authtest.NewWallet(t, "ada")
	c, document, err := d.Challenge(t.Context(), w.Address(), []auth.Scheme{auth.EIP712})
	if err != nil {
		t.Fatal(err)
	}
	plainJSON(t, "", map[string]any(document))
	got, err := json.MarshalIndent(document, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{
 "types": {
  "EIP712Domain": [
   {"name": "name", "type": "string"}, {"name": "version", "type": "string"}, {"name": "chainId", "type": "uint256"}],
  "SignIn": [
   {"name": "domain", "type": "string"}, {"name": "address", "type": "address"},
{"name": "statement", "type": "string"},
   {"name": "uri", "type": "string"}, {"name": "version", "type": "string"}, {"name": "chainId", "type": "uint256"},
   {"name": "nonce", "type": "string"}, {"name": "issuedAt", "type": "string"},
{"name": "expirationTime", "type": "string"},
   {"name": "requestId", "type": "string"}]},
 "primaryType": "SignIn",
 "domain": {"name": "roamcard", "version": "1", "chainId": 8453},
 "message": {
  "domain": "cards.example:8402", "address": %q, "uri": "https://cards.example:8402", "version": "1", "chainId": 8453,
  "statement": "Sign in to roamcard. This moves no money and reveals no card.", "nonce": %q, "requestId": %q,
  "issuedAt": "2026-03-01T12:00:00.123Z", "expirationTime": "2026-03-01T12:05:00.123Z"}}`, w.Address(), c.Nonce, c.ID)
	if diff := cmp.Diff(decode(t, []byte(want)), decode(t, got)); diff != "" {
		t.Errorf("typed data (-want +got):\n%s", diff)
	}
}

// plainJSON checks that a value has only plain JSON kinds.
func plainJSON(t *testing.T, path string, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			plainJSON(t, path+"."+k, e)
		}
	case []any:
		for _, e := range v {
			plainJSON(t, path+"[]", e)
		}
	case string, int64:
	default:
		t.Errorf("%s is a %T", path, v)
	}
}

func decode(t *testing.T, body []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
