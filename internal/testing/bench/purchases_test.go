package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// baseBlock is the time between two blocks of Base.
	baseBlock = 2 * time.Second
	// shopping is how long the buyers of BenchmarkPurchases buy: long enough for a queue to form and to move.
	shopping = 40 * time.Second
)

// fewBuyers are measured alone and among many others.
const fewBuyers = 10

// BenchmarkPurchases has buyers purchase cards, one after the other, with one relayer key on a chain as public as Base:
// a block every 2 s, 16 transactions of a sender in the pool.
func BenchmarkPurchases(b *testing.B) {
	for _, buyers := range []int{fewBuyers, 16, 200, 600} {
		b.Run(strconv.Itoa(buyers), func(b *testing.B) {
			for b.Loop() {
				buyAtOnce(b, buyers, 0, 1)
			}
		})
	}
	b.Run("few-among-600", func(b *testing.B) {
		for b.Loop() {
			buyAtOnce(b, fewBuyers, 600, 1)
		}
	})
	b.Run("200-by-two-nodes", func(b *testing.B) {
		for b.Loop() {
			buyAtOnce(b, 200, 0, 2)
		}
	})
}

// buyAtOnce measures buyers, next to whom others buy as well. The program knows the chain's node by so many addresses,
// at most two, as if it had several.
func buyAtOnce(b *testing.B, buyers, others, nodes int) {
	p := newProgramOn(b, devnet.ChainConfig{BlockEvery: baseBlock, OnlyEvery: true})
	if nodes > 1 {
		p.config.RPCURLs = append(p.config.RPCURLs, strings.Replace(p.chain.RPCURL, "127.0.0.1", "localhost", 1))
	}
	p.config.NoWorker = false
	p.fund(b, 1_000_000_00)
	stop := p.serve(b)
	defer stop()
	ask(b, p.addr, "/api/card/purchase")
	node, err := rpc.DialContext(b.Context(), p.chain.RPCURL)
	if err != nil {
		b.Fatal(err)
	}
	defer node.Close()
	c := crowd{
		B: b, addr: p.addr, bank: relaying{node: node}, end: time.Now().Add(shopping),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: buyers + others}},
	}
	defer c.client.CloseIdleConnections()
	rest := crowd{B: b, addr: c.addr, bank: c.bank, end: c.end, client: c.client}
	before := asked(p.chain)
	var all sync.WaitGroup
	for range buyers {
		all.Go(c.shop)
	}
	for range others {
		all.Go(rest.shop)
	}
	all.Wait()
	for open := 1; open > 0 && time.Now().Before(c.end.Add(2*time.Minute)); time.Sleep(baseBlock) {
		row(b, p.db, `SELECT count(*) FROM payments WHERE status = 'claimed'`, &open)
	}
	calls := asked(p.chain) - before
	var settled int
	row(b, p.db, `SELECT count(*) FROM payments WHERE status = 'paid'`, &settled)
	b.ReportMetric(float64(len(c.took))/shopping.Seconds(), "settled/s")
	b.ReportMetric(float64(c.unknown+rest.unknown), "unknown")
	b.ReportMetric(float64(c.failed+rest.failed), "failed")
	b.ReportMetric(float64(calls)/float64(max(settled, 1)), "calls/settled")
	if slices.Sort(c.took); len(c.took) > 0 {
		b.ReportMetric(c.took[len(c.took)/2].Seconds()/baseBlock.Seconds(), "blocks-p50")
		b.ReportMetric(c.took[len(c.took)*99/100].Seconds()/baseBlock.Seconds(), "blocks-p99")
	}
	for method, n := range p.chain.Calls() {
		b.Logf("%d buyers, %d settled: %s %d", buyers, settled, method, n)
	}
}

// asked counts the calls of a chain's node that a public node would answer, too.
func asked(chain *devnet.Chain) (n int) {
	for method, calls := range chain.Calls() {
		if strings.HasPrefix(method, "eth_") {
			n += calls
		}
	}
	return n
}

// crowd is many buyers.
type crowd struct {
	*testing.B
	addr   string
	bank   relaying
	client *http.Client
	end    time.Time

	mu sync.Mutex
	// took is how long each purchase that was answered in time took.
	took []time.Duration
	// unknown counts answers that the settlement is not known yet, failed purchases that were never paid.
	unknown, failed int
}

// shop buys one card after the other until the time is up, each with a new wallet.
func (c *crowd) shop() {
	for time.Now().Before(c.end) {
		key := newKey(c.B)
		c.bank.fund(c.B, addressOf(key))
		a := x402.Authorization{
			From: addressOf(key), To: payee, Value: card.Price.USDC(), Nonce: newNonce(),
			ValidBefore: uint64(time.Now().Add(10 * time.Minute).Unix()),
		}
		signature, err := curve.Sign(domain(), a, key)
		if err != nil {
			c.Error(err)
			return
		}
		header, err := x402.EncodePayment(x402.Payment{
			Accepted: terms().Requirements(a.Value, nil), Authorization: a, Signature: signature,
		})
		if err != nil {
			c.Error(err)
			return
		}
		began := time.Now()
		err = c.buy(header, fmt.Sprintf(`{"idempotencyKey":%q}`, uuid.NewString()))
		c.mu.Lock()
		switch now := time.Now(); {
		case errors.Is(err, errTimeUp):
		case err != nil:
			c.failed++
			c.Logf("a purchase failed: %v", err)
		case now.Before(c.end):
			c.took = append(c.took, now.Sub(began))
		}
		c.mu.Unlock()
	}
}

var errTimeUp = errors.New("the time is up")

// buy sends a purchase, and again while its settlement is not known.
func (c *crowd) buy(payment, body string) error {
	for time.Now().Before(c.end) {
		ctx, cancel := context.WithDeadline(context.Background(), c.end)
		status, text, err := c.post(ctx, payment, body)
		cancel()
		switch {
		case ctx.Err() != nil && err != nil:
			return errTimeUp
		case err != nil:
			return err
		case status == http.StatusOK:
			return nil
		case strings.Contains(text, "settlement_unknown"):
			c.mu.Lock()
			c.unknown++
			c.mu.Unlock()
		default:
			return fmt.Errorf("%d %s", status, text)
		}
	}
	return errTimeUp
}

func (c *crowd) post(ctx context.Context, payment, body string) (int, string, error) {
	url := "http://" + c.addr + "/api/card/purchase"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(x402.HeaderSignature, payment)
	res, err := c.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}
