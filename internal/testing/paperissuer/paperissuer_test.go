package paperissuer_test

import (
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/testing/paperissuer"
)

func TestPaperIssuerKeepsToTheSuite(t *testing.T) {
	office := paperissuer.NewOffice(10_000_000, time.Now)
	client, err := office.Register().Dial(provider.Config{Own: provider.Values{
		"paper.bin": secret.New("400001"), "paper.stamp": secret.New("blue"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	cardtest.Run(t, cardtest.Harness{
		Handles: fulfilmenttest.Handles{Traits: client.Traits(), Settle: func() {}},
		Issuer:  client, Vault: client, Stock: client, Lister: client,
		Capabilities: client.Capabilities(),
	})
}
