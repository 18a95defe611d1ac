package edge

import (
	"bytes"
	"log"
	"log/slog"
	"regexp"
)

// ErrorLog is where an http.Server says what went wrong with a connection: lines of our log, without the addresses of
// clients, and no longer than a client's words should be.
func ErrorLog(to *slog.Logger) *log.Logger { return log.New(errorLog{to}, "", 0) }

// maxErrorText is how much of a line is kept. net/http quotes what a client has sent.
const maxErrorText = 300

// addresses are those of IPv4 and IPv6, with or without a port.
var addresses = regexp.MustCompile(`\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?|` +
	`\[[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(?:%\w+)?\](?::\d+)?|(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?:%\w+)?`)

type errorLog struct{ to *slog.Logger }

// Write implements io.Writer. Each call has one line, and a panic its stack below.
func (e errorLog) Write(p []byte) (int, error) {
	line, _, _ := bytes.Cut(p, []byte("\n"))
	// Looked through a little further, so that no address is cut in two.
	text := addresses.ReplaceAllString(string(line[:min(len(line), 2*maxErrorText)]), "[address]")
	e.to.Warn("http server", "error", text[:min(len(text), maxErrorText)])
	return len(p), nil
}
