package hostile_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// connections are attacks by connections and by how they are used.
func connections() []attack {
	return []attack{
		{
			name: "idle-connections", by: stranger, do: idles,
			held:    "transport/edge TestServerCutsOffSlowSenders",
			aim:     "nobody else gets a connection",
			defence: "connections are closed that say nothing for 5 s",
		},
		{
			name: "slow-loris", ref: "A41", by: stranger, do: lingers,
			aim:     "each request occupies us for as long as it likes to take",
			defence: "5 s for the headers, 15 s for the whole request",
		},
		{
			name: "slow-bodies-with-payments", ref: "A41", by: stranger, do: dribbles,
			held:    "transport/edge TestServerCutsOffSlowSenders",
			aim:     "requests with a payment are exempt from what ends others",
			defence: "the body is read before a payment counts, and within the same 15 s",
		},
		{
			name: "readers-that-do-not-read", by: stranger, do: neverReads,
			held:    "transport/edge TestServerSetsLimitsOfConnection",
			aim:     "answers that nobody takes fill the memory",
			defence: "answers are small; writing one ends after 45 s",
		},
		{
			name: "http2-resets", by: stranger, do: resets,
			held: "transport/edge TestStreamsThatAreResetEndTheirConnection",
			aim:  "streams that are opened and reset at once cost us and not the attacker (CVE-2023-44487)",
			defence: "100 streams for each connection; resets count as requests to the rates, and an address that they refuse " +
				"200 times in a second loses its connections",
		},
		{
			name: "http2-continuations", by: stranger, do: continues,
			held:    "transport/edge TestServerSetsLimitsOfConnection",
			aim:     "headers without end fill the memory (CVE-2023-45288)",
			defence: "32 KiB of headers, over all frames",
		},
		{
			name: "http2-frames-without-content", by: stranger, do: babbles, torture: true,
			held:    "transport/edge TestFramesThatCarryNothingHaveABudget",
			aim:     "frames that belong to no request occupy a processor while they last (CVE-2019-9515, CVE-2019-9518)",
			defence: "a connection has a budget of frames, to which requests, answers and time add",
		},
		{
			name: "big-headers", ref: "A30", by: stranger, do: fattens,
			held:    "transport/edge TestLimitRefusesPaymentHeadersNoWalletMakes",
			aim:     "memory, or a check that is skipped, by headers of a size that no wallet makes",
			defence: "32 KiB of headers in all, 16 KiB of payment",
		},
	}
}

// dial opens a connection to the program from an address.
func (r *trial) dial(ip net.IP) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: ip}, Timeout: time.Minute}
	return d.DialContext(r.Context(), "tcp", strings.TrimPrefix(r.base, "http://"))
}

// hold keeps connections open, and lets each say something every now and then, until ctx ends. It returns how many the
// program has closed.
func (r *trial) hold(ctx context.Context, n int, first string, each func(i int) string) (closed int64) {
	r.Helper()
	var held sync.WaitGroup
	var gone atomic.Int64
	ip := r.address()
	for i := range n {
		c, err := r.dial(ip)
		if err != nil {
			gone.Add(1) // refused is as good as closed
			continue
		}
		held.Go(func() {
			defer func() { _ = c.Close() }()
			traffic.requests.Add(1)
			traffic.bytes.Add(int64(len(first)))
			if _, err := io.WriteString(c, first); err != nil {
				gone.Add(1)
				return
			}
			ended := make(chan struct{})
			go func() { _, _ = io.Copy(io.Discard, c); close(ended) }() // ends when either side closes
			pace := time.NewTicker(500 * time.Millisecond)
			defer pace.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ended:
					gone.Add(1)
					return
				case <-pace.C:
					traffic.bytes.Add(1)
					_, _ = io.WriteString(c, each(i)) // a closed connection ends the reader
				}
			}
		})
	}
	held.Wait()
	return gone.Load()
}

func nothingMore(int) string { return "" }

func idles(r *trial) {
	r.besiege(func(ctx context.Context) {
		closed := r.hold(ctx, sized(400, 2000), "", nothingMore)
		r.Logf("%d connections were closed", closed)
	})
	r.closes("", nothingMore)
}

