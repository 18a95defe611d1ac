package rest

import (
	"maps"
	"net/http"

	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// paged shows a page to those who ask for one.
type paged struct {
	operation http.Handler
	page      Page
}

// ServeHTTP implements http.Handler.
func (p paged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.page.Wanted(r) {
		p.operation.ServeHTTP(w, r)
		return
	}
	var answer rpcx.Answer
	maps.Copy(answer.Header(), w.Header())
	asked := r.Clone(r.Context())
	asked.URL.RawQuery = "" // what mail and chats add to a link is nothing that the operation knows
	p.operation.ServeHTTP(&answer, asked)
	maps.Copy(w.Header(), answer.Header())
	w.Header().Del("Content-Length")
	p.page.Send(w, r, answer.Status)
}
