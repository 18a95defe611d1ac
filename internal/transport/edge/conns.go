package edge

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// How often an address may be refused by its rates, and how many refusals it must have left for a new connection. A
// refusal costs us as much as it costs the caller, who can send requests as fast as we refuse them, and streams of
// HTTP/2 that are reset at once faster than that.
const (
	refusals     limit.Class = "refusals"
	maxRefusals              = 200 // in a second
	leftRefusals             = maxRefusals / 2
)

// conns limits the open connections, in all, by address and by the networks of each. At the limit of all, a new
// connection replaces the one that has been idle for longest, so that idle clients cannot use all of them up; when none
// is idle, the new one is refused.
type conns struct {
	maxOpen, maxPerAddress int
	trusted                []netip.Prefix
	metrics                *telemetry.Metrics
	now                    func() time.Time
	// refusals counts those of each address.
	refusals *limit.Limiter

	mu         sync.Mutex
	all        map[net.Conn]*openConn
	perAddress map[string]int
	// idle has the connections without a request, the longest idle first.
	idle *list.List
}

// openConn is one connection.
type openConn struct {
	conn net.Conn
	// name is its address's; empty for that of a proxy.
	name string
	// networks are what its address is counted in; none for that of a proxy, which serves many clients.
	networks []limit.Network
	// idle is its element of conns.idle; nil while a request runs.
	idle *list.Element
}

func newConns(c Config) *conns {
	return &conns{
		maxOpen: c.MaxConns, maxPerAddress: c.MaxConnsPerAddress, trusted: c.TrustedProxies, metrics: c.Metrics,
		now: c.Now, refusals: limit.New(limit.Rates{refusals: {Count: maxRefusals, Per: time.Second}}, c.Now),
		all: map[net.Conn]*openConn{}, perAddress: map[string]int{}, idle: list.New(),
	}
}

// listen is a listener whose connections are counted, and their frames.
func (c *conns) listen(on net.Listener) net.Listener { return countedListener{on, c} }

type countedListener struct {
	net.Listener
	conns *conns
}

// Accept implements net.Listener.
func (l countedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn = newFramedConn(conn, l.conns.now, l.conns.metrics)
		if l.conns.take(conn) {
			return conn, nil
		}
		// Closed without an answer, which would cost more than the connection.
		_ = conn.Close()
	}
}

// take counts a connection; false when it is over a limit.
func (c *conns) take(conn net.Conn) bool {
	name := c.nameOf(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	var networks []limit.Network // none for a proxy
	if name != "" {
		networks = limit.Networks(name)
	}
	full := func(in limit.Network) bool {
		return c.maxPerAddress > 0 && c.perAddress[in.Name] >= c.maxPerAddress*in.AtOnce
	}
	switch {
	case c.refusals.Left(refusals, name) < leftRefusals:
		c.metrics.Limited(context.Background(), "connections_refused")
		return false
	case slices.ContainsFunc(networks, full):
		c.metrics.Limited(context.Background(), "connections_address")
		return false
	case c.maxOpen > 0 && len(c.all) >= c.maxOpen && !c.evict():
		c.metrics.Limited(context.Background(), "connections")
		return false
	}
	h := &openConn{conn: conn, name: name, networks: networks}
	h.idle = c.idle.PushBack(h)
	c.all[conn] = h
	for _, in := range networks {
		c.perAddress[in.Name]++
	}
	return true
}

// nameOf is the name under which a connection is counted; empty for one of a proxy.
func (c *conns) nameOf(conn net.Conn) string {
	peer, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || limit.Trusted(c.trusted, peer.Addr().Unmap()) {
		return ""
	}
	return limit.Name(peer.Addr())
}

type connKey struct{}

// withConn is the server's ConnContext.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// refused counts a refusal by a rate on the connection of a request, and reports whether the connection has to end: its
// address is refused too often. A proxy's never ends, because it serves others, too.
func (c *conns) refused(ctx context.Context) bool {
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	c.mu.Lock()
	h := c.all[conn]
	c.mu.Unlock()
	if h == nil || h.name == "" {
		return false
	}
	_, _, err := c.refusals.Take(refusals, h.name)
	return err != nil
}

// evict closes the connection that has been idle for longest.
func (c *conns) evict() bool {
	front := c.idle.Front()
	if front == nil {
		return false
	}
	h, _ := front.Value.(*openConn)
	c.drop(h)
	c.metrics.Limited(context.Background(), "connections_idle")
	_ = h.conn.Close()
	return true
}

func (c *conns) drop(h *openConn) {
	if h.idle != nil {
		c.idle.Remove(h.idle)
		h.idle = nil
	}
	delete(c.all, h.conn)
	for _, in := range h.networks {
		if c.perAddress[in.Name]--; c.perAddress[in.Name] == 0 {
			delete(c.perAddress, in.Name)
		}
	}
}

// stateChanged is the server's ConnState. A new connection is idle until its first request arrives, so that one
// that never sends any can be closed for another.
func (c *conns) stateChanged(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, known := c.all[conn]
	if !known {
		return
	}
	switch state {
	case http.StateActive:
		if h.idle != nil {
			c.idle.Remove(h.idle)
			h.idle = nil
		}
	case http.StateNew, http.StateIdle:
		if h.idle == nil {
			h.idle = c.idle.PushBack(h)
		}
	case http.StateClosed, http.StateHijacked:
		c.drop(h)
	}
}