// closes says that a connection ends by itself, and in `make torture` that it does so in time.
func (r *trial) closes(first string, each func(i int) string) {
	r.Helper()
	begin := time.Now()
	const few = 3
	if closed := r.hold(apptest.Context(r), few, first, each); closed != few {
		r.Errorf("%d of %d connections were closed", closed, few)
	}
	took := time.Since(begin).Round(time.Second)
	r.Logf("closed after %s", took)
	if whole && took > 25*time.Second { // clock: what this torture is about
		r.Errorf("closed after %s", took)
	}
}

const slowHeader = "POST /api/card/purchase HTTP/1.1\r\nHost: roamcard\r\nX-A: "

func letter(int) string { return "a" }

func lingers(r *trial) {
	r.besiege(func(ctx context.Context) { r.hold(ctx, sized(300, 1500), slowHeader, letter) })
	r.closes(slowHeader, letter)
}

func dribbles(r *trial) {
	p := r.wallet(0)
	header := p.pays(r, p.terms(r, cardPath, keyed("k"))).header(r)
	first := fmt.Sprintf(
		"POST %s HTTP/1.1\r\nHost: roamcard\r\nContent-Type: application/json\r\n%s: %s\r\nContent-Length: 4000\r\n\r\n{",
		cardPath, headerPayment, header)
	r.besiege(func(ctx context.Context) { r.hold(ctx, sized(200, 1500), first, letter) })
	if whole {
		r.closes(first, letter)
	}
}

func neverReads(r *trial) {
	before := r.programs[0].memory()
	asks := strings.Repeat("GET /api/openapi.json HTTP/1.1\r\nHost: roamcard\r\n\r\n", 20)
	r.besiege(func(ctx context.Context) {
		ip := r.address()
		var held []net.Conn
		for range sized(100, 400) {
			if c, err := r.dial(ip); err == nil {
				_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // clock: a full buffer is what this is about
				_, _ = io.WriteString(c, asks)                      // as well
				traffic.requests.Add(20)
				traffic.bytes.Add(int64(len(asks)))
				held = append(held, c)
			}
		}
		<-ctx.Done()
		for _, c := range held {
			_ = c.Close()
		}
	})
	r.flat(before)
}

// flat says that the program has not grown by much.
func (r *trial) flat(before int64) {
	r.Helper()
	const most = 300 << 20
	if grown := r.programs[0].memory() - before; grown > most {
		r.Errorf("the program grew by %d MB", grown>>20)
	}
}

// framer speaks HTTP/2 in the open, as a proxy does.
func (r *trial) framer(ip net.IP) (*http2.Framer, net.Conn, error) {
	c, err := r.dial(ip)
	if err != nil {
		return nil, nil, err
	}
	f := http2.NewFramer(c, c)
	if _, err = io.WriteString(c, http2.ClientPreface); err == nil {
		err = f.WriteSettings()
	}
	go func() { _, _ = io.Copy(io.Discard, c) }() // ends with the connection
	return f, c, err
}

func headerBlock(fields ...string) []byte {
	var block strings.Builder
	e := hpack.NewEncoder(&block)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // a builder never fails
	}
	return []byte(block.String())
}

func resets(r *trial) {
	block := headerBlock(":method", "GET", ":scheme", "http", ":authority", "roamcard", ":path", "/api/esim/plans")
	r.besiege(func(ctx context.Context) {
		var busy sync.WaitGroup
		ip := r.address()
		for range sized(4, 16) {
			busy.Go(func() {
				for ctx.Err() == nil {
					r.resetting(ctx, ip, block)
				}
			})
		}
		busy.Wait()
	})
}

// resetting opens streams and resets each at once, until the program has enough of the connection.
func (r *trial) resetting(ctx context.Context, ip net.IP, block []byte) {
	f, c, err := r.framer(ip)
	if err != nil {
		time.Sleep(50 * time.Millisecond) // clock: refused; not in a circle
		return
	}
	defer func() { _ = c.Close() }()
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for id := uint32(1); ctx.Err() == nil && id < 1<<20; id += 2 {
		if f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: true,
			EndHeaders: true}) != nil ||
			f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
			return
		}
		traffic.requests.Add(1)
		traffic.bytes.Add(int64(len(block)) + 22)
		if id%20 == 1 {
			<-pace.C
		}
	}
}

