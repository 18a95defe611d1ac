package endtoend_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// officially lets the official x402 client buy at a path, with a new authorization, and again while the service tells
// it to wait, until the order is as wanted.
func (b *buyer) officially(path, body string, wanted func(answer answer) bool) (a answer) {
	b.w.t.Helper()
	eventually(b.w.t, func() (bool, string) {
		a = b.officialAnswer(path, body)
		return a.status == http.StatusOK && wanted(a), fmt.Sprintf("%s: %d %s", path, a.status, clipped(a.body))
	})
	return a
}

func (b *buyer) officialAnswer(path, body string) answer {
	b.w.t.Helper()
	told, err := apptest.Official(b.w.t, apptest.TypeScript).Buy(b.w.t.Context(), apptest.Wanted{
		BaseURL: b.w.instances[0].url, PrivateKey: hexutil.Encode(crypto.FromECDSA(b.key)), Path: path,
		Body: json.RawMessage(body),
	})
	if err != nil {
		b.w.t.Fatal(err)
	}
	return answer{status: told.Status, body: []byte(told.Body)}
}

// anyOrder takes an order as it is.
func anyOrder(answer) bool { return true }

// newestOwned is the card that was sold last.
func (w *world) newestOwned() string {
	w.t.Helper()
	return queryOne[string](w, "SELECT id::text FROM cards ORDER BY created_at DESC LIMIT 1")
}

// usesCard charges a card as a merchant of the vendor's, freezes it, has a charge declined, and unfreezes it. Its owner
// reads both.
func (p *production) usesCard(t *testing.T, b *buyer, card string) {
	t.Helper()
	account := queryOne[string](p.world, "SELECT account FROM cards WHERE id = $1", card)
	charge := func(cents int) {
		t.Helper()
		url := strings.TrimSuffix(p.issuerBooks, "books") + "cards/" + account + "/purchases"
		res, err := http.Post(url, "application/json", strings.NewReader(fmt.Sprintf(`{"amountCents":%d}`, cents)))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatalf("the vendor's merchant got %s", res.Status)
		}
	}
	at := "/api/cards/" + card
	charge(100)
	var state struct{ Status string }
	b.post(at+"/freeze", "").into(t, 200, &state)
	if state.Status != "FROZEN" {
		t.Errorf("frozen, the card is %s", state.Status)
	}
	charge(101)
	b.post(at+"/unfreeze", "").into(t, 200, &state)
	if state.Status != "ACTIVE" {
		t.Errorf("unfrozen, the card is %s", state.Status)
	}
	var used transactions
	b.get(at+"/transactions").into(t, 200, &used)
	got := ""
	for _, one := range used.Transactions {
		got += fmt.Sprint(one.Status, " ", one.AmountUsdCents, " ")
	}
	if got != "declined 101 completed 100 " {
		t.Errorf("the card was used for %q", got)
	}
}
