package edge

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/roamcard/roamcard/internal/telemetry"
)

// Some frames of HTTP/2 are work that no limit of requests sees: SETTINGS, PING, PRIORITY, WINDOW_UPDATE and DATA
// without content belong to no request, or to one that was counted long ago. So a connection has a budget of frames: a
// request adds to it, and so does what the client is sent, because WINDOW_UPDATE acknowledges that, and PING
// measures it. Time adds what keeps a connection alive. A connection without budget is closed.
const (
	maxFrames        = 1000 // those of the beginning, and the most that a connection may save
	framesPerSecond  = 100
	framesPerRequest = 16
	// bytesPerFrame is what a client has received when one more frame of it is no surprise.
	bytesPerFrame = 512
)

// clientPreface begins each connection of HTTP/2 (RFC 9113, 3.4).
const clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// frameHeaders is the type of the frame that begins a request (RFC 9113, 6.2).
const frameHeaders = 1

var errFrames = errors.New("too many frames of HTTP/2")

// framedConn is a connection that counts the frames it reads when they are HTTP/2's.
type framedConn struct {
	net.Conn
	now     func() time.Time
	metrics *telemetry.Metrics
	// sent are the bytes written since they last became frames.
	sent atomic.Int64

	// What follows belongs to the reader.

	// other says that the connection does not speak HTTP/2.
	other bool
	// prefaced is how much of the preface was read, headed how much of head, and payload is how much of the frame is
	// still to come.
	prefaced, headed, payload int
	head                      [9]byte
	left                      int64
	since                     time.Time
}

func newFramedConn(conn net.Conn, now func() time.Time, metrics *telemetry.Metrics) *framedConn {
	return &framedConn{Conn: conn, now: now, metrics: metrics, left: maxFrames, since: now()}
}

// Read implements net.Conn.
func (f *framedConn) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	if f.other || f.count(b[:n]) {
		return n, err
	}
	f.metrics.Limited(context.Background(), "frames")
	_ = f.Conn.Close()
	return 0, errFrames
}

// Write implements net.Conn.
func (f *framedConn) Write(b []byte) (int, error) {
	n, err := f.Conn.Write(b)
	f.sent.Add(int64(n))
	return n, err
}

// CloseWrite ends what is sent, and lets the other side read it. An http.Server does so before it closes a connection
// with an answer that the client has not read.
func (f *framedConn) CloseWrite() error {
	if half, ok := f.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// count counts the frames that begin in b; false when the budget does not suffice.
func (f *framedConn) count(b []byte) bool {
	for len(b) > 0 {
		n := len(b)
		switch {
		case f.prefaced < len(clientPreface):
			n = min(n, len(clientPreface)-f.prefaced)
			if string(b[:n]) != clientPreface[f.prefaced:f.prefaced+n] {
				f.other = true
				return true
			}
			f.prefaced += n
		case f.payload > 0:
			n = min(n, f.payload)
			f.payload -= n
		default:
			n = copy(f.head[f.headed:], b)
			if f.headed += n; f.headed < len(f.head) {
				return true
			}
			f.headed = 0
			f.payload = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
			if !f.spend(f.head[3]) {
				return false
			}
		}
		b = b[n:]
	}
	return true
}

// spend takes one frame from the budget.
func (f *framedConn) spend(kind byte) bool {
	f.left--
	if kind == frameHeaders {
		f.left = min(f.left+framesPerRequest, maxFrames)
	}
	if f.left >= 0 {
		return true
	}
	now := f.now()
	earned := f.sent.Swap(0)/bytesPerFrame + int64(now.Sub(f.since)*framesPerSecond/time.Second)
	f.left, f.since = min(f.left+earned, maxFrames), now
	return f.left >= 0
}
