package dev_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/dev"
)

// vendors are all fakes, with books in memory.
func vendors(t *testing.T) http.Handler {
	t.Helper()
	all, err := dev.WithVendors(http.NotFoundHandler(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestIssuersNextToTheSandboxAnswer: the doctor's check of each passes, with the settings that a development server
// has.
func TestIssuersNextToTheSandboxAnswer(t *testing.T) {
	web := httptest.NewServer(vendors(t))
	defer web.Close()
	for _, name := range dev.Names(dev.Issuer) {
		c := app.Defaults()
		if err := dev.UseIssuer(&c, name, web.URL); err != nil {
			t.Fatal(err)
		}
		if name == "sandbox" {
			continue // it is played without us
		}
		found := false
		for _, e := range c.ExamineProviders(t.Context()) {
			if e.Name != "issuer" {
				continue
			}
			found = true
			if e.Err != nil || !strings.HasPrefix(e.Detail, name+": ") {
				t.Errorf("%s: %q, %v", name, e.Detail, e.Err)
			}
		}
		if !found {
			t.Errorf("%s was not examined", name)
		}
		c.IssuerLimits = true
		if err := dev.UseIssuer(&c, name, web.URL); err == nil {
			t.Errorf("%s has limits", name)
		}
		books, err := http.Get(dev.Books(name, web.URL))
		if err != nil || books.StatusCode != http.StatusOK {
			t.Errorf("%s shows no books: %v", name, err)
		}
		if err == nil {
			_ = books.Body.Close()
		}
	}
	c := app.Defaults()
	if err := dev.UseIssuer(&c, "nobody", web.URL); err == nil ||
		!strings.Contains(err.Error(), "only sandbox, lithic, stripe") {
		t.Errorf("an issuer that is none: %v", err)
	}
}

func TestSuppliersNextToTheSandboxAnswer(t *testing.T) {
	web := httptest.NewServer(vendors(t))
	defer web.Close()
	for _, name := range dev.Names(dev.Supplier) {
		c, sandbox := app.Defaults(), name == "sandbox"
		if err := dev.UseSupplier(&c, name, web.URL, 0); err != nil {
			t.Fatal(err)
		}
		if err := dev.UseSupplier(&c, name, web.URL, time.Second); (err != nil) != sandbox {
			t.Errorf("%s with a visibility delay: %v", name, err)
		}
		if sandbox {
			continue
		}
		if c.Esim.Provider != name {
			t.Errorf("the supplier is %q", c.Esim.Provider)
		}
		books, err := http.Get(dev.Books(name, web.URL))
		if err != nil || books.StatusCode != http.StatusOK {
			t.Errorf("%s shows no books: %v", name, err)
		}
		if err == nil {
			_ = books.Body.Close()
		}
	}
	c := app.Defaults()
	if err := dev.UseSupplier(&c, "lithic", web.URL, 0); err == nil ||
		!strings.Contains(err.Error(), "only sandbox, esim-access, esim-go") {
		t.Errorf("an issuer as a supplier: %v", err)
	}
}

// TestBooksThatCannotBeReadAreNotReplaced: whoever wrote them loses nothing.
func TestBooksThatCannotBeReadAreNotReplaced(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"lithic", "stripe", "esim-access", "esim-go"} {
		path := filepath.Join(dir, name+".json")
		if err := os.WriteFile(path, []byte(`{"half`), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := dev.WithVendors(http.NotFoundHandler(), dir, nil); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatCannotBeKeptIsNotAnswered: the client is left with an unknown outcome, as by a crash.
func TestWhatCannotBeKeptIsNotAnswered(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "books")
	all, err := dev.WithVendors(http.NotFoundHandler(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(all)
	defer web.Close()
	send := func() error {
		answer, err := http.Post(web.URL+"/lithic/v1/cards", "application/json", strings.NewReader(`{}`))
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	if err := send(); err != nil {
		t.Errorf("a request without a key: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	answer, err := http.PostForm(web.URL+"/stripe/elements/nonce", url.Values{"card": {"none"}})
	if err == nil {
		t.Errorf("answered %s", answer.Status)
		_ = answer.Body.Close()
	}
}
