package edge

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// peer speaks HTTP/2 by hand.
type peer struct{ *http2.Framer }

// frames opens a connection of HTTP/2 to a server whose time stands still.
func (e *edge) frames(t *testing.T) *peer {
	t.Helper()
	conn := e.dial(t)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	p := &peer{http2.NewFramer(conn, conn)}
	p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := p.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return p
}

// ask begins a request; ends says that it has no content.
func (p *peer) ask(id uint32, method, path string, ends bool) error {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range [][2]string{
		{":method", method}, {":scheme", "http"}, {":authority", "x"}, {":path", path}, {"content-type", "application/json"},
	} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // a buffer never fails
	}
	return p.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: block.Bytes(), EndStream: ends, EndHeaders: true,
	})
}

// answered reads until a request is answered.
func (p *peer) answered(id uint32) bool {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return false
		}
		if h, ok := f.(*http2.MetaHeadersFrame); ok && h.StreamID == id {
			return true
		}
	}
}

func frozen(c *Config) {
	at := time.Now()
	c.Now = func() time.Time { return at }
}

// TestFramesThatCarryNothingHaveABudget sends each such frame as often as a connection may, which is answered, and as
// often again, which ends it.
func TestFramesThatCarryNothingHaveABudget(t *testing.T) {
	t.Parallel()
	e := start(t, &shop{purchase: unpaid}, frozen)
	for name, write := range map[string]func(p *peer) error{
		"SETTINGS":      func(p *peer) error { return p.WriteSettings() },
		"PING":          func(p *peer) error { return p.WritePing(false, [8]byte{}) },
		"PRIORITY":      func(p *peer) error { return p.WritePriority(5, http2.PriorityParam{Weight: 1}) },
		"WINDOW_UPDATE": func(p *peer) error { return p.WriteWindowUpdate(0, 1) },
		"DATA":          func(p *peer) error { return p.WriteData(1, false, nil) },
		"unknown":       func(p *peer) error { return p.WriteRawFrame(0x42, 0, 0, []byte("x")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e.frames(t)
			if err := p.ask(1, http.MethodPost, purchase, false); err != nil {
				t.Fatal(err)
			}
			for range maxFrames - 10 {
				if err := write(p); err != nil {
					t.Fatalf("within the budget: %v", err)
				}
			}
			if err := p.WriteData(1, true, []byte("{}")); err != nil || !p.answered(1) {
				t.Fatalf("a request within the budget has no answer: %v", err)
			}
			if name == "DATA" { // of a stream that has not ended
				write = func(p *peer) error { return p.WriteData(3, false, nil) }
				if err := p.ask(3, http.MethodPost, purchase, false); err != nil {
					t.Fatal(err)
				}
			}
			for range maxFrames {
				if write(p) != nil {
					return // closed
				}
			}
			if p.ask(5, http.MethodPost, purchase, true) == nil && p.answered(5) {
				t.Error("the connection is open")
			}
		})
	}
}

// TestRequestsPayForTheirFrames sends many requests by one connection of an ordinary client, in no time.
func TestRequestsPayForTheirFrames(t *testing.T) {
	t.Parallel()
	e := start(t, &shop{purchase: unpaid}, frozen)
	// A connection by hand: the pool of a Transport dials again when it has not yet kept the one just dialed.
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	conn, err := transport.NewClientConn(t.Context(), "http", strings.TrimPrefix(e.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for range 2 * maxFrames {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+purchase, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := conn.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
}

// TestAnswersPayForTheirAcknowledgements reads a long answer and acknowledges each kilobyte, as careful clients do.
func TestAnswersPayForTheirAcknowledgements(t *testing.T) {
	t.Parallel()
	const kilobyte, long = 1 << 10, 3 * maxFrames << 10
	e := start(t, &shop{}, func(c *Config) {
		frozen(c)
		c.Raw = map[string]http.Handler{"GET /long": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, long))
		})}
	})
	p := e.frames(t)
	if err := p.ask(1, http.MethodGet, "/long", true); err != nil {
		t.Fatal(err)
	}
	for read, told := 0, 0; read < long; {
		f, err := p.ReadFrame()
		if err != nil {
			t.Fatalf("after %d of %d bytes: %v", read, long, err)
		}
		if d, ok := f.(*http2.DataFrame); ok {
			read += len(d.Data())
		}
		for ; read-told >= kilobyte; told += kilobyte {
			for _, stream := range []uint32{0, 1} {
				if err := p.WriteWindowUpdate(stream, kilobyte); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// ping is a frame of PING, as far as it is counted.
const ping = "\x00\x00\x00\x06\x00\x00\x00\x00\x00"

// TestFramedConnCountsFramesOfAnyPieces reads the same bytes in pieces of each length.
func TestFramedConnCountsFramesOfAnyPieces(t *testing.T) {
	var text bytes.Buffer
	text.WriteString(http2.ClientPreface)
	f := http2.NewFramer(&text, nil)
	for n := range maxFrames {
		if err := f.WriteData(1, false, make([]byte, n%40)); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	for size := 1; size < 64; size++ {
		c := newFramedConn(nil, func() time.Time { return now }, nil)
		for b := range slices.Chunk(text.Bytes(), size) {
			if !c.count(b) {
				t.Fatalf("pieces of %d: closed within the budget", size)
			}
		}
		if c.count([]byte(ping)) {
			t.Fatalf("pieces of %d: a frame more was taken", size)
		}
	}
	c := newFramedConn(nil, time.Now, nil)
	if !c.count([]byte("PRI * HTTP/1.1\r\n")) || !c.other {
		t.Error("what is not HTTP/2 is counted")
	}
}

// TestTimeAddsFrames keeps a connection alive, which asks for nothing.
func TestTimeAddsFrames(t *testing.T) {
	now := time.Now()
	c := newFramedConn(nil, func() time.Time { return now }, nil)
	if !c.count([]byte(http2.ClientPreface + strings.Repeat(ping, maxFrames))) {
		t.Fatal("closed within the budget")
	}
	for range 20 {
		now = now.Add(time.Second)
		for n := range framesPerSecond {
			if !c.count([]byte(ping)) {
				t.Fatalf("after a second %d frames were taken", n)
			}
		}
	}
	if c.count([]byte(ping)) {
		t.Error("more frames were taken than the time has added")
	}
}
