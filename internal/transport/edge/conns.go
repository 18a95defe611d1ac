package edge

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/telemetry"
)

// conns are the open connections. An address may have so many of them. When there are as many as there may be,
// a new one takes the place of whichever has been idle for longest, so that they cannot be used up by who holds
// them and does nothing; only when all of them are at work, the new one is refused.
type conns struct {
	most, mostEach int
	trusted        []netip.Prefix
	metrics        *telemetry.Metrics

	mu   sync.Mutex
	all  map[net.Conn]*held
	each map[string]int
	// idle has the connections without a request, the longest idle in front.
	idle *list.List
}

// held is one connection.
type held struct {
	conn net.Conn
	// name is empty for a proxy's, which carry many clients.
	name string
	// idle is the place among the idle ones; nil while a request is under way.
	idle *list.Element
}

func newConns(c Config) *conns {
	return &conns{
		most: c.MaxConns, mostEach: c.MaxConnsPerAddress, trusted: c.TrustedProxies, metrics: c.Metrics,
		all: map[net.Conn]*held{}, each: map[string]int{}, idle: list.New(),
	}
}

// listen is a listener whose connections are counted.
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
		if l.conns.take(conn) {
			return conn, nil
		}
		// Nothing is said to it: an answer would cost more than the connection did.
		_ = conn.Close()
	}
}

// take counts a connection, unless it is one too many.
func (c *conns) take(conn net.Conn) bool {
	name := c.nameOf(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case name != "" && c.mostEach > 0 && c.each[name] >= c.mostEach:
		c.metrics.Limited(context.Background(), "connections_address")
		return false
	case c.most > 0 && len(c.all) >= c.most && !c.evict():
		c.metrics.Limited(context.Background(), "connections")
		return false
	}
	h := &held{conn: conn, name: name}
	h.idle = c.idle.PushBack(h)
	c.all[conn] = h
	if name != "" {
		c.each[name]++
	}
	return true
}

// nameOf is what a connection is counted under; empty for one of a proxy.
func (c *conns) nameOf(conn net.Conn) string {
	peer, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || limit.Trusted(c.trusted, peer.Addr().Unmap()) {
		return ""
	}
	return limit.Name(peer.Addr())
}

// evict closes the connection that has been idle for longest.
func (c *conns) evict() bool {
	front := c.idle.Front()
	if front == nil {
		return false
	}
	h, _ := front.Value.(*held)
	c.drop(h)
	c.metrics.Limited(context.Background(), "connections_idle")
	_ = h.conn.Close()
	return true
}

func (c *conns) drop(h *held) {
	if h.idle != nil {
		c.idle.Remove(h.idle)
		h.idle = nil
	}
	delete(c.all, h.conn)
	if h.name == "" {
		return
	}
	if c.each[h.name]--; c.each[h.name] == 0 {
		delete(c.each, h.name)
	}
}

// moved is the server's word on a connection. A new one is idle until its first request is there, so that one
// that never sends any can be closed for another.
func (c *conns) moved(conn net.Conn, state http.ConnState) {
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
