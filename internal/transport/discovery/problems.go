package discovery

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/roamcard/roamcard/internal/fault"
)

//go:embed problems/page.html
var problemPage string

// explained is the explanation of a code at the URL of its problem type.
type explained struct {
	Type string `json:"type"`
	failure
	Advice string `json:"advice"`
}

// problemPattern is the route of the URLs of problem types.
var problemPattern = "GET " + fault.Code("{code}").Path()

// problems are the pages that explain the codes of the catalogue, at the URLs of their problem types.
func problems(notFound http.Handler) (http.Handler, error) {
	form, err := template.New("problem").Parse(problemPage)
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	all := map[string]http.Handler{}
	for _, k := range fault.Catalogue() {
		e := explained{k.Code.Path(), failureOf(k), k.NextAction.Advice()}
		text, err := encode(e)
		if err != nil {
			return nil, fmt.Errorf("explain %s: %w", k.Code, err)
		}
		var forPeople bytes.Buffer
		if err := form.Execute(&forPeople, e); err != nil {
			return nil, fmt.Errorf("explain %s to people: %w", k.Code, err)
		}
		all[string(k.Code)] = either(document(asJSON, text), document(asHTML, forPeople.Bytes()))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := all[r.PathValue("code")]
		if !ok {
			page = notFound
		}
		page.ServeHTTP(w, r)
	}), nil
}

// either serves JSON, or HTML to a client that prefers it.
func either(text, forPeople http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		accept := strings.Join(r.Header.Values("Accept"), ",")
		if weight(accept, "text/html") > weight(accept, "application/json") {
			forPeople.ServeHTTP(w, r)
			return
		}
		text.ServeHTTP(w, r)
	})
}

// weight is how much a client wants a media type (RFC 9110, 12.5.1): the closest range that names it decides.
func weight(accept, mediaType string) float64 {
	major, _, _ := strings.Cut(mediaType, "/")
	wanted, closest := 0.0, 0
	for item := range strings.SplitSeq(accept, ",") {
		named, params, err := mime.ParseMediaType(item)
		if err != nil {
			continue // not a media range
		}
		near := map[string]int{"*/*": 1, major + "/*": 2, mediaType: 3}[named]
		if near <= closest {
			continue
		}
		wanted, closest = 1, near
		if q, given := params["q"]; given {
			if wanted, err = strconv.ParseFloat(q, 64); err != nil {
				wanted = 0
			}
		}
	}
	return wanted
}
