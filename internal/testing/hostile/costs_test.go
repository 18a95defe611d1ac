package hostile_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/roamcard/roamcard/gen"
	_ "github.com/roamcard/roamcard/gen/go/roamcard/v1" // registers the procedures
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// What one request of somebody unknown may cost.
const (
	mostProcessor = 10 * time.Millisecond
	// mostHeld is the longest message, 32 kB, and what a connection with a request has besides, 25 kB (the buffers and
	// the goroutine of the server, the head); and a quarter, which garbage adds by GOGC=25.
	mostHeld = (32<<10 + 25<<10) * 5 / 4
)

// costTable is where TestCostOfEachRoute writes what it measured, as a page.
var costTable = os.Getenv("ROAMCARD_COST_TABLE")

// shape is one way to make a request expensive that its limits allow.
type shape struct {
	name string
	// dress changes a request; false when it does not apply.
	dress func(r *http.Request) bool
}

// with is a shape of headers.
func with(name string, headers ...string) shape {
	return shape{name, func(r *http.Request) bool {
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return true
	}}
}

// carrying is a shape of a body.
func carrying(name, body string, headers ...string) shape {
	return shape{name, func(r *http.Request) bool {
		if r.Method == http.MethodGet {
			return false
		}
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return true
	}}
}

// shapes are what each route is asked with. Heads have 32 KiB at most, bodies of purchases 4 KiB and messages 32 KiB.
func shapes() []shape {
	many := func(one string, bytes int) string { return strings.Repeat(one, bytes/len(one)) }
	payment := func(payload string) string { return base64.StdEncoding.EncodeToString([]byte(payload)) }
	forged := `{"x402Version":2,"accepted":{"scheme":"exact","network":"eip155:8453","amount":"25000000",` +
		`"asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","payTo":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8",` +
		`"maxTimeoutSeconds":60,"extra":{"name":"USD Coin","version":"2"}},"payload":{"signature":"0x` + many("1b", 130) +
		`","authorization":{"from":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",` +
		`"to":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","value":"25000000","validAfter":"0","validBefore":"` +
		strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10) + `","nonce":"0x` + many("ab", 64) + `"}}}`
	full := func(text string) string { return text + many(" ", max(1, (4<<10)-len(text))) }
	all := []shape{
		{"as it is", func(*http.Request) bool { return true }},
		with("no gzip", "Accept-Encoding", "identity"),
		with("a forged payment", headerPayment, payment(forged)),
		with("a payment of 12 kB", headerPayment, payment(`{"x402Version":2,"payload":`+many("[", 9<<10)+`}`)),
		with("a token of 24 kB", "Authorization", "Bearer "+many("eyJhbGciOiJIUzI1NiJ9.", 24<<10)),
		with("a session's token", "Authorization", "Bearer rcs_"+many("A", 43)),
		with("an operator's token", "Authorization", "Bearer rco_"+many("a", 64)),
		with("lists of 24 kB", "Accept", many("text/html;q=0.1,", 6<<10), "If-None-Match", many(`"a",`, 6<<10),
			"X-Forwarded-For", many("1.2.3.4,", 6<<10), "Accept-Encoding", many("br,", 5<<10)),
		{"a query of 24 kB", func(r *http.Request) bool { r.URL.RawQuery = many("a=b&", 24<<10); return true }},
		{"300 headers", func(r *http.Request) bool {
			for n := range 300 {
				r.Header.Set(fmt.Sprint("X-Header-", n), many("v", 64))
			}
			return true
		}},
		carrying("a body of 4 kB", full(`{"idempotencyKey":"k"}`)),
		carrying("deep", many("[", 2<<10)+many("]", 2<<10)),
		carrying("members", `{`+strings.TrimSuffix(many(`"a":1,`, 4<<10), ",")+`}`),
		carrying("escapes", `{"idempotencyKey":"`+many(`\u0041`, 4<<10)+`"}`),
		carrying("30 kB, deep", many(`{"a":`, 30<<10)),
		carrying("30 kB of members", `{`+strings.TrimSuffix(many(`"k":"v",`, 30<<10), ",")+`}`),
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, many(" ", 48<<20)) // to memory
	_ = z.Close()
	all = append(all, carrying("gzip of 48 MB", packed.String(), "Content-Encoding", "gzip"))
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	return append(all, carrying("a webhook of 30 kB", `{"a":"`+many("b", 30<<10)+`"}`, "Webhook-Id", "m",
		"Webhook-Timestamp", stamp, "Webhook-Signature", many("v1,"+many("A", 43)+"= ", 24<<10)))
}

