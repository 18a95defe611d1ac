package roamcard_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

func TestPaymentFollowsNoRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed")
	}))
	defer other.Close()
	service := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer service.Close()
	signer, err := roamcard.NewKeySigner(key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := roamcard.New(roamcard.Config{BaseURL: service.URL, Signer: signer})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cards.Purchase(t.Context(), roamcard.NewKey()); !errors.Is(err, &roamcard.APIError{Code: "http_307"}) {
		t.Error(err)
	}
	if _, err := c.Orders.Pay(t.Context(), "ord_1"); !errors.Is(err, &roamcard.APIError{Code: "http_307"}) {
		t.Error(err)
	}
}
