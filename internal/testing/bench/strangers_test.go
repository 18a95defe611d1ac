package bench

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// attackers and customers are addresses; each customer asks for terms once a second, as often as one may.
	attackers, customers = 10, 64
	// siege is how long each half of a round lasts.
	siege = 20 * time.Second
)

// BenchmarkStrangers has ten addresses ask for what costs most, as fast as their rates allow, and measures how long
// honest buyers wait for the terms of a card meanwhile, against how long they wait in the same process before: while
// the strangers use up what a rate allows at once (burst), and then at their full rate. All are on the same cores as
// the service and its database. It fails when the slowest hundredth waits more than twice as long at the full rate.
func BenchmarkStrangers(b *testing.B) {
	p := newProgram(b)
	addr, _ := launchWith(b, p.config, build(b), map[string]string{"LIMITS": "default"})
	ask(b, addr, "/api/card/purchase")
	for b.Loop() {
		quiet := honest(b, addr, siege)
		ctx, end := context.WithCancel(b.Context())
		var strangers sync.WaitGroup
		served := make([]int, attackers)
		for n := range attackers {
			strangers.Go(func() { served[n] = besiege(ctx, addr, n) })
		}
		burst := honest(b, addr, siege/2)
		besieged := honest(b, addr, siege)
		end()
		strangers.Wait()
		sum := 0
		for _, n := range served {
			sum += n
		}
		before, meanwhile := quiet[len(quiet)*99/100], besieged[len(besieged)*99/100]
		b.ReportMetric(float64(before.Microseconds())/1000, "quiet-p99-ms")
		b.ReportMetric(float64(burst[len(burst)*99/100].Microseconds())/1000, "burst-p99-ms")
		b.ReportMetric(float64(meanwhile.Microseconds())/1000, "besieged-p99-ms")
		b.ReportMetric(float64(meanwhile)/float64(before), "ratio")
		b.ReportMetric(float64(sum)/(siege*3/2).Seconds(), "strangers/s")
		if meanwhile > 2*before {
			b.Errorf("honest buyers wait %s instead of %s", meanwhile, before)
		}
	}
}

// from is a client with an address of its own.
func from(place, n int) *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, byte(place), byte(n>>8), byte(1+n))}}
	return &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 8, DisableCompression: true},
	}
}

// honest is how long buyers wait for the terms of a card, sorted.
func honest(b *testing.B, addr string, long time.Duration) (took []time.Duration) {
	b.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	end := time.Now().Add(long)
	for n := range customers {
		all.Go(func() {
			client := from(2, n)
			defer client.CloseIdleConnections()
			time.Sleep(time.Duration(n) * time.Second / customers)
			for turn := time.NewTicker(time.Second); time.Now().Before(end); <-turn.C {
				began := time.Now()
				status, err := post(client, addr, "/api/card/purchase", fmt.Sprintf(`{"idempotencyKey":"k-%d"}`, n), "")
				if err != nil || status != http.StatusPaymentRequired {
					b.Errorf("a buyer is answered %d, %v", status, err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return took
}

// besiege asks for what costs most, each kind as fast as its rate allows, and says how many were served.
func besiege(ctx context.Context, addr string, n int) (served int) {
	client := from(3, n)
	defer client.CloseIdleConnections()
	forged := base64.StdEncoding.EncodeToString([]byte(`{"x402Version":2,"payload":` + strings.Repeat("[", 9<<10) + `}`))
	members := `{` + strings.Repeat(`"k":"v",`, 3<<10) + `"z":1}`
	kinds := []func() (int, error){
		func() (int, error) { return get(ctx, client, addr, "/docs/scalar.js") },
		func() (int, error) { return get(ctx, client, addr, "/openapi.json") },
		func() (int, error) { return post(client, addr, "/roamcard.v1.EsimService/PurchaseEsim", members, "") },
		func() (int, error) { return post(client, addr, "/api/card/purchase", `{"idempotencyKey":"k"}`, forged) },
		func() (int, error) { return post(client, addr, "/mcp", members, "") },
		func() (int, error) { return get(ctx, client, addr, "/api/esim/plans?"+strings.Repeat("a=b&", 6<<10)) },
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, ask := range kinds {
		all.Go(func() {
			for ctx.Err() == nil {
				status, err := ask()
				if status == http.StatusTooManyRequests || err != nil {
					select {
					case <-time.After(time.Second / 10):
					case <-ctx.Done():
					}
					continue
				}
				mu.Lock()
				served++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return served
}

func get(ctx context.Context, client *http.Client, addr, path string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return 0, err
	}
	return do(client, r)
}

func post(client *http.Client, addr, path, body, payment string) (int, error) {
	r, err := http.NewRequest(http.MethodPost, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if payment != "" {
		r.Header.Set("PAYMENT-SIGNATURE", payment)
	}
	return do(client, r)
}

func do(client *http.Client, r *http.Request) (int, error) {
	res, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}
