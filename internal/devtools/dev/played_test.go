package dev

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentNamesWhatPlayedVendorsTake: who sells over one with `roamcard serve` finds all that it checks.
func TestDocumentNamesWhatPlayedVendorsTake(t *testing.T) {
	page, err := os.ReadFile("../../../docs/providers/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vendors() {
		prefix := strings.ReplaceAll(v.name, "-", "_")
		wants := map[string]string{prefix + ".url": "URL/" + v.name + v.path, prefix + ".key": v.key}
		if v.calls {
			wants[prefix+".webhook_secrets"] = v.key
		}
		for name, text := range v.own {
			wants[name] = strings.ReplaceAll(text, "{url}", "URL/"+v.name+v.path)
		}
		for name, text := range wants {
			if line := "\n" + name + ": " + text + "\n"; text != unhurried && !strings.Contains(string(page), line) {
				t.Errorf("the document does not say %q", strings.TrimSpace(line))
			}
		}
	}
}
