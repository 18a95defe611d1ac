package app_test

import (
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
	"github.com/roamcard/roamcard/internal/secret"
)

// TestIssuersDeclareWhatTheirAdaptersAndDocumentsHave: the routes follow the declaration.
func TestIssuersDeclareWhatTheirAdaptersAndDocumentsHave(t *testing.T) {
	for _, i := range []provider.Issuer{lithic.AsIssuer(), stripe.AsIssuer()} {
		t.Run(i.Name, func(t *testing.T) {
			own := provider.Values{}
			for _, s := range i.Settings {
				own[s.Key] = secret.New(s.Default)
			}
			for key, text := range map[string]string{
				lithic.FloatKey: lithicfake.Float, lithic.ProgramKey: lithicfake.Program, lithic.AccountKey: "",
				lithic.TransferKey: "TRANSFER/ACCOUNT_TO_ACCOUNT/load", stripe.CardholderKey: stripefake.DevCardholder,
				stripe.PublishableKey: stripefake.DevPublishable,
			} {
				own[key] = secret.New(text)
			}
			client, err := i.Dial(provider.Config{
				URL: "http://127.0.0.1:1", Key: secret.New(stripefake.DevKey), CallTimeout: time.Second, Own: own,
				Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			declared := client.Capabilities()
			_, controls := client.(card.Controls)
			_, closes := client.(card.Closer)
			document, err := os.ReadFile("../../docs/providers/" + i.Name + ".md")
			if err != nil {
				t.Fatal(err)
			}
			_, table, _ := strings.Cut(string(document), "## Capabilities\n")
			table, _, _ = strings.Cut(table, "\n## ")
			for row, c := range map[string]struct{ declared, adapter bool }{
				"freeze": {declared.Freeze, controls}, "transactions": {declared.Transactions, controls},
				"limits": {declared.Limits.Any(), controls}, "close": {declared.Close, closes},
			} {
				rows := regexp.MustCompile(`(?m)^\| `+row+` \| (.*) \|$`).FindAllStringSubmatch(table, -1)
				if len(rows) != 1 {
					t.Errorf("%s: the document has %d rows", row, len(rows))
					continue
				}
				if documented := !strings.HasPrefix(rows[0][1], "none"); c.declared != c.adapter || c.declared != documented {
					t.Errorf("%s: declared %t, adapter %t, documented %t", row, c.declared, c.adapter, documented)
				}
			}
		})
	}
}
