package web

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/roamcard/roamcard/internal/availability"
)

// Board reports how the products stand.
type Board interface {
	// Report fails only when ctx ends.
	Report(ctx context.Context) (availability.Report, error)
}

// StatusPath is the page that shows how the service stands.
const StatusPath = "/status"

// StatusPage is the handlers of the page that shows how the service stands, by patterns of http.ServeMux.
func StatusPage(b Board) map[string]http.Handler {
	return map[string]http.Handler{
		"GET " + StatusPath:                statusPage{b},
		"GET " + StatusPath + "/style.css": file("text/css; charset=utf-8", "public, max-age=300", style("status.css")),
	}
}

var statusForm = template.Must(template.ParseFS(files, "status.html"))

// statusPolicy lets the page load its style, and nothing else.
const statusPolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

type statusPage struct{ Board }

// shownStatus fills status.html.
type shownStatus struct {
	Words, At string
	Products  []shownProduct
}

type shownProduct struct {
	Title, State, Word, Reason, Since, Delivery string
}

// words say a state to people: of the whole service, and of one product.
var words = map[availability.State]struct{ all, one string }{
	availability.StateOpen:     {"Everything works", "Open"},
	availability.StateDegraded: {"Some things do not work", "Degraded"},
	availability.StatePaused:   {"Nothing is sold at the moment", "Paused"},
}

// ServeHTTP implements http.Handler.
func (s statusPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	report, err := s.Report(r.Context())
	if err != nil {
		return // the browser has gone
	}
	shown := shownStatus{Words: words[report.State()].all, At: minute(report.At)}
	for _, p := range report.Products {
		shown.Products = append(shown.Products, shownProduct{
			Title: p.Title, State: string(p.State), Word: words[p.State].one, Reason: p.Reason, Since: minute(p.Since),
			Delivery: taken(p.Delivery),
		})
	}
	var b bytes.Buffer
	if err := statusForm.ExecuteTemplate(&b, "status.html", shown); err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", statusPolicy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Link", `</api/status>; rel="alternate"; type="application/json"`)
	_, _ = w.Write(b.Bytes()) // the browser may have gone
}

// minute shows a time to people and to the element time.
func minute(at time.Time) string { return at.UTC().Format("2006-01-02 15:04Z") }

// taken shows how long deliveries took; empty when there was none.
func taken(d availability.DeliveryTime) string {
	switch {
	case d.Count == 0:
		return ""
	case d.Median < time.Second:
		return "less than a second"
	case d.Median < 2*time.Minute:
		return fmt.Sprintf("%d s", d.Median.Round(time.Second)/time.Second)
	default:
		return fmt.Sprintf("%d min", d.Median.Round(time.Minute)/time.Minute)
	}
}
