package edge

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/telemetry"
)

func TestErrorLogHasNoAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"http2: server connection error from 203.0.113.7:49152: connection error: PROTOCOL_ERROR": "http2: server " +
			"connection error from [address]: connection error: PROTOCOL_ERROR",
		"http2: server: error reading preface from client [2001:db8::7%eth0]:49152: bogus greeting": "http2: server: " +
			"error reading preface from client [address]: bogus greeting",
		"http: read tcp 10.0.0.1:8080->[::ffff:203.0.113.7]:1: reset": "http: read tcp [address]->[address]: reset",
		"http: panic serving 203.0.113.7:1: lost\ngoroutine 7":        "http: panic serving [address]: lost",
		"timeout waiting for SETTINGS from 2001:db8::7":               "timeout waiting for SETTINGS from [address]",
		"Accept error: too many open files; retrying in 1s":           "Accept error: too many open files; retrying in 1s",
	} {
		out := &logs{}
		ErrorLog(telemetry.NewLogger(out, slog.LevelInfo, true)).Print(text)
		if !strings.Contains(out.String(), `"msg":"http server","error":"`+want+`"`) {
			t.Errorf("%s: %s", text, out)
		}
	}
	out := &logs{}
	ErrorLog(telemetry.NewLogger(out, slog.LevelInfo, true)).Print(strings.Repeat("x", 100_000))
	if n := len(out.String()); n > 1000 {
		t.Errorf("a long line has %d bytes", n)
	}
}

// TestBrokenHTTP2IsLoggedWithoutTheClient sends what breaks a connection of HTTP/2.
func TestBrokenHTTP2IsLoggedWithoutTheClient(t *testing.T) {
	e := start(t, &shop{}, nil)
	conn := e.dial(t)
	// A frame of SETTINGS, and one of DATA for a stream that nobody has opened.
	const frames = "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00\x01"
	if _, err := io.WriteString(conn, clientPreface+frames); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, conn) // until the server has closed it, which it says before
	if got := e.logs.String(); !strings.Contains(got, "http2: server connection error from [address]") ||
		strings.Contains(got, conn.LocalAddr().(*net.TCPAddr).IP.String()) {
		t.Errorf("log: %s", got)
	}
}
