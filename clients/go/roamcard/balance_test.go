package roamcard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// A node's address may hold a key, which no error tells.
func TestBalanceIsAskedOfNoOtherNode(t *testing.T) {
	followed := func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }
	other := httptest.NewServer(http.HandlerFunc(followed))
	defer other.Close()
	node := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer node.Close()
	held, err := roamcard.USDCBalance(t.Context(), node.URL, payTo)
	if err == nil || strings.Contains(err.Error(), node.URL) {
		t.Errorf("%s, %v", held, err)
	}
}
