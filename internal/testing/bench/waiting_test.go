package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/x402"
)

// BenchmarkWaiting has many buyers wait for eSIMs that do not come in time: it measures the memory of the serving
// process for each, and how late each is answered. The service is a process of its own, so that the buyers are not
// counted. The orders are in the database before, paid and in delivery.
func BenchmarkWaiting(b *testing.B) {
	p := newProgram(b)
	program := build(b)
	for _, crowd := range []int{200, 2000} {
		b.Run(strconv.Itoa(crowd), func(b *testing.B) {
			for b.Loop() {
				wait(b, p, program, crowd)
			}
		})
	}
}

// arrives is how long after the one before him a buyer comes: what is measured is the wait, not how fast two
// cores check signatures.
const arrives = 2 * time.Millisecond

func wait(b *testing.B, p *program, program string, crowd int) {
	paid := onTheirWay(b, p.db, crowd)
	addr, pid := launch(b, p.config, program, "--no-worker")
	visitor := &http.Client{Transport: &http.Transport{MaxIdleConns: crowd}}
	defer visitor.CloseIdleConnections()
	late := make([]time.Duration, crowd)
	var all sync.WaitGroup
	visit := func(i int) time.Duration {
		began := time.Now()
		if err := paid[i].send(visitor, addr); err != nil {
			b.Errorf("buyer %d: %v", i, err)
		}
		return time.Since(began) - esim.InlineWait
	}
	ask(b, addr, "/api/card/purchase") // warm
	before := residentKB(b, pid)
	for i := range crowd {
		at := time.NewTimer(time.Duration(i) * arrives)
		all.Go(func() { <-at.C; late[i] = visit(i) })
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	peak := before
	for look := time.NewTicker(200 * time.Millisecond); ; {
		select {
		case <-look.C:
			peak = max(peak, residentKB(b, pid))
			continue
		case <-done:
			look.Stop()
		}
		break
	}
	slices.Sort(late)
	if late[0] < 0 {
		b.Errorf("one was answered %s early", -late[0])
	}
	b.ReportMetric(float64(peak-before)*1024/float64(crowd), "bytes/waiter")
	for name, at := range map[string]int{
		"late-p50-ms": crowd / 2, "late-p99-ms": crowd * 99 / 100, "late-max-ms": crowd - 1,
	} {
		b.ReportMetric(float64(late[at].Microseconds())/1000, name)
	}
}

// proven is a paid purchase, to be sent again.
type proven struct{ key, payment string }

// send repeats the purchase, which has to be answered with the order.
func (p proven) send(c *http.Client, addr string) error {
	body := fmt.Sprintf(`{"idempotencyKey":%q}`, p.key)
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/api/esim/purchase", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(x402.HeaderSignature, p.payment)
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d %s", res.StatusCode, answer)
	}
	return err
}

// onTheirWay makes paid orders for eSIMs that nobody delivers.
func onTheirWay(b *testing.B, db string, n int) []proven {
	b.Helper()
	s, err := store.Open(b.Context(), store.Config{URL: db, MaxConns: 8})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	request, err1 := json.Marshal(esim.PurchaseRequest{})
	item, err2 := json.Marshal(esim.Item{Plan: "pln_1", DataMB: 1024, ValidityDays: 7})
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	const price = 500
	wallet := newKey(b)
	all := make([]proven, n)
	inParallel(n, 8, func(_, i int) {
		now := time.Now()
		a := x402.Authorization{
			From: addressOf(wallet), To: payee, Value: price * 10_000, ValidBefore: uint64(now.Add(time.Hour).Unix()),
			Nonce: newNonce(),
		}
		signature, err := curve.Sign(domain(), a, wallet)
		header, encodeErr := x402.EncodePayment(x402.Payment{
			Accepted: terms().Requirements(a.Value, nil), Authorization: a, Signature: signature,
		})
		o := order.Order{
			ID: order.NewID(now), Operation: uuid.New(), Kind: esim.Kind, Owner: a.From, Key: "a-traveller-in-the-crowd-" +
				uuid.NewString(),
			Fingerprint: order.FingerprintOf(esim.Kind, request), Price: price, Item: item, CreatedAt: now, UpdatedAt: now,
		}
		all[i] = proven{o.Key, header}
		pay := payment.Payment{
			ID: uuid.New(), Order: o.ID, Status: payment.Claimed, Network: x402.NetworkID, Asset: usdc(), Authorization: a,
			Signature: signature, CreatedAt: now,
		}
		if err := errors.Join(err, encodeErr, underway(b, s, o, pay)); err != nil {
			b.Error(err)
		}
	})
	return all
}

