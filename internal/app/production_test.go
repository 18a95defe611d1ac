package app_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
)

// productionSettings are a whole configuration of production, with real providers.
func productionSettings(issuer, supplier string) map[string]string {
	all := settlementSettings(map[string]string{
		"environment": "production", "contact.email": "operator@example.com", "relayer.keys": strings.Repeat("11", 32),
		"treasury.key": strings.Repeat("12", 32), "issuer.provider": issuer, "supplier.provider": supplier,
	})
	maps.Copy(all, map[string]map[string]string{
		"lithic": {
			"issuer.url": "https://api.lithic.com", "lithic.float_account": "8f1d9f0e-5a77-4b7e-8a53-0d2c6f4e7b02",
			"lithic.card_program": "2b6b4a5c-3c1e-4f0a-9d52-6c7f0a4b9e01",
			"lithic.transfer":     "TRANSFER/ACCOUNT_TO_ACCOUNT/load",
		},
		"stripe": {
			"issuer.url": "https://api.stripe.com", "issuer.key": "rk_live_1", "stripe.cardholder": "ich_1MzFMzK8rovbJBTu",
			"stripe.publishable_key": "pk_live_1",
		},
	}[issuer])
	maps.Copy(all, map[string]map[string]string{
		"esim-access": {"supplier.url": "https://api.esimaccess.com", "esim_access.secret": "s"},
		"esim-go":     {"supplier.url": "https://api.esim-go.com/v2.4"},
	}[supplier])
	return all
}

func TestProductionStartsWithEveryPairOfRealProviders(t *testing.T) {
	for _, issuer := range []string{"lithic", "stripe"} {
		for _, supplier := range []string{"esim-access", "esim-go"} {
			c, err := settlementLoad(productionSettings(issuer, supplier))
			if err != nil || c.Environment != app.Production || c.IssuerProvider != issuer || c.Esim.Provider != supplier {
				t.Errorf("%s and %s: %v", issuer, supplier, err)
			}
		}
	}
}

