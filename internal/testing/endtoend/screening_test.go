package endtoend_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/screening"
	"github.com/roamcard/roamcard/internal/x402"
)

// screened is a world whose payers are screened by a list in a file, which starts with these addresses.
func screened(t *testing.T, p plan, listed ...x402.Address) (w *world, list func(...x402.Address)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sanctioned.txt")
	list = func(all ...x402.Address) {
		text := "# nobody else\n" + (x402.Address{19: 0xff}).Lower() + "\n"
		for _, a := range all {
			text += a.Lower() + "\n"
		}
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	list(listed...)
	source, err := screening.ParseSource(file, outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	was := p.change
	p.change = func(c *app.Config) {
		if was != nil {
			was(c)
		}
		c.Screening = app.ScreeningConfig{
			Lists: []screening.Source{source}, RefreshEvery: time.Second, MaxAge: time.Hour,
		}
	}
	return newWorld(t, p), list
}

func TestListedPayerBuysNothing(t *testing.T) {
	t.Parallel()
	w, list := screened(t, plan{instances: 2})
	w.awaitEsimReady(w.instances[0])
	before, honest := w.buyer(), w.buyer()
	owned := before.buyCard("before-it-was-listed")
	open := before.createOrder("/api/orders", "an-open-order", `{}`)
	list(before.address)
	eventually(t, func() (bool, string) {
		n := w.count("SELECT count(*) FROM screened_addresses WHERE address = $1", before.address.Lower())
		return n == 1, "the list was not read again"
	})
	for name, r := range map[string]request{
		"a card":           purchase("another", header(t, before.payment())),
		"an eSIM":          esimPurchase("an-esim", before.esimPayment(w.esimTerms("an-esim"))),
		"an open order":    payRequest("POST", open.path(), header(t, before.payment())),
		"its invitation":   payRequest("GET", open.path(), ""),
		"an order to open": {path: "/api/orders", body: `{}`, header: before.bearer()},
	} {
		wantProblem(t, name, w.send(r), http.StatusForbidden, fault.PayerNotAccepted)
	}
	// What was bought before is the owner's still, and a repeat is answered from the record.
	before.buyCard("before-it-was-listed")
	if got := before.cardStatus(owned.Issuance.CardID); got != "ACTIVE" {
		t.Errorf("the card from before is %s", got)
	}
	honest.buyCard("of-somebody-else")
	if n := len(w.transfersFrom(before.address)); n != 1 {
		t.Errorf("the listed payer paid %d times", n)
	}
	if n := w.count(`SELECT count(*) FROM audit
		WHERE action = 'payer.refuse' AND subject = $1 AND actor LIKE 'screening:%'`, before.address.Lower()); n != 1 {
		t.Errorf("%d rows of the audit trail", n)
	}
	list()
	eventually(t, func() (bool, string) {
		return w.count("SELECT count(*) FROM screened_addresses") == 1, "the list was not read again"
	})
	w.checkBooks()
}
