package esimaccessfake

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

// books are the books, for tests and developers.
func (s *Server) books() (any, error) {
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
	return map[string]any{"esims": shown}, nil
}

// microsPerUnit is how many millionths of a dollar are in the vendor's ten thousandth.
const microsPerUnit = 100