// target is one route of one listener.
type target struct{ listener, base, method, path string }

func (a target) String() string { return strings.TrimSpace(a.method + " " + a.path) }

// targets are all routes: those that are documented, all procedures, and what people and programs load.
func (w *world) targets(bases map[string]string) (all []target) {
	w.t.Helper()
	var api struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(gen.OpenAPI, &api); err != nil {
		w.t.Fatal(err)
	}
	parameter := regexp.MustCompile(`\{[^}]*\}`)
	for path, methods := range api.Paths {
		for method := range methods {
			if method = strings.ToUpper(method); !slices.Contains([]string{"GET", "POST", "PUT", "DELETE"}, method) {
				continue
			}
			on := "public"
			if strings.HasPrefix(path, "/api/admin") {
				on = "operators"
			}
			filled := parameter.ReplaceAllString(path, "018f3a2e-7b1c-7d2e-9f00-0a1b2c3d4e5f")
			all = append(all, target{on, bases[on], method, filled})
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("roamcard.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			on := "public"
			if s.Name() == "OperatorService" {
				on = "operators"
			}
			for j := range s.Methods().Len() {
				path := fmt.Sprintf("/%s/%s", s.FullName(), s.Methods().Get(j).Name())
				all = append(all, target{on, bases[on], http.MethodPost, path})
			}
		}
		return true
	})
	for _, path := range []string{
		"/", "/docs", "/docs/scalar.js", "/docs/init.js", "/openapi.json", "/llms.txt", "/SKILL.md", "/status", "/nothing",
		"/problems/payment_required", "/pay/ord_01ARZ3NDEKTSV4RRFFQ69G5FAV", "/favicon.svg",
	} {
		all = append(all, target{"public", bases["public"], http.MethodGet, path})
	}
	for _, path := range []string{
		"/mcp", "/api/webhooks/sandbox", "/api/webhooks/nobody", "/grpc.health.v1.Health/Check",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	} {
		all = append(all, target{"public", bases["public"], http.MethodPost, path})
	}
	slices.SortFunc(all, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.listener, b.listener), cmp.Compare(a.path, b.path), cmp.Compare(a.method, b.method))
	})
	return slices.Compact(all)
}

// spent is the processor time of the program, as exactly as the system says it.
func (p *process) spent() (sum time.Duration) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.Cmd.Process.Pid)) // the pattern is fine
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		fields := strings.Fields(string(text))
		if err != nil || len(fields) == 0 {
			continue // a thread that has ended
		}
		ns, _ := strconv.ParseInt(fields[0], 10, 64) // zero when it is no number
		sum += time.Duration(ns)
	}
	return sum
}

