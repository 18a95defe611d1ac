package rpcx

import (
	"bytes"
	"net/http"
)

// Answer is the http.ResponseWriter of a call in process: it keeps the answer, which is rewritten for another
// protocol. The zero Answer is ready for use.
type Answer struct {
	header http.Header
	// Status is 0 until the answer begins.
	Status int
	Body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *Answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

// WriteHeader implements http.ResponseWriter. The first status counts.
func (a *Answer) WriteHeader(status int) {
	if a.Status == 0 {
		a.Status = status
	}
}

// Write implements http.ResponseWriter.
func (a *Answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.Body.Write(p)
}
