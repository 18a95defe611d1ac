package endtoend_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

const browserAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// withoutID is an answer's body without what differs from one request to the next.
func withoutID(body []byte) string {
	return regexp.MustCompile(`"requestId":"[^"]*"`).ReplaceAllString(string(body), "")
}

func TestBrowsersGetThePageWhereProgramsGetTheTerms(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b := w.buyer()
	b.signIn()
	o := b.createOrder(cardOrdersPath, "", "")
	payment := header(t, b.payment())
	for _, path := range []string{o.path(), aliasPath + o.OrderID} {
		terms := w.send(get(path))
		page := w.send(get(path).withHeader("Accept", browserAccept))
		wantPage(t, page, 402)
		for _, name := range []string{x402.HeaderRequired, "Cache-Control"} {
			if got, want := page.header.Get(name), terms.header.Get(name); got != want || got == "" {
				t.Errorf("%s: the page has %s %q, programs %q", path, name, got, want)
			}
		}
		shared := path + "?utm_source=mail" // as links are sent
		wantPage(t, w.send(get(shared).withHeader("Accept", browserAccept)), 402)
		wantProblem(t, "a program with what it should not send", w.send(get(shared)), 400, fault.SchemaInvalid)
		for client, accept := range map[string]string{
			"curl, fetch, requests, @x402/fetch": "*/*", "@x402/axios": "application/json, text/plain, */*",
			"JSON": "application/json", "crawlers": "application/json, */*;q=0.5", "images": "image/avif,*/*;q=0.8",
		} {
			got := w.send(get(path).withHeader("Accept", accept))
			if got.status != terms.status || withoutID(got.body) != withoutID(terms.body) ||
				!slices.Equal(headersOf(got), headersOf(terms)) ||
				got.header.Get(x402.HeaderRequired) != terms.header.Get(x402.HeaderRequired) {
				t.Errorf("%s at %s: %d %s %v", client, path, got.status, clipped(got.body), got.header)
			}
		}
		if got := w.send(post(path, "").withHeader("Accept", browserAccept)); !got.is(fault.PaymentRequired) {
			t.Errorf("POST %s: %d %s", path, got.status, clipped(got.body))
		}
		bad := get(path).withHeader("Accept", browserAccept).withHeader(x402.HeaderSignature, "x")
		wantProblem(t, "a browser with a payment", w.send(bad), 400, fault.PaymentMalformed)
	}
	wantPage(t, w.send(get("/pay/ord_none").withHeader("Accept", browserAccept)), 404)
	paying := payRequest("GET", o.path(), payment).withHeader("Accept", browserAccept)
	b.wantReceipt(w.send(paying), o.OrderID, price())
	wantPage(t, w.send(get(o.path()).withHeader("Accept", browserAccept)), 409)
	w.checkBooks()
}

func TestBrowsersGetAPageWhereThereIsNothing(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	for _, path := range []string{"/nope", "/api/nope", "/pay"} {
		missing := w.send(get(path).withHeader("Accept", browserAccept))
		wantPage(t, missing, 404)
		if !bytes.Contains(missing.body, []byte("There is nothing at this address")) {
			t.Errorf("%s: %s", path, clipped(missing.body))
		}
		wantProblem(t, "a program at "+path, w.send(get(path)), 404, fault.RouteNotFound)
		wantProblem(t, "a form at "+path, w.send(post(path, "").withHeader("Accept", browserAccept)), 404,
			fault.RouteNotFound)
	}
}

// headersOf are the names of an answer's headers, in order.
func headersOf(a answer) (names []string) {
	for name := range a.header {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func wantPage(t *testing.T, a answer, status int) {
	t.Helper()
	if a.err != nil || a.status != status || a.header.Get("Content-Type") != "text/html; charset=utf-8" ||
		!bytes.HasPrefix(a.body, []byte("<!doctype html>")) || !slices.Contains(a.header.Values("Vary"), "Accept") ||
		!strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") ||
		!strings.Contains(a.header.Get("Cache-Control"), "no-store") {
		t.Errorf("%d, want the page with %d: %s %v", a.status, status, clipped(a.body), a.header)
	}
}