// TestProductionTellsTheOneSettingThatIsWrong, by its name and without a secret.
func TestProductionTellsTheOneSettingThatIsWrong(t *testing.T) {
	relayer, payee := devnet.WalletsOf(devnet.RoleRelayer)[1], devnet.WalletsOf(devnet.RolePayee)[0]
	for name, c := range map[string]struct {
		issuer, supplier string
		more             map[string]string
		want             string
	}{
		"the sandbox's cards": {
			"sandbox", "esim-go", nil, "issuer.provider: the sandbox sells cards that are not real; set environment to sandbox",
		},
		"the sandbox's eSIMs": {
			"stripe", "sandbox", nil,
			"supplier.provider: the sandbox sells eSIMs that are not real; set environment to sandbox",
		},
		"half of Lithic": {
			"lithic", "esim-go", map[string]string{"lithic.card_program": ""},
			"lithic.card_program (ROAMCARD_LITHIC__CARD_PROGRAM) is not set, and issuer.provider names lithic: " +
				"token of the card programme",
		},
		"half of Stripe": {
			"stripe", "esim-go", map[string]string{"stripe.cardholder": ""},
			"stripe.cardholder (ROAMCARD_STRIPE__CARDHOLDER) is not set, and issuer.provider names stripe: " +
				"ID of the operator's own cardholder, in whose name all cards are",
		},
		"pages of another mode of Stripe": {
			"stripe", "esim-go", map[string]string{"stripe.publishable_key": "pk_test_1"},
			"stripe.publishable_key: it and issuer.key are of different modes of Stripe",
		},
		"pages of another mode of the second issuer": {
			"lithic,stripe", "esim-go", map[string]string{"stripe.url": "https://api.stripe.com", "stripe.key": "sk_live_1",
				"stripe.publishable_key": "pk_test_1", "stripe.cardholder": "ich_1", "lithic.float_account": uuid.NewString(),
				"lithic.card_program": uuid.NewString(), "lithic.transfer": "A/B/c"},
			"stripe.publishable_key: it and stripe.key are of different modes of Stripe",
		},
		"a script over http": {
			"stripe", "esim-go", map[string]string{"stripe.elements_url": "http://127.0.0.1/stripe.js"},
			"stripe.elements_url: must be https in production",
		},
		"half of eSIM Access": {
			"stripe", "esim-access", map[string]string{"esim_access.secret": ""},
			"esim_access.secret (ROAMCARD_ESIM_ACCESS__SECRET) is not set, and supplier.provider names esim-access: " +
				"the key that signs requests to eSIM Access; supplier.key is the access code",
		},
		"an issuer without its key": {
			"lithic", "esim-go", map[string]string{"issuer.key": ""},
			"issuer.key (ROAMCARD_ISSUER__KEY) is not set: the card issuer's API key",
		},
		"an issuer without its address": {
			"stripe", "esim-go", map[string]string{"issuer.url": ""},
			"issuer.url (ROAMCARD_ISSUER__URL) is not set: the card issuer",
		},
		"a supplier without its address": {
			"stripe", "esim-go", map[string]string{"supplier.url": ""},
			"supplier.url (ROAMCARD_SUPPLIER__URL) is not set: the eSIM supplier, with the path of its API where it has one",
		},
		"a key of Stripe's test mode": {
			"stripe", "esim-go", map[string]string{"issuer.key": "sk_test_hunter2"},
			"issuer.key: the key is of Stripe's test mode; nothing it makes is real",
		},
		"Lithic by http": {
			"lithic", "esim-go", map[string]string{"issuer.url": "http://api.lithic.com"},
			"issuer.url: the URL is not https, and api.lithic.com is not this machine",
		},
		"Lithic by http on loopback": {
			"lithic", "esim-go", map[string]string{"issuer.url": "http://127.0.0.1:8080"},
			"issuer.url: must be https in production",
		},
		"Stripe by http": {
			"stripe", "esim-go", map[string]string{"issuer.url": "http://api.stripe.com"},
			"issuer.url: the URL is not https, and api.stripe.com is not this machine",
		},
		"Stripe by http on loopback": {
			"stripe", "esim-go", map[string]string{"issuer.url": "http://localhost:12111"},
			"issuer.url: must be https in production",
		},
		"eSIM Access by http on loopback": {
			"stripe", "esim-access", map[string]string{"supplier.url": "http://[::1]:8080"},
			"supplier.url: must be https in production",
		},
		"eSIM Go by http on loopback": {
			"stripe", "esim-go", map[string]string{"supplier.url": "http://127.0.0.1:8080/v2.4"},
			"supplier.url: must be https in production",
		},
		"a development key of the relayer": {
			"stripe", "esim-go", map[string]string{"relayer.keys": strings.Repeat("11", 32) + "," + relayer.PrivateKey},
			"relayer.keys, number 2: this is a public development key",
		},
		"a development key of the treasury": {
			"stripe", "esim-go", map[string]string{"treasury.key": relayer.PrivateKey},
			"treasury.key: this is a public development key",
		},
		"payment to a development wallet": {
			"stripe", "esim-go", map[string]string{"payment.pay_to": payee.Address},
			"payment.pay_to: the key of this address is a public development key",
		},
		"plain http": {
			"stripe", "esim-go", map[string]string{"base_url": "http://cards.example"}, "base_url: must be https in production",
		},
		"nobody to ask": {
			"stripe", "esim-go", map[string]string{"contact.email": ""},
			"contact.email: must be set in production, where registries ask for it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := productionSettings(c.issuer, c.supplier)
			maps.Copy(all, c.more)
			if _, err := settlementLoad(all); err == nil || err.Error() != c.want {
				t.Errorf("told %v, want %s", err, c.want)
			}
		})
	}
}

// TestMistakesOfProductionAreToldAtOnce, public keys among them.
func TestMistakesOfProductionAreToldAtOnce(t *testing.T) {
	all := productionSettings("sandbox", "esim-go")
	all["relayer.keys"], all["treasury.key"] = devnet.Wallets()[0].PrivateKey, devnet.Wallets()[1].PrivateKey
	all["supplier.url"] = "http://127.0.0.1/v2.4"
	_, err := settlementLoad(all)
	for _, want := range []string{"issuer.provider: ", "supplier.url: ", "relayer.keys, number 1: ", "treasury.key: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
}