// underway stores an order up to its delivery. Its jobs are somebody else's, or far ahead.
func underway(b *testing.B, s *store.Store, o order.Order, pay payment.Payment) error {
	fulfil := settlement.FulfillJob(o.ID, pay.ID.String())
	fulfil.LeaseOwner, fulfil.LeaseTTL = "elsewhere", time.Hour
	claimed, err := s.Orders().Claim(b.Context(), checkout.ClaimRequest{Order: o, Payment: pay, Job: fulfil})
	if err != nil {
		return err
	}
	pay.Receipt = &payment.Receipt{Transaction: newNonce(), SettledAt: pay.CreatedAt}
	follow := job.New{
		Args: settlement.ConfirmArgs{Order: o.ID}, UniqueKey: pay.ID.String(), RunAt: pay.CreatedAt.Add(time.Hour),
	}
	_, err = s.Orders().Settle(b.Context(), claimed.Job.Fence(), pay,
		order.Move{Order: o.ID, Owner: o.Owner, From: order.Settling, To: order.Settled, Actor: "worker"}, follow)
	if err != nil {
		return err
	}
	_, err = s.Orders().Move(b.Context(), claimed.Job.Fence(), order.Move{
		Order: o.ID, Owner: o.Owner, From: order.Settled, To: order.Provisioning, Actor: "worker",
	})
	return err
}

// launch starts the program in a process of its own, which serves until b ends.
func launch(b *testing.B, c app.Config, program string, flags ...string) (addr string, pid int) {
	b.Helper()
	// The crowd has one address.
	return launchWith(b, c, program, map[string]string{
		"LIMITS": "off", "SERVER__MAX_CONNECTIONS_PER_ADDRESS": "3000",
	}, flags...)
}

// launchWith starts the program with more settings.
func launchWith(
	b *testing.B, c app.Config, program string, more map[string]string, flags ...string,
) (addr string, pid int) {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr = listener.Addr().String()
	if err := listener.Close(); err != nil { // the program takes it over
		b.Fatal(err)
	}
	keys := make([]string, len(c.RelayerKeys))
	for i, key := range c.RelayerKeys {
		keys[i] = key.Reveal()
	}
	cmd := exec.Command(program, append([]string{"serve"}, flags...)...)
	cmd.Env = apptest.Environ()
	for name, value := range map[string]string{
		"ADDR": addr, "BASE_URL": c.BaseURL, "ENVIRONMENT": c.Environment, "DATABASE__URL": c.DatabaseURL.Reveal(),
		"CHAIN__RPC_URL":  c.RPCURLs[0],
		"PAYMENT__PAY_TO": c.PayTo.String(), "RELAYER__KEYS": strings.Join(keys, ","), "ISSUER__URL": c.IssuerURL,
		"ISSUER__KEY":   c.IssuerKey.Reveal(),
		"SUPPLIER__URL": c.Esim.URL, "SUPPLIER__KEY": sandbox.DevKey, "ESIM__KEYS": c.Esim.Keys.Reveal(),
		"ESIM__TOKEN_KEY": c.Esim.TokenKey.Reveal(),
		"QUOTE__KEY":      c.QuoteKey.Reveal(),
	} {
		cmd.Env = append(cmd.Env, fmt.Sprintf("ROAMCARD_%s=%s", name, value))
	}
	for name, value := range more {
		cmd.Env = append(cmd.Env, fmt.Sprintf("ROAMCARD_%s=%s", name, value))
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := cmd.Wait(); err != nil {
			b.Errorf("the program ended: %v\n%s", err, said.String())
		}
	})
	for end := time.Now().Add(20 * time.Second); ; {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			return addr, cmd.Process.Pid
		}
		if time.Now().After(end) {
			b.Fatalf("the program does not listen: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// residentKB is the memory that a process holds.
func residentKB(b *testing.B, pid int) int64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skipf("no /proc: %v", err)
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb
		}
	}
	b.Fatal("no resident memory in /proc")
	return 0
}
