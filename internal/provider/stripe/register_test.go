package stripe_test

import (
	"testing"

	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/secret"
)

func TestProductionRefusesKeysOfTheTestMode(t *testing.T) {
	registered := stripe.AsIssuer()
	if !registered.Real {
		t.Error("the cards are not real")
	}
	for key, wrong := range map[string]bool{"sk_test_1": true, "rk_test_1": true, "sk_live_1": false, "rk_live_1": false} {
		for _, production := range []bool{true, false} {
			got := registered.Validate(provider.Config{Key: secret.New(key), Production: production})
			if (len(got) > 0) != (wrong && production) {
				t.Errorf("%s, in production %t: %v", key, production, got)
			}
		}
	}
}

func TestAddressWithoutHTTPSIsToldByItsSetting(t *testing.T) {
	for address, want := range map[string]string{
		"": "", "https://api.stripe.com": "", "http://127.0.0.1:12111": "",
		"http://api.stripe.com": "issuer.url: the URL is not https, and api.stripe.com is not this machine",
	} {
		told := ""
		for _, err := range stripe.AsIssuer().Validate(provider.Config{URL: address}) {
			told += err.Error()
		}
		if told != want {
			t.Errorf("%q: told %q, want %q", address, told, want)
		}
	}
}

func TestCardholderIsAnID(t *testing.T) {
	setting := stripe.AsIssuer().Settings[0]
	for text, fine := range map[string]bool{
		"ich_1MzFMzK8rovbJBTu": true, "": false, "../balance": false, "ich_1?expand=x": false,
	} {
		if err := setting.Check(text); (err == nil) != fine {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPublishableKeyIsNoSecretOneAndOfTheSameMode(t *testing.T) {
	registered := stripe.AsIssuer()
	for text, fine := range map[string]bool{"pk_test_1": true, "sk_test_1": false, "": false, "pk_<": false} {
		if err := registered.Settings[1].Check(text); (err == nil) != fine {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, fine := range map[string]bool{"pk_test_1": true, "pk_live_1": false} {
		got := registered.Validate(provider.Config{
			Key: secret.New("sk_test_1"), Own: provider.Values{stripe.PublishableKey: secret.New(text)},
		})
		if (len(got) == 0) != fine {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestDialledIssuerIsALimitIssuer whose numbers are shown on a page: what the program follows.
func TestDialledIssuerIsALimitIssuer(t *testing.T) {
	b := start(t)
	client, err := stripe.AsIssuer().Dial(provider.Config{
		URL: b.web.URL + "/", Key: secret.New("k"), Own: provider.Values{
			stripe.CardholderKey: secret.New("ich_1"), stripe.PublishableKey: secret.New("pk_test_1"),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Capabilities().Check(); err != nil {
		t.Error(err)
	}
	if c := client.Capabilities(); c.Funding != card.Limit || c.Reveal != card.RevealEmbed || c.BINs {
		t.Errorf("it declares %+v", c)
	}
	// Another key is not the account's.
	if stock, err := client.Stock(t.Context()); err == nil {
		t.Errorf("stock is %+v", stock)
	}
}
