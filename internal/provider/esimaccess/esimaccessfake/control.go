package esimaccessfake

import (
	"encoding/json"
	"net/http"
)

// bookBody is an order of the books as the control API shows it, without the codes that fetch its profile.
type bookBody struct {
	ID string `json:"id"`
	// Reference is what the client named the order.
	Reference string `json:"reference"`
	Code      string `json:"code"`
	Status    string `json:"status"`
	Cost      int64  `json:"costMicros"`
	// Onto is the order whose profile a package was added to.
	Onto string `json:"onto,omitempty"`
}

// showBooks answers GET /control/books, for tests and developers.
func (s *Server) showBooks(w http.ResponseWriter, _ *http.Request) {
	shown := []bookBody{}
	for _, o := range s.Orders() {
		status := "released"
		switch o.ESIMStatus {
		case allocating:
			status = "ordered"
		case cancelled:
			status = "cancelled"
		}
		shown = append(shown, bookBody{o.ProfileNo, o.Transaction, o.Package, status, o.Price * microsPerUnit, ""})
		for _, t := range o.Topups {
			shown = append(shown, bookBody{
				t.Transaction, t.Transaction, t.Package, "released", t.Price * microsPerUnit, o.ProfileNo,
			})
		}
	}
	write(w, http.StatusOK, map[string]any{"esims": shown})
}

// microsPerUnit is how many millionths of a dollar are in the vendor's ten thousandth.
const microsPerUnit = 100

// addFault answers POST /control/faults, such as {"op":"order","mode":"timeout_after"}.
func (s *Server) addFault(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Op   string `json:"op"`
		Mode Mode   `json:"mode"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&asked)
	if err != nil || !s.Fault(asked.Op, asked.Mode) {
		write(w, http.StatusBadRequest, map[string]string{"error": "there is no such fault"})
		return
	}
	write(w, http.StatusOK, asked)
}

// clearFaults answers DELETE /control/faults: what was to go wrong does not.
func (s *Server) clearFaults(w http.ResponseWriter, _ *http.Request) {
	s.faults.Clear()
	write(w, http.StatusOK, struct{}{})
}
