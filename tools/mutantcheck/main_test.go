package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const source = `package shop

import "strings"

func Name(s string) string {
	s = strings.TrimSpace(s)
	return strings.ToLower(s)
}
`

// patch makes a bug of what is removed and added in the line that trims.
func patch(by, removed, added string) string {
	return "A bug.\ncaught by: " + by + "\n\n--- a/internal/shop/shop.go\n+++ b/internal/shop/shop.go\n" +
		"@@ -3,6 +3,6 @@\n import \"strings\"\n \n func Name(s string) string {\n-" + removed + "\n+" + added +
		"\n \treturn strings.ToLower(s)\n }\n"
}

func TestCheckTellsWhatCannotBePlanted(t *testing.T) {
	const line = "\ts = strings.TrimSpace(s)"
	cases := map[string]struct{ patch, says string }{
		"planted":   {patch("shop Trims", line, "\ts = strings.TrimLeft(s, \" \")"), ""},
		"conflict":  {patch("shop Trims", line, "\ts = strings.TrimRight(s, \" \")"), ""},
		"anchored":  {patch("shop Trims$", line, "\ts = strings.TrimRight(s, \" \")"), ""},
		"older":     {patch("shop Trims", "\ts = strings.Trim(s)", "\ts += s"), "does not apply"},
		"unknown":   {patch("shop Trims", line, "\ts = strip(s)"), "undefined: strip"},
		"unused":    {patch("shop Trims", line, "\tx := s"), "declared and not used"},
		"syntax":    {patch("shop Trims", line, "\ts = ("), "does not parse"},
		"untested":  {patch("shop Lowers", line, "\ts += s"), "no test like"},
		"elsewhere": {patch("till Trims", line, "\ts += s"), "no test like"},
	}
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	write("go.mod", "module example.com/shop\n\ngo 1.26.0\n")
	write("internal/shop/shop.go", source)
	write("internal/shop/shop_test.go", "package shop\n\nimport \"testing\"\n\nfunc TestTrims(t *testing.T) {}\n")
	var names []string
	for name, c := range cases {
		names = append(names, name)
		write("tools/mutants/"+name+".patch", c.patch)
	}
	mutants, err := readAll(root, names)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newChecker(root, mutants)
	if err != nil {
		t.Fatal(err)
	}
	w := c.worker()
	for _, m := range mutants {
		switch err, says := w.check(m), cases[m.name].says; {
		case says == "" && err != nil:
			t.Errorf("%s: %v", m.name, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v, want %q", m.name, err, says)
		}
	}
}

func TestPatchesAreReadStrictly(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "tools/mutants"), 0o755); err != nil {
		t.Fatal(err)
	}
	good := patch("shop Trims", "\ta", "\tb")
	for name, text := range map[string]string{
		"nobody":  strings.Replace(good, "caught by: shop Trims", "caught by: shop", 1),
		"nothing": "A bug.\ncaught by: shop Trims\n",
		"two":     good + strings.ReplaceAll(good, "internal/shop/", "internal/till/"),
		"pattern": strings.Replace(good, "Trims", "Tr(ims", 1),
	} {
		if err := os.WriteFile(filepath.Join(root, "tools/mutants", name+".patch"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(root, []string{name}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
