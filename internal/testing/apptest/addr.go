package apptest

import (
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

const (
	firstPort  = 12_000
	portsOfOne = 1_000
	ranges     = 18
)

var addrs atomic.Int64

// owned is this process's range, and what holds it for as long as the process lives.
type owned struct {
	from  int
	guard net.Listener
}

var ours = sync.OnceValues(func() (o owned, err error) {
	o.from, o.guard, err = takeRange(os.Getpid())
	return o, err
})

// takeRange takes the range at a place, or one after it. Who listens at its last port has it, so no other process of
// the machine does: none of another clone's tests, either.
func takeRange(place int) (from int, l net.Listener, err error) {
	for n := range ranges {
		from = firstPort + (place+n)%ranges*portsOfOne
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", from+portsOfOne-1)); err == nil {
			return from, l, nil
		}
	}
	return 0, nil, fmt.Errorf("each range of ports is another process's: %w", err)
}

// FreeAddr is a loopback address for a program that may be down for a while: no other call returns it, in this process
// or in another, and connections get higher ports.
func FreeAddr(t testing.TB) string {
	t.Helper()
	own, err := ours()
	if err != nil {
		t.Fatal(err)
	}
	for {
		n := int(addrs.Add(1)) - 1
		if n >= portsOfOne-1 {
			t.Fatal("no free port")
		}
		addr := fmt.Sprintf("127.0.0.1:%d", own.from+n)
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close() // only asked for
			return addr
		}
	}
}
