package endtoend_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// commitCutter is a way to the database that breaks the connection at some of the COMMITs that pass: in
// turn before the server has seen it, and after.
type commitCutter struct {
	url string
	// every is how many COMMITs pass for one that does not; 0 lets all pass.
	every atomic.Int64
	seen  atomic.Int64
	cuts  atomic.Int64
}

func newCommitCutter(t *testing.T, target string) *commitCutter {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	server := filepath.Join(query.Get("host"), ".s.PGSQL."+query.Get("port"))
	dir, err := os.MkdirTemp("", "cut-") // the test's own folder would be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.1"))
	if err != nil {
		t.Fatal(err)
	}
	c := &commitCutter{}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { c.relay(client, server) })
		}
	})
	t.Cleanup(func() { listener.Close(); open.Wait() })
	query.Set("host", dir)
	query.Set("port", "1")
	u.RawQuery = query.Encode()
	c.url = u.String()
	return c
}

func (c *commitCutter) relay(client net.Conn, server string) {
	defer client.Close()
	back, err := net.Dial("unix", server)
	if err != nil {
		return
	}
	defer back.Close()
	go func() { _, _ = io.Copy(client, back); client.Close() }()
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		cut, forward := c.decide(buffer[:n])
		if cut {
			client.Close()
			if !forward {
				return
			}
		}
		if _, err := back.Write(buffer[:n]); err != nil {
			return
		}
		if cut {
			_ = back.(*net.UnixConn).CloseWrite() // the server does it and then finds us gone
			_, _ = io.Copy(io.Discard, back)
			return
		}
	}
}

// decide says what becomes of what a client has sent.
func (c *commitCutter) decide(sent []byte) (cut, forward bool) {
	every := c.every.Load()
	if every == 0 || !bytes.Contains(sent, commitMarker()) || c.seen.Add(1)%every != 0 {
		return false, false
	}
	return true, c.cuts.Add(1)%2 == 0
}

// commitMarker is in what a client sends to execute a COMMIT: the name that pgx gives the statement, bound
// to a portal without a name.
func commitMarker() []byte {
	sum := sha256.Sum256([]byte("commit"))
	return []byte("\x00stmtcache_" + hex.EncodeToString(sum[:24]) + "\x00")
}
