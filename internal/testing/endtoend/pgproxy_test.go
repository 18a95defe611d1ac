package endtoend_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
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
	c := &commitCutter{}
	c.url = databaseBehind(t, target, c.relay)
	return c
}

// databaseBehind is the address of a proxy that hands each connection to relay, with the server's socket.
func databaseBehind(t *testing.T, target string, relay func(client net.Conn, server string)) string {
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
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { relay(client, server) })
		}
	})
	t.Cleanup(func() { listener.Close(); open.Wait() })
	query.Set("host", dir)
	query.Set("port", "1")
	u.RawQuery = query.Encode()
	return u.String()
}

// deafener is a way to the database on which LISTEN succeeds and no notification ever arrives, as behind a pooler
// that shares connections between transactions.
type deafener struct {
	url string
	// lost are the notifications that did not arrive.
	lost atomic.Int64
}

func newDeafener(t *testing.T, target string) *deafener {
	t.Helper()
	d := &deafener{}
	d.url = databaseBehind(t, target, d.relay)
	return d
}

func (d *deafener) relay(client net.Conn, server string) {
	relayAnswers(client, server, func([]byte) bool { d.lost.Add(1); return false })
}

// overhearer is a way to the database that keeps the notifications that pass.
type overhearer struct {
	url string
	mu  sync.Mutex
	all []string
}

func newOverhearer(t *testing.T, target string) *overhearer {
	t.Helper()
	o := &overhearer{}
	o.url = databaseBehind(t, target, o.relay)
	return o
}

func (o *overhearer) relay(client net.Conn, server string) {
	relayAnswers(client, server, func(notification []byte) bool {
		// The process that sent it, the channel, and the text.
		parts := bytes.SplitN(notification[4:], []byte{0}, 3)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.all = append(o.all, string(parts[1]))
		return true
	})
}

// heard counts the notifications with a topic and a key.
func (o *overhearer) heard(topic, key string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, text := range o.all {
		if _, about, _ := strings.Cut(text, "\n"); about == topic+"\n"+key {
			n++
		}
	}
	return n
}

// relayAnswers hands a connection on to the server, and of the answers the notifications that pass says so for.
func relayAnswers(client net.Conn, server string, pass func(notification []byte) bool) {
	defer client.Close()
	back, err := net.Dial("unix", server)
	if err != nil {
		return
	}
	defer back.Close()
	go func() { _, _ = io.Copy(back, client); back.Close() }()
	from, to := bufio.NewReader(back), bufio.NewWriter(client)
	for {
		if from.Buffered() == 0 && to.Flush() != nil {
			return
		}
		// A message is its type, a length that includes itself, and the rest.
		var head [5]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return
		}
		rest := make([]byte, max(binary.BigEndian.Uint32(head[1:]), 4)-4)
		if _, err := io.ReadFull(from, rest); err != nil {
			return
		}
		if head[0] == 'A' && !pass(rest) { // NotificationResponse
			continue
		}
		_, _ = to.Write(head[:]) // Flush tells
		_, _ = to.Write(rest)
	}
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