func continues(r *trial) {
	before := r.programs[0].memory()
	junk := make([]byte, 4000)
	_, _ = rand.Read(junk) // never fails
	block := headerBlock(":method", "GET", ":scheme", "http", ":authority", "roamcard", ":path", "/")
	more := headerBlock("x-a", fmt.Sprintf("%x", junk))
	r.besiege(func(ctx context.Context) {
		ip := r.address()
		for ctx.Err() == nil {
			f, c, err := r.framer(ip)
			if err != nil {
				time.Sleep(50 * time.Millisecond) // clock: refused; not in a circle
				continue
			}
			err = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block})
			written := 0
			for ; err == nil && ctx.Err() == nil && written < 64<<20; written += len(more) {
				err = f.WriteContinuation(1, false, more)
			}
			traffic.requests.Add(1)
			traffic.bytes.Add(int64(written))
			if written >= 64<<20 {
				r.Error("64 MB of headers were taken")
			}
			_ = c.Close()
			time.Sleep(20 * time.Millisecond) // clock: a pace that leaves the machine to the program
		}
	})
	r.flat(before)
}

func babbles(r *trial) {
	writes := []func(f *http2.Framer) error{
		func(f *http2.Framer) error { return f.WriteSettings() },
		func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) },
		func(f *http2.Framer) error { return f.WritePriority(5, http2.PriorityParam{Weight: 1}) },
		func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 1) },
		func(f *http2.Framer) error { return f.WriteData(1, false, nil) },
	}
	block := headerBlock(":method", "POST", ":scheme", "http", ":authority", "roamcard", ":path", cardPath)
	r.besiege(func(ctx context.Context) {
		ip := r.address()
		for n := 0; ctx.Err() == nil; n++ {
			f, c, err := r.framer(ip)
			if err != nil {
				time.Sleep(50 * time.Millisecond) // clock: refused; not in a circle
				continue
			}
			err = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true})
			frames := 0
			for ; err == nil && ctx.Err() == nil && frames < 1<<20; frames++ {
				err = writes[n%len(writes)](f)
			}
			traffic.requests.Add(1)
			traffic.bytes.Add(int64(9 * frames))
			if frames == 1<<20 {
				r.Error("a million frames were taken")
			}
			_ = c.Close()
			time.Sleep(20 * time.Millisecond) // clock: a pace that leaves the machine to the program
		}
	})
}

func fattens(r *trial) {
	before := r.programs[0].memory()
	p := r.wallet(0)
	for name, headers := range map[string][]string{
		"8 kB": {headerPayment, strings.Repeat("A", 8<<10)}, "17 kB": {headerPayment, strings.Repeat("A", 17<<10)},
		"64 kB": {headerPayment, strings.Repeat("A", 64<<10)},
		"1 MB":  {headerPayment, strings.Repeat("A", 1<<20)}, "another": {"X-A", strings.Repeat("A", 64<<10)},
		"empty": {headerPayment, ""},
		"blank": {headerPayment, "  "}, "commas": {headerPayment, strings.Repeat("A,", 4000)},
	} {
		a := p.send(r.Context(), http.MethodPost, cardPath, keyed("k"), headers...)
		switch {
		case a.err != nil && strings.Contains(name, "MB"): // cut off while it was sent
		case a.status == http.StatusBadRequest, a.status == http.StatusRequestHeaderFieldsTooLarge:
		case a.status == http.StatusPaymentRequired && (name == "empty" || name == "blank"):
		default:
			r.Errorf("%s: %d %.200s %v", name, a.status, a.body, a.err)
		}
		if whole && a.took > time.Second { // clock: what this torture is about
			r.Errorf("%s took %s", name, a.took)
		}
	}
	big := strings.Repeat("A", 30<<10)
	r.besiege(func(ctx context.Context) {
		flood(ctx, sized(100, 300), 10, 100, func(ctx context.Context, n int) answer {
			return r.caller().send(ctx, http.MethodPost, cardPath, keyed("k"), "X-A", big)
		})
	})
	r.flat(before)
}
