package endtoend_test

import (
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/testing/paperissuer"
)

// TestIssuerIsAddedByOneLine: cards are sold over an issuer that the program has not heard of. Its folder is
// testing/paperissuer.
func TestIssuerIsAddedByOneLine(t *testing.T) {
	t.Parallel()
	office := paperissuer.NewOffice(10_000_000, time.Now)
	w := newWorld(t, plan{change: func(c *app.Config) {
		withOperator(c)
		c.Added.Issuers = append(c.Added.Issuers, office.Register())
		c.IssuerProvider = paperissuer.Name
		c.ProviderSettings = provider.Values{"paper.bin": secret.New("411111"), "paper.stamp": secret.New("blue")}
	}})
	b := w.buyer()
	o := b.buyCard("a-card-on-paper-1")
	var shown struct {
		Credentials struct{ Number string } `json:"credentials"`
	}
	var ch struct{ IntentID, Message string }
	b.post("/api/cards/"+o.Issuance.CardID+"/reveal-challenge", "{}").into(t, 200, &ch)
	b.post("/api/cards/"+o.Issuance.CardID+"/reveal", revealBody(ch.IntentID, b.sign(ch.Message))).into(t, 200, &shown)
	if !strings.HasPrefix(shown.Credentials.Number, "411111") {
		t.Error("the card is another issuer's")
	}
	b.topUp("a-load-on-paper-1", 2500).into(t, 200, nil)
	w.awaitSettled(30 * time.Second)
	w.wantFindings("the issuer's books and ours")
	if asked := w.issuer.books().Requests; len(asked) > 0 {
		t.Errorf("the sandbox was asked for %v", asked)
	}
}
