package apptest

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

const (
	firstPort     = 12_000
	portsOfOne    = 1_000
	portsOfOthers = 18
)

var addrs atomic.Int64

// FreeAddr is a loopback address for a program that may be down for a while: no other call in this process returns it,
// calls in other processes take theirs from another range, as a rule, and connections get higher ports.
func FreeAddr(t testing.TB) string {
	t.Helper()
	from := firstPort + os.Getpid()%portsOfOthers*portsOfOne
	for {
		n := int(addrs.Add(1)) - 1
		if n >= portsOfOne {
			t.Fatal("no free port")
		}
		addr := fmt.Sprintf("127.0.0.1:%d", from+n)
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close() // only asked for
			return addr
		}
	}
}
