package rest

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// Problem answers with a fault as a problem document (RFC 9457). Headers that are already set are kept.
func Problem(w http.ResponseWriter, r *http.Request, f *fault.Fault) {
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", rpcx.RetryAfterSeconds(f.RetryAfter))
	}
	write(w, rpcx.ProblemOf(r.Context(), f))
}

// Refuse answers with the problem of an error, and with the headers that the error asks for, as a transcoded route
// answers. It is for handlers of paid requests that are no Connect methods.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	if excess := limit.Excess(r.Context()); excess != nil {
		err = excess // as in rpcx.Errors
	}
	shown := rpcx.Show(r.Context(), err)
	maps.Copy(w.Header(), shown.Headers)
	write(w, shown.Problem)
}

// document is the problem's JSON form; the order of its members is part of the documentation.
type document struct {
	Type           string  `json:"type"`
	Title          string  `json:"title"`
	Status         uint32  `json:"status"`
	Detail         string  `json:"detail"`
	Code           string  `json:"code"`
	Retryable      bool    `json:"retryable"`
	SafeToPayAgain bool    `json:"safeToPayAgain"`
	NextAction     string  `json:"nextAction"`
	RequestID      string  `json:"requestId"`
	OrderID        string  `json:"orderId,omitempty"`
	Fields         []field `json:"fields,omitempty"`
}

type field struct {
	Path    string `json:"path"`
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

func write(w http.ResponseWriter, p *roamcardv1.Problem) {
	doc := document{
		Type: p.GetType(), Title: p.GetTitle(), Status: p.GetStatus(), Detail: p.GetDetail(), Code: p.GetCode(),
		Retryable: p.GetRetryable(), SafeToPayAgain: p.GetSafeToPayAgain(), NextAction: p.GetNextAction(),
		RequestID: p.GetRequestId(), OrderID: p.GetOrderId(),
	}
	for _, f := range p.GetFields() {
		doc.Fields = append(doc.Fields, field{Path: f.GetPath(), Rule: f.GetRule(), Message: f.GetMessage()})
	}
	// A struct of strings, numbers and booleans always marshals.
	body, _ := json.Marshal(doc)
	h := w.Header()
	if !strings.Contains(h.Get("Cache-Control"), "no-store") {
		h.Set("Cache-Control", "no-store")
	}
	if p.GetStatus() == http.StatusUnauthorized && h.Get("Www-Authenticate") == "" {
		h.Set("Www-Authenticate", "Bearer")
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(int(p.GetStatus()))
	// A failed write means that the caller has disconnected.
	_, _ = w.Write(body)
}
