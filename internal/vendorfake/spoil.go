package vendorfake

import (
	"bytes"
	"net/http"
	"strconv"
)

// HangUp ends a request without an answer. A few bytes go out first: an HTTP client that sees a kept connection close
// before the first byte may send again by itself, and the fault would not show.
func HangUp(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_, _ = conn.Write([]byte("HTTP/1.1 "))
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}

// Page answers with a page that quotes an answer.
func Page(w http.ResponseWriter, encoded []byte) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = w.Write([]byte("<html><body>" + string(encoded) + "</body></html>"))
}

// Half breaks the connection in the middle of an answer.
func Half(w http.ResponseWriter, encoded []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(encoded)))
	_, _ = w.Write(encoded[:len(encoded)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// Padded answers right, behind so many spaces.
func Padded(w http.ResponseWriter, encoded []byte, spaces int) {
	_, _ = w.Write(append(bytes.Repeat([]byte(" "), spaces), encoded...))
}
