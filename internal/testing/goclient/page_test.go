package goclient_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/clients/go/roamcard/roamcardtest"
)

// shownCard is what a page must show to the person, and to nobody else.
var shownCard = roamcard.Credentials{Number: "4242424242424242", ExpiryMonth: 7, ExpiryYear: 2031, SecurityCode: "911"}

// visitor is a browser at the page of a card, or what passes for one.
type visitor struct {
	t *testing.T
	// file is what the browser was given; base is the page's address, and secret what the file posts.
	file, base, secret string
}

// presented shows a card to a test, which has it until it returns.
func presented(t *testing.T, visit func(visitor)) roamcard.Presented {
	t.Helper()
	var folder string
	shown, err := roamcard.BrowserPresenter{For: time.Millisecond, Open: func(_ context.Context, address string) error {
		v := visitor{t: t, file: address}
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "file" {
			t.Fatalf("the browser is given %s, %v", address, err)
		}
		folder = filepath.Dir(u.Path)
		text, err := os.ReadFile(u.Path)
		if err != nil {
			t.Fatal(err)
		}
		form := regexp.MustCompile(`action="([^"]+)".* name="secret" value="([^"]+)"`).FindSubmatch(text)
		if form == nil {
			t.Fatalf("the file posts nothing: %s", text)
		}
		v.base, v.secret = strings.TrimSuffix(string(form[1]), "/"), string(form[2])
		visit(v)
		return nil
	}}.Present(t.Context(), shownCard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
	return shown
}

// answer is what the page gave a visitor.
type answer struct {
	status       int
	header       http.Header
	text, cookie string
	token        string
}

func (a answer) shows() bool {
	return strings.Contains(strings.ReplaceAll(a.text, " ", ""), shownCard.Number)
}

// asks sends a request to the page. The header Host is the request's own.
func (v visitor) asks(method, path string, form url.Values, headers map[string]string) answer {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), method, v.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	if host := headers["Host"]; host != "" {
		req.Host = host
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	a := answer{status: res.StatusCode, header: res.Header, text: string(text)}
	if c := res.Cookies(); len(c) == 1 {
		a.cookie = c[0].Name + "=" + c[0].Value
	}
	if token := regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(a.text); token != nil {
		a.token = token[1]
	}
	return a
}

// The headers of a browser that comes from the file, and of one whose person presses the page's own button.
var (
	fromFile = map[string]string{
		"Origin": "null", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document",
	}
	fromPage = map[string]string{
		"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document",
	}
)

func with(headers map[string]string, pairs ...string) map[string]string {
	all := maps.Clone(headers)
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return all
}

func (v visitor) opens() answer {
	return v.asks("POST", "/", url.Values{"secret": {v.secret}}, fromFile)
}

func (v visitor) presses(opened answer) answer {
	return v.asks("POST", "/show", url.Values{"token": {opened.token}}, with(fromPage, "Origin", v.base, "Cookie",
		opened.cookie))
}

// What the browser is started with is on a command line that everybody can read: it leads nobody to the card.
func TestPageSecretIsInAFileOfTheUserOnly(t *testing.T) {
	shown := presented(t, func(v visitor) {
		path := strings.TrimPrefix(v.file, "file://")
		for _, is := range []struct {
			path string
			mode os.FileMode
		}{{path, 0o600}, {filepath.Dir(path), 0o700}} {
			if info, err := os.Stat(is.path); err != nil || info.Mode().Perm() != is.mode {
				t.Errorf("%s: %v, %v; want %v", is.path, info.Mode(), err, is.mode)
			}
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(text), "4242") || len(v.secret) < 40 ||
			strings.Contains(v.file, v.secret) {
			t.Errorf("the file %s has %d bytes, and a secret of %d: %v", v.file, len(text), len(v.secret), err)
		}
		if got := v.presses(v.opens()); got.status != http.StatusOK || !got.shows() {
			t.Errorf("the person is shown %d: %s", got.status, got.text)
		}
	})
	if !shown.Seen || shown.Reason != "" {
		t.Errorf("%+v", shown)
	}
	// And the helper of tests is such a browser.
	shown, err := roamcard.BrowserPresenter{Open: func(ctx context.Context, url string) error {
		page, err := roamcardtest.Look(ctx, url)
		if err == nil && !strings.Contains(page.HTML, "4242 4242 4242 4242") {
			t.Error("the page shows no card")
		}
		return err
	}}.Present(t.Context(), shownCard)
	if err != nil || !shown.Seen {
		t.Errorf("%+v, %v", shown, err)
	}
}

// By its address the page shows nothing, whoever comes first and however.
func TestPageShowsNothingToWhoHasItsAddressOnly(t *testing.T) {
	shown := presented(t, func(v visitor) {
		secret, none := url.Values{"secret": {v.secret}}, url.Values{}
		for name, got := range map[string]answer{
			"a look":               v.asks("GET", "/", none, nil),
			"a look at the button": v.asks("GET", "/show", none, nil),
			"a look with it all":   v.asks("GET", "/?secret="+v.secret, none, nil),
			"no secret":            v.asks("POST", "/", none, fromFile),
			"an empty secret":      v.asks("POST", "/", url.Values{"secret": {""}}, fromFile),
			"a wrong secret":       v.asks("POST", "/", url.Values{"secret": {strings.ToLower(v.secret)}}, fromFile),
			"in its address":       v.asks("POST", "/?secret="+v.secret, none, fromFile),
			"the button first":     v.asks("POST", "/show", url.Values{"token": {""}}, with(fromPage, "Cookie", "roamcard=")),
			"another name":         v.asks("POST", "/", secret, with(fromFile, "Host", "rebound.example")),
			"the name of loopback": v.asks("POST", "/", secret, with(fromFile, "Host", "localhost:"+v.base[len(v.base)-5:])),
			"without its port":     v.asks("POST", "/", secret, with(fromFile, "Host", "127.0.0.1")),
			"a page elsewhere":     v.asks("POST", "/", secret, with(fromFile, "Origin", "https://evil.example")),
			"another port":         v.asks("POST", "/", secret, with(fromFile, "Sec-Fetch-Site", "same-site")),
			"a frame":              v.asks("POST", "/", secret, with(fromFile, "Sec-Fetch-Dest", "iframe")),
			"a script":             v.asks("POST", "/", secret, with(fromFile, "Sec-Fetch-Mode", "no-cors")),
			"ahead of time":        v.asks("POST", "/", secret, with(fromFile, "Sec-Purpose", "prefetch")),
		} {
			if got.status < 400 || got.cookie != "" || got.token != "" || got.shows() {
				t.Errorf("%s: %d %s", name, got.status, got.text)
			}
		}
		// None of that has used the secret up, and nothing of it is seen before the button is pressed.
		if got := v.opens(); got.status != http.StatusOK || got.cookie == "" || got.token == "" || got.shows() {
			t.Errorf("the browser: %d %s", got.status, got.text)
		}
	})
	if shown.Seen || shown.Reason != roamcard.NotPressed {
		t.Errorf("nobody pressed: %+v", shown)
	}
	if shown := presented(t, func(visitor) {}); shown.Seen || shown.Reason != "timeout" {
		t.Errorf("nobody came: %+v", shown)
	}
}

// The page is bound to the browser that came first: to its cookie, and to the button that it got.
func TestPageIsBoundToOneBrowser(t *testing.T) {
	shown := presented(t, func(v visitor) {
		opened := v.opens()
		set := opened.header.Get("Set-Cookie")
		for _, want := range []string{"HttpOnly", "SameSite=Strict"} {
			if !strings.Contains(set, want) {
				t.Errorf("the cookie is not %s", want)
			}
		}
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
			"Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got := opened.header.Get(name); got != want {
				t.Errorf("%s: %q", name, got)
			}
		}
		if csp := opened.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") ||
			!strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "script-src") {
			t.Errorf("the policy is %s", csp)
		}
		token := url.Values{"token": {opened.token}}
		own := with(fromPage, "Origin", v.base, "Cookie", opened.cookie)
		for name, got := range map[string]answer{
			"no cookie":      v.asks("POST", "/show", token, with(own, "Cookie", "")),
			"another cookie": v.asks("POST", "/show", token, with(own, "Cookie", opened.cookie+"x")),
			"no button":      v.asks("POST", "/show", url.Values{}, own),
			"another button": v.asks("POST", "/show", url.Values{"token": {opened.token + "x"}}, own),
			"from elsewhere": v.asks("POST", "/show", token, with(own, "Sec-Fetch-Site", "cross-site")),
			"from a file":    v.asks("POST", "/show", token, with(own, "Origin", "null")),
			"in a frame":     v.asks("POST", "/show", token, with(own, "Sec-Fetch-Dest", "iframe")),
		} {
			if got.status != http.StatusForbidden || got.shows() {
				t.Errorf("%s: %d %s", name, got.status, got.text)
			}
		}
		if got := v.presses(opened); got.status != http.StatusOK || !got.shows() {
			t.Errorf("its person: %d", got.status)
		}
		if got := v.presses(opened); got.status != http.StatusGone || got.shows() {
			t.Errorf("a second time: %d", got.status)
		}
	})
	if !shown.Seen {
		t.Errorf("%+v", shown)
	}
}

