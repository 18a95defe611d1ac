package x402

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRequiredTemplateChangesItsTextOnly, wherever the text begins and ends among the groups of base64.
func TestRequiredTemplateChangesItsTextOnly(t *testing.T) {
	for before := range 4 {
		for after := range 4 {
			required := PaymentRequired{Extensions: map[string]any{
				"a": strings.Repeat("x", before), "b": "NONCE1", "c": strings.Repeat("x", after),
			}}
			header, err := EncodeRequired(required)
			if err != nil {
				t.Fatal(err)
			}
			template, err := NewRequiredTemplate(header, "NONCE1")
			if err != nil {
				t.Fatal(err)
			}
			if same, err := template.With("NONCE1"); err != nil || same != header {
				t.Fatalf("with the same text: %q, %v", same, err)
			}
			changed, err := template.With("NONCE2")
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeRequired(changed)
			required.Extensions["b"] = "NONCE2"
			if diff := cmp.Diff(required, got); err != nil || diff != "" {
				t.Errorf("%v, -want +got:\n%s", err, diff)
			}
			if _, err := template.With("NONCE10"); err == nil {
				t.Error("a longer text is taken")
			}
		}
	}
	for _, text := range []string{"", "NONCE"} {
		if _, err := NewRequiredTemplate("e30=", text); err == nil {
			t.Errorf("%q is found in nothing", text)
		}
	}
}
