package crash_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/roamcard/roamcard/internal/devtools/dev"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/x402"
)

// The vendors that a development server plays know what they have sold when it is started again with its data: a card
// has its balance and takes a top-up, an eSIM takes more data, and their books agree with ours.
func TestVendorsKeepTheirBooks(t *testing.T) {
	t.Parallel()
	type pair struct{ issuer, supplier string }
	for _, vendors := range chosen([]pair{{stripe.Name, esimgo.Name}}, pair{lithic.Name, esimaccess.Name}) {
		issuer, supplier := vendors.issuer, vendors.supplier
		t.Run(issuer+" and "+supplier, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.issuer, w.supplier, w.within, w.dir = issuer, supplier, true, t.TempDir()
			p := w.startWithin(t)
			holder, traveller := w.buyer(t), w.buyer(t)
			traveller.travelling = true
			for _, b := range []*buyer{holder, traveller} {
				w.await(t, "the terms are told", func() error { return b.challenge(t.Context()) })
				b.insist(t, b.sign(t))
			}
			w.waitIdle(t)
			w.has(t, holder, 1500)
			before := w.tell(t, holder)
			p.Kill(t)

			p = w.startWithin(t)
			if after := w.tell(t, holder); after != before {
				t.Errorf("the card's holder has %+v, had %+v", after, before)
			}
			w.has(t, holder, 1500)
			holder.turnToTopup()
			traveller.extends, traveller.purchase = w.onlyEsim(t), traveller.purchase+"-more"
			traveller.offer = x402.Requirements{}
			for _, b := range []*buyer{holder, traveller} {
				w.await(t, "the terms are told", func() error { return b.challenge(t.Context()) })
				b.insist(t, b.sign(t))
			}
			w.waitIdle(t)
			w.has(t, holder, 1500+3333-66)
			p.stop(t)
		})
	}
}

// startWithin starts the program with the providers that it plays.
func (w *world) startWithin(t *testing.T) *process {
	t.Helper()
	p := w.start(t, relayer, "")
	var ready dev.Ready
	readJSON(t, w.readyFile(), &ready)
	w.books.SandboxURL = ready.SandboxURL
	w.over(w.issuer, w.supplier)
	return p
}

// has wants so many cents on the one card, as its owner reads them.
func (w *world) has(t *testing.T, b *buyer, cents int64) {
	t.Helper()
	var card string
	w.query(t, "SELECT id::text FROM cards", nil, &card)
	session, err := b.signIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.await(t, "the balance is read", func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+w.addr+"/api/cards/"+card+"/balance", http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+session)
		res, err := b.http.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		var got struct{ AvailableUsdCents int64 }
		if err := json.NewDecoder(res.Body).Decode(&got); err != nil || got.AvailableUsdCents != cents {
			return fmt.Errorf("%s: %d cents on the card, want %d; %w", res.Status, got.AvailableUsdCents, cents, err)
		}
		return nil
	})
}
