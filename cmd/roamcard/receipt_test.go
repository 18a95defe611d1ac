package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/receipt"
)

// receiptFiles are a receipt of a service at an origin, and the document of its keys.
func receiptFiles(t *testing.T, origin string, key byte) (jws, did string) {
	t.Helper()
	s, err := receipt.New(origin, slices.Repeat([]byte{key}, 32))
	if err != nil {
		t.Fatal(err)
	}
	jws, err = s.Receipt(receipt.Claims{
		OrderID: "ord_1", Outcome: receipt.Delivered, Payer: "0xpayer", Amount: "25000000", ResourceURL: origin + "/api/x",
	})
	if err != nil {
		t.Fatal(err)
	}
	document, err := s.Document()
	if err != nil {
		t.Fatal(err)
	}
	did = filepath.Join(t.TempDir(), "did.json")
	if err := os.WriteFile(did, document, 0o600); err != nil {
		t.Fatal(err)
	}
	return jws, did
}

func verified(args ...string) (string, error) {
	cmd := receipts()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"verify"}, args...))
	err := cmd.Execute()
	return out.String(), err
}

func TestReceiptIsVerifiedOffline(t *testing.T) {
	jws, did := receiptFiles(t, "https://shop.example", 1)
	dir := t.TempDir()
	answer, err := json.Marshal(map[string]string{"format": "jws", "signature": jws, "orderId": "ord_1"})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		"receipt.jws": []byte(jws + "\n"), "receipt.json": answer, "order.json": []byte(`{"receipt":"` + jws + `"}`),
		"one.json": []byte(`{"receipts":[` + string(answer) + `]}`),
	}
	args := []string{jws}
	for name, content := range files {
		args = append(args, filepath.Join(dir, name))
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, arg := range args {
		out, err := verified(arg, "--did", did)
		if err != nil || !strings.Contains(out, "signed by did:web:shop.example") || !strings.Contains(out, "ord_1") {
			t.Errorf("%s: %s, %v", arg, out, err)
		}
	}
	_, other := receiptFiles(t, "https://shop.example", 2)
	for name, args := range map[string][]string{
		"another key": {jws, "--did", other}, "no keys": {jws}, "both": {jws, "--did", did, "--origin", "https://a.example"},
		"no file": {filepath.Join(dir, "none"), "--did", did}, "no receipt": {did, "--did", did},
	} {
		if out, err := verified(args...); err == nil {
			t.Errorf("%s: %s", name, out)
		}
	}
}

func TestReceiptIsVerifiedWithThePublishedKeys(t *testing.T) {
	var document []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == receipt.DocumentPath {
			_, _ = w.Write(document)
		}
	}))
	defer s.Close()
	jws, did := receiptFiles(t, s.URL, 1)
	var err error
	if document, err = os.ReadFile(did); err != nil {
		t.Fatal(err)
	}
	if out, err := verified(jws, "--origin", s.URL); err != nil {
		t.Errorf("%s, %v", out, err)
	}
	jws, did = receiptFiles(t, "https://shop.example", 1)
	if document, err = os.ReadFile(did); err != nil {
		t.Fatal(err)
	}
	if out, err := verified(jws, "--origin", s.URL); err == nil || !strings.Contains(err.Error(), "publishes no keys") {
		t.Errorf("keys of another: %s, %v", out, err)
	}
}