// TestCostOfEachRoute asks each route of each listener for the worst that its limits allow, in many shapes, and fails
// when one request costs more processor time than a stranger may. The rates, which come on top, are off.
func TestCostOfEachRoute(t *testing.T) {
	if (&process{}).cpuUnknown() {
		t.Skip("the system does not tell the processor time of a program")
	}
	w := newWorld(t)
	// Collected often, so that the memory of the process is what is held.
	w.settings = append(w.defaults(), "GOGC=25")
	operators := "http://" + apptest.FreeAddr(t)
	w.start("LIMITS", "off", "LOG__LEVEL", "error", "ADMIN__ADDR", strings.TrimPrefix(operators, "http://"),
		"ISSUER__WEBHOOK_SECRETS", webhookSecret)
	p := w.programs[0]
	client := &http.Client{
		Timeout:       time.Minute,
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(client.CloseIdleConnections)
	ask := func(to target, s shape) (applies bool) {
		r, err := http.NewRequestWithContext(t.Context(), to.method, to.base+to.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !s.dress(r) {
			return false
		}
		res, err := client.Do(r)
		if err != nil {
			return true // cut off, which costs least
		}
		_, _ = io.Copy(io.Discard, res.Body) // cut off or not
		_ = res.Body.Close()
		return true
	}
	idle := w.idle(p)
	measure := func(to target, s shape, times int) (each time.Duration, applies bool) {
		began, before := time.Now(), p.spent()
		for range times {
			if !ask(to, s) {
				return 0, false
			}
		}
		took := time.Since(began)
		own := p.spent() - before - time.Duration(float64(took)*idle)
		return max(0, own) / time.Duration(times), true
	}
	worst := map[target]costly{}
	targets, ways := w.targets(map[string]string{"public": w.base, "operators": operators}), shapes()
	for n, to := range targets {
		if !whole && n%8 != 0 && !strings.Contains(to.path, "webhooks") && !strings.Contains(to.path, "scalar") {
			continue // `make abuse` asks all of them
		}
		for _, s := range ways {
			each, applies := measure(to, s, sized(4, 10))
			if !applies {
				continue
			}
			if each > mostProcessor/2 {
				// A collection of garbage, or its own cost: more of the same tells.
				each, _ = measure(to, s, 40)
			}
			if each > mostProcessor {
				t.Errorf("%s, %s: %s of processor for one request", to, s.name, each)
			}
			if each >= worst[to].each {
				worst[to] = costly{s.name, each}
			}
		}
	}
	if len(worst) < 20 {
		t.Errorf("only %d routes were asked", len(worst))
	}
	held := w.holds()
	writeCosts(t, worst, held)
}

// costly is what made a route cost most.
type costly struct {
	shape string
	each  time.Duration
}

// idle is the part of a processor that the program uses by itself.
func (w *world) idle(p *process) float64 {
	began, before := time.Now(), p.spent()
	time.Sleep(2 * time.Second) // clock: what a process does meanwhile is what is asked for
	return float64(p.spent()-before) / float64(time.Since(began))
}

func (p *process) cpuUnknown() bool {
	_, err := os.Stat("/proc/self/schedstat")
	return err != nil
}

// hold is a connection that is kept open as expensively as it may be.
type hold struct {
	name string
	// send is what is sent on it. It is all that ever comes.
	send func(c net.Conn) error
}

func holds() []hold {
	text := func(s string) func(net.Conn) error {
		return func(c net.Conn) error { _, err := io.WriteString(c, s); return err }
	}
	head := "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n"
	spaces := func(n int) string { return strings.Repeat(" ", n) }
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	signed := "Webhook-Id: m\r\nWebhook-Timestamp: " + stamp + "\r\nWebhook-Signature: v1," + strings.Repeat("A", 43) +
		"=\r\n"
	return []hold{
		{"nothing", text("")},
		{"half a head", text("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: " + strings.Repeat("a", 24<<10))},
		{"half a purchase", text(fmt.Sprintf(head, cardPath, 4<<10, "") + spaces(4000))},
		{"half a message of 32 kB",
			text(fmt.Sprintf(head, "/roamcard.v1.CardService/PurchaseCard", 32<<10, "") + spaces(31<<10))},
		{"half a webhook of 32 kB", text(fmt.Sprintf(head, "/api/webhooks/sandbox", 32<<10, signed) + spaces(31<<10))},
		{"half a webhook for nobody", text(fmt.Sprintf(head, "/api/webhooks/nobody", 32<<10, signed) + spaces(31<<10))},
	}
}

// holds is what one connection of each kind makes the program hold, in bytes, by what a fresh one's memory grows when
// 400 of them are open.
func (w *world) holds() map[string]int64 {
	w.t.Helper()
	each := map[string]int64{}
	const conns, perAddress = 400, 50
	for n, h := range holds() {
		if !whole && n%3 != 0 {
			continue // `make abuse` has all of them
		}
		p := w.another()
		before := p.settled(w)
		var open []net.Conn
		var ip net.IP
		for n := range conns {
			if n%perAddress == 0 {
				ip = w.address()
			}
			c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: ip}}).DialContext(
				w.t.Context(), "tcp", strings.TrimPrefix(p.base, "http://"))
			if err != nil {
				w.t.Fatalf("%s: connection %d: %v", h.name, n, err)
			}
			open = append(open, c)
			_ = h.send(c) // refused before all is sent, where it is
		}
		p.settled(w)
		each[h.name] = max(0, p.memory()-before) / conns
		for _, c := range open {
			_ = c.Close()
		}
		p.Stop(w.t)
		w.programs = w.programs[:len(w.programs)-1]
		most := int64(mostHeld)
		if !whole {
			most += most / 2 // next to other tests, garbage is collected later
		}
		if each[h.name] > most {
			w.t.Errorf("%s: %d kB for a connection", h.name, each[h.name]>>10)
		}
	}
	return each
}

