package hostile_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// honest is how many honest buyers there are, who use the official client. Each buys for the first time, every third
// one a card.
func honest() int { return sized(2, 10) }

// quiet is how long honest buyers wait without an attack, and what serving them costs.
type quiet struct {
	took time.Duration
	cost figures
}

// purchase is one honest buyer's, ready to begin.
type purchase struct {
	client *roamcard.Client
	card   bool
}

// line makes honest buyers with money, each at an address of their own.
func (w *world) line() []purchase {
	w.t.Helper()
	buyers := make([]purchase, honest())
	for i := range buyers {
		key, address := newKey(w.t)
		signer, err := roamcard.NewKeySigner(common.Bytes2Hex(crypto.FromECDSA(key)))
		if err != nil {
			w.t.Fatal(err)
		}
		w.fund(address, 300_000_000)
		buyers[i].card = i%3 == 0
		buyers[i].client, err = roamcard.New(roamcard.Config{
			BaseURL: w.base, Signer: signer, HTTP: w.from(w.address()), Poll: 100 * time.Millisecond,
			Policy: roamcard.Policy{
				Mode: roamcard.Autonomous, MaxPerPayment: 25_000, MaxPerDay: 30_000, Asset: w.books.USDC, PayTo: w.books.PayTo,
			},
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return buyers
}

// buy makes one purchase, from the first request to the goods.
func (p purchase) buy(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	if p.card {
		bought, err := p.client.Cards.Purchase(ctx, roamcard.NewKey())
		if err != nil {
			return 0, fmt.Errorf("buy a card: %w", err)
		}
		_, err = p.client.Cards.WaitUntilActive(ctx, bought.Order.GetOrderId())
		return time.Since(begin), err
	}
	bought, err := p.client.ESIM.Purchase(ctx, "", roamcard.NewKey())
	if err != nil {
		return 0, fmt.Errorf("buy an eSIM: %w", err)
	}
	if bought.Credentials == nil {
		return 0, errors.New("buy an eSIM: it was not delivered within the wait")
	}
	return time.Since(begin), nil
}

// serve lets honest buyers buy at once, and returns how long the slowest waited, which is their p99.
func serve(ctx context.Context, buyers []purchase) (time.Duration, error) {
	type result struct {
		took time.Duration
		err  error
	}
	results := make(chan result, len(buyers))
	for _, b := range buyers {
		go func() {
			took, err := b.buy(ctx)
			results <- result{took, err}
		}()
	}
	var slowest time.Duration
	var failed []error
	for range buyers {
		r := <-results
		slowest = max(slowest, r.took)
		if r.err != nil {
			failed = append(failed, r.err)
		}
	}
	return slowest, errors.Join(failed...)
}

// quietly serves honest buyers without an attack.
func (w *world) quietly(ctx context.Context) (quiet, error) {
	w.t.Helper()
	before := w.read()
	took, err := serve(ctx, w.line())
	if err != nil {
		return quiet{}, err
	}
	return quiet{took, w.read().minus(before)}, nil
}

// service is how long honest buyers waited.
type service struct {
	Quiet, Attacked time.Duration
	Ratio           float64
	Rounds          int
}

// String is for logs.
func (s service) String() string {
	return strings.Join([]string{"quiet", s.Quiet.Round(time.Millisecond).String(), "attacked",
		s.Attacked.Round(time.Millisecond).String(),
		fmt.Sprintf("ratio %.2f of %d rounds", s.Ratio, s.Rounds)}, " ")
}

// median is the round in the middle, by ratio.
func median(rounds []service) service {
	slices.SortFunc(rounds, func(a, b service) int { return cmp.Compare(a.Ratio, b.Ratio) })
	m := rounds[len(rounds)/2]
	m.Rounds = len(rounds)
	return m
}
