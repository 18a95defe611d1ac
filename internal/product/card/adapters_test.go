package card_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/card/cardtest"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/lithic/lithicfake"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/provider/stripe/stripefake"
	"github.com/roamcard/roamcard/internal/secret"
)

// line leads to a vendor in the same bubble. What is asked of one card takes up to two seconds, another time for each
// request, so that they overtake one another.
type line struct {
	vendor http.Handler
	// lossy loses two fifths of the requests that move something: half of them before they arrive, half of the answers.
	lossy atomic.Bool
	sent  atomic.Int64
}

var errLost = errors.New("the connection broke")

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	arrived := r.Clone(r.Context())
	if arrived.Body == nil {
		arrived.Body = http.NoBody
	}
	ofOne := r.Method == http.MethodPost || strings.Contains(r.URL.Path, "/cards/") || r.URL.Query().Has("card")
	if !ofOne || strings.HasSuffix(r.URL.Path, "/cards") { // what is asked of all, or an opening
		return l.answer(arrived), nil
	}
	n := l.sent.Add(1)
	time.Sleep(time.Duration(n*7919%2000) * time.Millisecond)
	moves := r.Method == http.MethodPost && l.lossy.Load()
	if moves && n%5 == 0 {
		return nil, errLost
	}
	answer := l.answer(arrived)
	if moves && n%5 == 1 {
		return nil, errLost
	}
	return answer, nil
}

func (l *line) answer(r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	l.vendor.ServeHTTP(w, r)
	return w.Result()
}

// vendor is a real issuer that the test plays.
type vendor struct {
	*line
	client provider.IssuerClient
	// balances are what the vendor's own books have for each card.
	balances func() []int64
}

const vendorURL = "https://vendor.example"

// newPurse makes an issuer whose cards have money on them.
func newPurse(t *testing.T) vendor {
	t.Helper()
	fake := lithicfake.New(lithicfake.Config{})
	v := vendor{line: &line{vendor: fake}, balances: func() (all []int64) {
		for _, c := range fake.Cards() {
			all = append(all, c.Balance)
		}
		return all
	}}
	client, err := lithic.Dial(lithic.Config{
		URL: vendorURL, Key: secret.New(lithicfake.DevKey), Float: uuid.MustParse(lithicfake.Float),
		Program:  uuid.MustParse(lithicfake.Program),
		Transfer: lithic.Transfer{Category: "TRANSFER", Type: "ACCOUNT_TO_ACCOUNT", Subtype: "load"},
		HTTP:     &http.Client{Transport: v.line}, Timeout: callTimeout, VisibilityDelay: visibilityDelay,
	})
	if err != nil {
		t.Fatal(err)
	}
	v.client = client
	return v
}

// newLimit makes an issuer whose cards have a limit.
func newLimit(t *testing.T) vendor {
	t.Helper()
	fake := stripefake.New(stripefake.Config{})
	v := vendor{line: &line{vendor: fake}, balances: func() (all []int64) {
		for _, c := range fake.Cards() {
			all = append(all, c.Limits[0].Amount)
		}
		return all
	}}
	client, err := stripe.Dial(stripe.Config{
		URL: vendorURL, Key: secret.New(stripefake.DevKey), Cardholder: stripefake.DevCardholder,
		Publishable: stripefake.DevPublishable,
		HTTP:        &http.Client{Transport: v.line}, Timeout: callTimeout, VisibilityDelay: visibilityDelay,
	})
	if err != nil {
		t.Fatal(err)
	}
	v.client = client
	return v
}

// sells makes the product sell this issuer's cards.
func (v vendor) sells(cfg *card.Config, _ *cardtest.Issuer) {
	cfg.Providers[0] = card.Provider{
		Issuer: v.client, Vault: v.client, Stock: v.client, Lister: v.client, Traits: v.client.Traits(),
		Capabilities: v.client.Capabilities(),
	}
}

// wrong counts the cards that have another balance in the vendor's books, and those that are missing or too many.
func (v vendor) wrong(want money.Cents) (n int) {
	all := v.balances()
	for _, has := range all {
		if has != int64(want) {
			n++
		}
	}
	return n + max(len(all)-pairs, pairs-len(all))
}

// TestRealIssuersHaveNoWrongBalance: the fee of each card is taken and two top-ups are loaded, all at once. A purse
// gets three movements, a limit two, and the fee is never in it.
func TestRealIssuersHaveNoWrongBalance(t *testing.T) {
	for name, newVendor := range map[string]func(*testing.T) vendor{"purse": newPurse, "limit": newLimit} {
		for state, lossy := range map[string]bool{"": false, " with lost answers": true} {
			t.Run(name+state, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					v := newVendor(t)
					c := newCrowd(t, false, v.sells)
					c.made.Slots = 3 * pairs
					const want = card.Remaining + 2450 + 4900
					c.tell(func() {
						c.sold() // the fee is being taken
						v.lossy.Store(lossy)
						c.tops(2500)
						c.tops(5000)
						for n := 0; n < 120 && v.wrong(want) > 0; n++ {
							c.settle(1)
						}
						c.settle(10)
					})
					if n := v.wrong(want); n != 0 {
						t.Errorf("%d of %d cards have another balance at the vendor", n, pairs)
					}
					if n := c.wrong(want); n != 0 {
						t.Errorf("%d of %d cards show another balance", n, pairs)
					}
				})
			})
		}
	}
}

// naiveClient is an adapter that adds to the limit that it finds at the issuer.
type naiveClient struct{ provider.IssuerClient }

// Move implements card.Issuer.
func (n naiveClient) Move(ctx context.Context, m card.Movement) (card.MovementRecord, error) {
	has, err := n.Balance(ctx, m.Account)
	if err != nil {
		return card.MovementRecord{}, err
	}
	m.Target = has.Available + m.Amount
	return n.IssuerClient.Move(ctx, m)
}

// TestDifferencesLoseLoadsAtARealIssuer shows that the test above notices what it is about.
func TestDifferencesLoseLoadsAtARealIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newLimit(t)
		v.client = naiveClient{v.client}
		c := newCrowd(t, false, func(cfg *card.Config, i *cardtest.Issuer) {
			v.sells(cfg, i)
			cfg.Store = allAtOnce{cfg.Store}
		})
		c.made.Slots = 3 * pairs
		c.tell(func() {
			c.sold()
			c.tops(2500)
			c.tops(5000)
			c.settle(10)
		})
		if n := v.wrong(card.Remaining + 2450 + 4900); n < pairs/2 {
			t.Errorf("%d of %d cards have another balance", n, pairs)
		}
	})
}