// The secret works once. When it comes again, one of the two was not the person's: nothing is called shown.
func TestPageOpenedTwiceIsNotCalledShown(t *testing.T) {
	shown := presented(t, func(v visitor) {
		thief := v.opens()
		if person := v.opens(); person.status != http.StatusGone || person.cookie != "" {
			t.Errorf("the second one: %d", person.status)
		}
		if got := v.presses(thief); got.status != http.StatusGone || got.shows() {
			t.Errorf("the first one presses: %d %s", got.status, got.text)
		}
	})
	if shown.Seen || shown.Reason != roamcard.OpenedElsewhere {
		t.Errorf("%+v", shown)
	}
	shown = presented(t, func(v visitor) {
		if thief := v.presses(v.opens()); !thief.shows() {
			t.Errorf("the first one: %d", thief.status)
		}
		if person := v.opens(); person.status != http.StatusGone || !strings.Contains(person.text, "freeze the card") {
			t.Errorf("the person: %d %s", person.status, person.text)
		}
	})
	if shown.Seen || shown.Reason != roamcard.OpenedElsewhere {
		t.Errorf("after the button: %+v", shown)
	}
}

// A page of the service's has a secret in its address, too.
func TestServicesPageIsOpenedThroughTheFile(t *testing.T) {
	const page = "http://127.0.0.1:1/reveal/secret"
	present := func(times int) (shown roamcard.Presented) {
		shown, err := roamcard.BrowserPresenter{For: time.Millisecond, Open: func(_ context.Context, address string) error {
			text, err := os.ReadFile(strings.TrimPrefix(address, "file://"))
			if err != nil || strings.Contains(address+string(text), "reveal") {
				t.Errorf("%s has %s, %v", address, text, err)
			}
			form := regexp.MustCompile(`action="([^"]+)/".* name="secret" value="([^"]+)"`).FindSubmatch(text)
			if form == nil {
				t.Fatalf("the file posts nothing: %s", text)
			}
			v := visitor{t: t, base: string(form[1]), secret: string(form[2])}
			for i := range times {
				got := v.opens()
				if led := got.header.Get("Location") == page; led != (i == 0) {
					t.Errorf("visit %d: %d, led %t", i, got.status, led)
				}
			}
			return nil
		}}.PresentPage(t.Context(), page)
		if err != nil {
			t.Fatal(err)
		}
		return shown
	}
	for times, want := range []string{"timeout", roamcard.OpenedInBrowser, roamcard.OpenedElsewhere} {
		if shown := present(times); shown.Seen || shown.Reason != want {
			t.Errorf("opened %d times: %+v", times, shown)
		}
	}
}
