package app_test

import (
	"errors"
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
		"environment": "sandbox", "base_url": "https://cards.example", "database.url": "postgres://db/roamcard",
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
		{"facilitator", map[string]string{"settlement.order": "facilitator"}, []string{url, token}},
		{"both", map[string]string{"settlement.order": "relayer,facilitator"}, []string{key, url, token}},
		{"both with a space, half", map[string]string{"settlement.order": "facilitator, relayer", key: "0x01", token: "t"},
			[]string{url}},
		{"facilitator, whole",
			map[string]string{"settlement.order": "facilitator", url: "https://f.example/platform/v2/x402", token: "t"}, nil},
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
		"must be https": {"settlement.order": "facilitator", "facilitator.url": "http://f.example",
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