// another starts one more program on the world's database.
func (w *world) another() *process {
	w.t.Helper()
	w.start("LIMITS", "off", "LOG__LEVEL", "error", "ISSUER__WEBHOOK_SECRETS", webhookSecret)
	return w.programs[len(w.programs)-1]
}

const webhookSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// settled is the memory of the program once it does not change any more.
func (p *process) settled(w *world) int64 {
	last := p.memory()
	w.await("the program's memory settles", func() error {
		time.Sleep(300 * time.Millisecond) // clock: a look at a time
		now := p.memory()
		change := max(now-last, last-now)
		if last = now; change > 256<<10 {
			return errors.New("it changes still")
		}
		return nil
	})
	return last
}

// writeCosts writes the page of what was measured, where one is asked for.
func writeCosts(t *testing.T, worst map[target]costly, held map[string]int64) {
	t.Helper()
	if costTable == "" {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, strings.ReplaceAll(`<!-- Made by make abuse. -->

# What a stranger costs

Made by ~make abuse~ of a run of ~TestCostOfEachRoute~ (~internal/testing/hostile~): the whole program with rates off,
each route of its public and its operators' listener asked for the worst that its limits allow, in %d shapes: forged
payments and tokens, heads of 24 kB, deep and long bodies, a gzip bomb, a webhook of 30 kB. The processor time is the
program's own, for one request of the worst shape; the test fails above 10 ms. What an address may ask how often is in
[rates](../configuration/rates.md).

`, "~", "`"), len(shapes()))
	table := func(listener string) {
		fmt.Fprintf(&b, "## The %s listener\n\n| route | worst shape | ms |\n|---|---|--:|\n", listener)
		routes := slices.SortedFunc(maps.Keys(worst), func(a, b target) int {
			return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.method, b.method))
		})
		for _, to := range routes {
			if to.listener == listener {
				c := worst[to]
				path := strings.ReplaceAll(to.path, "018f3a2e-7b1c-7d2e-9f00-0a1b2c3d4e5f", "{id}")
				path = strings.Replace(path, "/roamcard.v1.", "/…", 1)
				ms := float64(c.each.Microseconds()) / 1000
				fmt.Fprintf(&b, "| `%s %s` | %s | %.1f |\n", to.method, path, c.shape, ms)
			}
		}
		b.WriteString("\nShown by `TestCostOfEachRoute`.\n\n")
	}
	table("public")
	table("operators")
	b.WriteString("## Connections that are held\n\n| what was sent, and never more | kB held |\n|---|--:|\n")
	for _, name := range slices.Sorted(maps.Keys(held)) {
		fmt.Fprintf(&b, "| %s | %d |\n", name, held[name]>>10)
	}
	b.WriteString("\nOf 400 connections of eight addresses each; the test fails above 71 kB for one " +
		"(`TestCostOfEachRoute`).\n")
	if err := os.WriteFile(costTable, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
