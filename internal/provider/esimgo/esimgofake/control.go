package esimgofake

import (
	"encoding/json"
	"net/http"

	"github.com/roamcard/roamcard/internal/money"
)

// bookBody is an order of the books as the control API shows it. The vendor knows no reference of its clients.
type bookBody struct {
	ID     string     `json:"id"`
	Code   string     `json:"code"`
	Status string     `json:"status"`
	Cost   money.USDC `json:"costMicros"`
	Onto   string     `json:"onto,omitempty"`
}

// control is the control API, for tests and developers. It needs no key: it is for this machine.
func (s *Server) control() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /control/books", s.showBooks)
	mux.HandleFunc("POST /control/faults", s.addFault)
	mux.HandleFunc("POST /control/webhooks", s.setCallbacks)
	mux.HandleFunc("POST /control/orders/{reference}/usage", s.use)
	return mux
}

func (s *Server) showBooks(w http.ResponseWriter, _ *http.Request) {
	shown := []bookBody{}
	for _, o := range s.Orders() {
		status := "ordered"
		if o.Completed {
			status = "released"
		}
		shown = append(shown, bookBody{o.Reference, o.Bundle, status, o.Total, o.Onto})
	}
	write(w, ok(map[string]any{"esims": shown}))
}

// addFault takes such as {"op":"order","mode":"timeout_after"}.
func (s *Server) addFault(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Op   string `json:"op"`
		Mode Mode   `json:"mode"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&asked)
	if err != nil || !s.Fault(asked.Op, asked.Mode) {
		write(w, no(http.StatusBadRequest, "there is no such fault"))
		return
	}
	write(w, ok(asked))
}
