package edge

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/limit"
)

// refusing is a server that refuses all requests but the first, by a time that the test turns on.
func refusing(t *testing.T, proxies ...netip.Prefix) (e *edge, later func(time.Duration)) {
	t.Helper()
	var passed atomic.Int64
	began := time.Now()
	now := func() time.Time { return began.Add(time.Duration(passed.Load())) }
	e = start(t, &shop{}, func(c *Config) {
		c.Now, c.TrustedProxies = now, proxies
		c.Limits = limit.New(limit.Rates{limit.Poll: {Count: 1, Per: time.Hour}}, now)
	})
	return e, func(d time.Duration) { passed.Add(int64(d)) }
}

// askOver asks once over HTTP/1.1; 0 is a connection that has ended.
func askOver(conn net.Conn) (status int, ends bool) {
	if _, err := io.WriteString(conn, hello); err != nil {
		return 0, true
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, true
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Close
}

// TestAddressThatIsRefusedTooOftenHasNoConnections: it loses those that it has with their next refusal, and gets no
// other for a while. One that is refused now and then keeps them.
func TestAddressThatIsRefusedTooOftenHasNoConnections(t *testing.T) {
	t.Parallel()
	e, later := refusing(t)
	conn, other := e.dial(t), e.dial(t)
	if status, _ := askOver(conn); status == http.StatusTooManyRequests {
		t.Fatal("the first one is refused")
	}
	for n := range 3 * maxRefusals {
		if n == maxRefusals/2 || n == maxRefusals {
			later(time.Second) // now and then
		}
		status, ends := askOver(conn)
		if status == http.StatusTooManyRequests && ends {
			if n != 2*maxRefusals {
				t.Errorf("the connection ends with refusal %d", n)
			}
			break
		}
		if status != http.StatusTooManyRequests || n > 2*maxRefusals {
			t.Fatalf("refusal %d is %d", n, status)
		}
	}
	if !ended(conn) {
		t.Error("the connection is open")
	}
	if status, ends := askOver(other); status != http.StatusTooManyRequests || !ends {
		t.Errorf("its other connection: %d, ends: %t", status, ends)
	}
	if status, _ := askOver(e.dial(t)); status != 0 {
		t.Errorf("a new connection is answered %d", status)
	}
	later(time.Second * (leftRefusals - 1) / maxRefusals)
	if status, _ := askOver(e.dial(t)); status != 0 {
		t.Errorf("a new connection is answered %d soon after", status)
	}
	later(time.Second / maxRefusals)
	if status, ends := askOver(e.dial(t)); status != http.StatusTooManyRequests || ends {
		t.Errorf("half a second later: %d, ends: %t", status, ends)
	}
}

// TestStreamsThatAreResetEndTheirConnection opens streams and resets each at once, faster than they can be refused. The
// HTTP server may end a connection first, because too many of them run; another one goes on.
func TestStreamsThatAreResetEndTheirConnection(t *testing.T) {
	t.Parallel()
	e, later := refusing(t)
	flood := func() {
		p := e.frames(t)
		gone := make(chan struct{})
		go func() { // what is not read keeps the server from writing
			defer close(gone)
			for {
				if _, err := p.ReadFrame(); err != nil {
					return
				}
			}
		}()
		for id := uint32(1); id < 1<<20; id += 2 {
			if p.ask(id, http.MethodGet, "/api/card/discovery", true) != nil || p.WriteRSTStream(id, 8) != nil {
				break
			}
		}
		<-gone
	}
	status := http.StatusTooManyRequests
	for n := 0; n < 20 && status != 0; n++ {
		flood()
		status, _ = askOver(e.dial(t))
	}
	if status != 0 {
		t.Errorf("a new connection is answered %d", status)
	}
	later(time.Second)
	if status, _ := askOver(e.dial(t)); status != http.StatusTooManyRequests {
		t.Errorf("a second later: %d", status)
	}
}

// TestProxyKeepsItsConnections refuses one of its clients too often.
func TestProxyKeepsItsConnections(t *testing.T) {
	t.Parallel()
	e, _ := refusing(t, netip.MustParsePrefix("127.0.0.0/8"))
	conn := e.dial(t)
	for n := range 2 * maxRefusals {
		if status, ends := askOver(conn); status == 0 || ends {
			t.Fatalf("request %d: %d, ends: %t", n, status, ends)
		}
	}
}

// TestNetworkIsRefusedAsAWhole: who has many networks of IPv6 has a few times the refusals of one.
func TestNetworkIsRefusedAsAWhole(t *testing.T) {
	now := time.Now()
	c := newConns(Config{Now: func() time.Time { return now }})
	address := func(n int) *from {
		return &from{addr: &net.TCPAddr{IP: netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x::1", n)).AsSlice(), Port: 1}}
	}
	n := 0
	for conn := address(n); n < 256 && c.take(conn); conn = address(n) {
		for range leftRefusals {
			if c.refused(withConn(t.Context(), conn)) {
				t.Fatal("ended")
			}
		}
		n++
	}
	if n < 2 || n > 8 {
		t.Errorf("a network has no connection after those of %d others were refused", n)
	}
	if other := (&from{addr: &net.TCPAddr{IP: net.IPv4(10, 0, 1, 1), Port: 1}}); !c.take(other) {
		t.Error("another address has no connection")
	}
	if now = now.Add(time.Second); !c.take(address(n)) {
		t.Error("it has none a second later")
	}
}

// from is a connection of an address.
type from struct {
	net.Conn
	addr net.Addr
}

// RemoteAddr implements net.Conn.
func (f *from) RemoteAddr() net.Addr { return f.addr }
