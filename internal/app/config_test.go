package app_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
)

// settlementSettings are a whole configuration but for its settlers.
func settlementSettings(more map[string]string) map[string]string {
	all := map[string]string{
		"environment": "sandbox", "base_url": "https://cards.example",
		"database.url":  "postgres://db/roamcard?sslmode=verify-full",
		"chain.rpc_url": "https://base.example", "payment.pay_to": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
		"supplier.url": "https://supplier.example", "supplier.key": "k", "esim.keys": "k1:" + strings.Repeat("c4", 32),
		"esim.token_key": strings.Repeat("7e", 32),
		"issuer.url":     "https://issuer.example", "issuer.key": "k", "quote.key": strings.Repeat("5a", 32),
	}
	for k, v := range more {
		all[k] = v
	}
	return all
}

func settlementLoad(file map[string]string) (app.Config, error) {
	return app.Load(file, func(string) (string, bool) { return "", false },
		func(string) ([]byte, error) { return nil, errors.New("no file") })
}

func TestOnlyTheSettlersInTheOrderHaveToBeConfigured(t *testing.T) {
	const key, url, token = "relayer.keys", "facilitator.url", "facilitator.token"
	tests := []struct {
		name    string
		more    map[string]string
		missing []string
	}{
		{"nothing said", nil, []string{key}},
		{"relayer", map[string]string{"settlement.order": "relayer"}, []string{key}},
		{"facilitator", map[string]string{"settlement.order": "facilitator"}, []string{url}},
		{"both", map[string]string{"settlement.order": "relayer,facilitator"}, []string{key, url}},
		{"both with a space, half", map[string]string{"settlement.order": "facilitator, relayer", key: "0x01", token: "t"},
			[]string{url}},
		{"facilitator, whole",
			map[string]string{"settlement.order": "facilitator", url: "https://f.example/platform/v2/x402", token: "t"}, nil},
		{"facilitator without authentication",
			map[string]string{"settlement.order": "facilitator", url: "https://f.example"}, nil},
		{"a facilitator that nobody asks for", map[string]string{key: "0x01", url: "https://f.example"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := settlementLoad(settlementSettings(tt.more))
			told := ""
			if err != nil {
				told = err.Error()
			}
			for _, name := range []string{key, url, token} {
				if got, want := strings.Contains(told, name+" ("), slices.Contains(tt.missing, name); got != want {
					t.Errorf("%s is missed: %t, want %t in:\n%s", name, got, want, told)
				}
			}
			if (err != nil) != (len(tt.missing) > 0) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestSettlementThatCannotBeIsRefusedWithoutQuotingSecrets(t *testing.T) {
	tests := map[string]map[string]string{
		"settlement.order":          {"settlement.order": "bank", "relayer.keys": "0x01"},
		"facilitator.url":           {"facilitator.url": "https://user:hunter2@f.example", "relayer.keys": "0x01"},
		"settlement.fallback_delay": {"settlement.fallback_delay": "-1s", "relayer.keys": "0x01"},
		"facilitator.url: the URL is not https": {"settlement.order": "facilitator", "facilitator.url": "http://f.example",
			"facilitator.token": "hunter2",
			"environment":       "production"},
	}
	for want, more := range tests {
		_, err := settlementLoad(settlementSettings(more))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %s told and no secret", err, want)
		}
	}
}

func TestFacilitatorIsAskedByTokenOrByWholeKey(t *testing.T) {
	const token, id, key = "facilitator.token", "facilitator.key_id", "facilitator.key_secret"
	for name, tt := range map[string]struct {
		set  map[string]string
		want string // is empty where nothing is wrong
	}{
		"neither":            {nil, ""},
		"a token":            {map[string]string{token: "hunter2"}, ""},
		"a key":              {map[string]string{id: "k1", key: "hunter2"}, ""},
		"a token and a key":  {map[string]string{token: "hunter2", id: "k1", key: "hunter2"}, token + ": a key is set, too"},
		"an id alone":        {map[string]string{id: "k1"}, key + " (ROAMCARD_FACILITATOR__KEY_SECRET) is not set"},
		"a secret alone":     {map[string]string{key: "hunter2"}, id + " (ROAMCARD_FACILITATOR__KEY_ID) is not set"},
		"a token and an id":  {map[string]string{token: "hunter2", id: "k1"}, token + ": a key is set, too"},
		"by the environment": {map[string]string{id: "k1", key: "env:CDP_KEY"}, ""},
	} {
		tt.set = maps.Clone(tt.set)
		if tt.set == nil {
			tt.set = map[string]string{}
		}
		tt.set["settlement.order"], tt.set["facilitator.url"] = "facilitator", "https://f.example"
		told := ""
		if _, err := settlementLoad(settlementSettings(tt.set)); err != nil {
			told = err.Error()
		}
		if (told != "") != (tt.want != "") || !strings.Contains(told, tt.want) || strings.Contains(told, "hunter2") {
			t.Errorf("%s: %q, want %q", name, told, tt.want)
		}
	}
}

func TestSmartAccountsNeedARelayersKeyOfTheirOwn(t *testing.T) {
	const kinds, own = "payment.smart_accounts", "relayer.smart_account_keys"
	other := strings.Repeat("22", 32)
	for name, tt := range map[string]struct {
		set  map[string]string
		want string // is empty where nothing is wrong
	}{
		"no kinds":        {nil, ""},
		"a key, no kinds": {map[string]string{own: other}, ""},
		"both":            {map[string]string{kinds: "safe", own: other}, ""},
		"kinds alone":     {map[string]string{kinds: "safe"}, own + " is not set"},
	} {
		set := map[string]string{"relayer.keys": strings.Repeat("11", 32)}
		maps.Copy(set, tt.set)
		told := ""
		if _, err := settlementLoad(settlementSettings(set)); err != nil {
			told = err.Error()
		}
		if (told != "") != (tt.want != "") || !strings.Contains(told, tt.want) {
			t.Errorf("%s: %q, want %q", name, told, tt.want)
		}
	}
}

func TestUnpaidOrdersLiveAMinuteAtLeast(t *testing.T) {
	for value, ok := range map[string]bool{"1m": true, "24h": true, "59s": false, "0s": false, "-1h": false, "x": false} {
		_, err := settlementLoad(settlementSettings(map[string]string{"relayer.keys": "0x01", "order.payable_for": value}))
		if told := err != nil && strings.Contains(err.Error(), "order.payable_for (from the file)"); told == ok {
			t.Errorf("%s: %v", value, err)
		}
	}
	if c, err := settlementLoad(settlementSettings(map[string]string{"relayer.keys": "0x01"})); err != nil ||
		c.PayableFor != 30*time.Minute {
		t.Errorf("the default is %s, %v", c.PayableFor, err)
	}
}

// TestTwoNamesOfOneNodeAreRefused: they would vouch for each other.
func TestTwoNamesOfOneNodeAreRefused(t *testing.T) {
	node := httptest.NewServer(http.NotFoundHandler())
	node.Close()
	lookup := func(name string) (string, bool) {
		if name == "ROAMCARD_CHAIN__RPC_URL" {
			return node.URL + "," + node.URL, true
		}
		return "", false
	}
	_, err := app.Load(nil, lookup, nil)
	if err == nil || !strings.Contains(err.Error(), "no URL twice") {
		t.Error(err)
	}
}

// TestSettingsThatCannotWorkAreMistakes: each is told once, with what is wrong about it.
func TestSettingsThatCannotWorkAreMistakes(t *testing.T) {
	lithicWith := func(float string) map[string]string {
		return map[string]string{
			"issuer.provider": "lithic", "lithic.card_program": "5e9483eb-8103-4e16-9794-2106111b2eca",
			"lithic.transfer": "TRANSFER/ACCOUNT_TO_ACCOUNT/load", "lithic.float_account": float,
		}
	}
	withSecrets := func(all map[string]string, secrets string) map[string]string {
		all["issuer.webhook_secrets"] = secrets
		return all
	}
	stripe := func(key, holder string) map[string]string {
		return map[string]string{
			"issuer.provider": "stripe", "issuer.key": key, "stripe.cardholder": holder, "stripe.publishable_key": "pk_test_1",
		}
	}
	for _, c := range []struct {
		more map[string]string
		told []string
	}{
		{stripe("sk_test_1", "ich_1"), nil},
		{stripe("pk_test_1", "ich_1"), []string{"issuer.key: is a publishable key"}},
		{stripe("sk_test_1", "cus_1"), []string{"stripe.cardholder (from the file): is the ID of a cardholder"}},
		{lithicWith("mine"), []string{"lithic.float_account (from the file): must be a token"}},
		{map[string]string{"routing.rules": "esim country=FR,XX: sandbox"},
			[]string{"routing.rules: rule 1: no country has the code XX"}},
		{map[string]string{"issuer.webhook_secrets": "whsec_"}, []string{"number 1 is too short"}},
		{map[string]string{"sandbox.webhook_secrets": "a-long-secret,,abcdefgh"}, []string{"number 2 is empty"}},
		// What is no secret of the scheme of the provider that is chosen.
		{withSecrets(lithicWith("8f1d9f0e-5a77-4b7e-8a53-0d2c6f4e7b02"), "whsec_bm90IGEgc2VjcmV0IGF0IGFsbA=="), nil},
		{withSecrets(lithicWith("8f1d9f0e-5a77-4b7e-8a53-0d2c6f4e7b02"),
			"whsec_bm90IGEgc2VjcmV0IGF0IGFsbA==, hunter2-hunter2!, whsec_c2hvcnQgb25l"), []string{
			"issuer.webhook_secrets: number 2: a webhook secret is base64",
			"issuer.webhook_secrets: number 3: a webhook secret is base64 of at least 16 bytes",
		}},
		{withSecrets(stripe("sk_test_1", "ich_1"), "whsec_hunter2-is-no-base64,whsec_another-one"), nil},
		{withSecrets(stripe("sk_test_1", "ich_1"), "sk_test_hunter2"),
			[]string{"issuer.webhook_secrets: number 1: the signing secret of a webhook endpoint begins with whsec_"}},
		{map[string]string{"screening.lists": "ftp://a.example/l,https://b.example/l,gopher://c.example/l"},
			[]string{"screening.lists (from the file): number 1: ", "number 3: "}},
		{map[string]string{"payment.pay_to": "0x209693bc6afc0C5328bA36FaF03C514EF312287C"}, []string{"EIP-55 checksum"}},
		{map[string]string{"payment.pay_to": "0x" + strings.Repeat("0", 40)},
			[]string{"payment.pay_to (from the file): the zero address is nobody's"}},
	} {
		more := map[string]string{"relayer.keys": "0x01"}
		for k, v := range c.more {
			more[k] = v
		}
		_, err := settlementLoad(settlementSettings(more))
		var lines []string
		if err != nil {
			lines = strings.Split(err.Error(), "\n")
		}
		if len(lines) != len(c.told) {
			t.Errorf("%v: told %q, want %q", c.more, lines, c.told)
			continue
		}
		for i, want := range c.told {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%v: told %q, want %q", c.more, lines[i], want)
			}
			if strings.Contains(lines[i], "hunter2") {
				t.Errorf("a secret is told: %q", lines[i])
			}
		}
	}
}

func TestVariableAndItsFileAreNotBothSet(t *testing.T) {
	all := settlementSettings(map[string]string{"relayer.keys": "0x01"})
	_, err := app.Load(all, func(name string) (string, bool) {
		v, ok := map[string]string{"ROAMCARD_QUOTE__KEY": "a", "ROAMCARD_QUOTE__KEY_FILE": "/b"}[name]
		return v, ok
	}, func(string) ([]byte, error) { return []byte(strings.Repeat("5a", 32)), nil })
	if err == nil || !strings.Contains(err.Error(), "quote.key (ROAMCARD_QUOTE__KEY_FILE): ") ||
		!strings.Contains(err.Error(), "set one of them") {
		t.Error(err)
	}
}

// TestEmptyFileEmptiesWhatMayBeEmpty, as the last step of a rotation does, and nothing that must be set.
func TestEmptyFileEmptiesWhatMayBeEmpty(t *testing.T) {
	for name, want := range map[string]bool{"relayer.retired": true, "treasury.retired": true, "quote.key": false} {
		variable := "ROAMCARD_" + strings.ToUpper(strings.ReplaceAll(name, ".", "__")) + "_FILE"
		all := settlementSettings(map[string]string{"relayer.keys": "0x01"})
		delete(all, name)
		files := map[string]string{variable: "/empty"}
		_, err := app.Load(all, func(name string) (string, bool) { path, ok := files[name]; return path, ok },
			func(string) ([]byte, error) { return []byte("\n"), nil })
		if told := fmt.Sprint(err); strings.Contains(told, name+" (") == want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKeysOfNodesAreNotShown: a node's URL may contain a key at any place after its scheme and host.
func TestKeysOfNodesAreNotShown(t *testing.T) {
	t.Setenv("ROAMCARD_CHAIN__RPC_URL",
		"https://user:n0de@a.example, https://b.example/v2/n0de,https://c.example?key=n0de,"+
			"https://d.example,https://e.example:8545/")
	var out strings.Builder
	if err := app.ShowConfig("", true, &out); err != nil {
		t.Fatal(err)
	}
	const want = "https://a.example/[redacted],https://b.example/[redacted],https://c.example/[redacted]," +
		"https://d.example,https://e.example:8545/"
	if shown := out.String(); !strings.Contains(shown, want) || strings.Contains(shown, "n0de") {
		t.Errorf("shown is\n%s", shown)
	}
}
