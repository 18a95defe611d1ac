package roamcard

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/roamcard/roamcard/internal/secret/custody"
)

// pageState is how far a page has come.
type pageState int

const (
	pageWaits pageState = iota
	pageOpened
	pageShown
	pageLed
	pageLost
	pageDoubled
)

const (
	pagePath, pressPath = "/", "/show"
	pageCookie          = "roamcard"
	// maxPost has room for a secret.
	maxPost = 4 << 10
)

// onePage is shown to one browser, once:
//
//	POST / with the secret of its file  -> a button; the browser gets a cookie, the button a token of its own
//	POST /show with both                -> the content
//
// The secret works once. Who comes with it a second time is another browser than the first, and one of them is not the
// person's: then nothing is shown any more.
type onePage struct {
	host, title string
	// leads is a page elsewhere that the browser is sent to, instead of a button.
	leads string

	mu                    sync.Mutex
	state                 pageState
	secret, cookie, token string
	content               []byte
	ended                 chan struct{}
}

// write makes the file that a browser opens, in a folder of its own, and gives its address.
func (o *onePage) write() (folder, address string, err error) {
	if folder, err = pageFolder(); err != nil {
		return "", "", err
	}
	path := filepath.Join(folder, "open.html")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.WriteString(pageOf(o.title, filled(`<form method="post" action="%s"><input type="hidden" name="secret" `+
			`value="%s"><button>Continue</button></form><script>document.forms[0].submit()</script>`,
			"http://"+o.host+pagePath, o.secret)))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return "", "", errors.Join(err, os.RemoveAll(folder))
	}
	slashes := filepath.ToSlash(path)
	if !strings.HasPrefix(slashes, "/") {
		slashes = "/" + slashes // a drive
	}
	return folder, (&url.URL{Scheme: "file", Path: slashes}).String(), nil
}

// pageFolder makes a folder that this user alone can read, where others cannot put another one in its place. A browser
// in a snap sees another /tmp, and of the home what is not hidden.
func pageFolder() (string, error) {
	const pattern = "roamcard-*"
	if home, err := os.UserHomeDir(); err == nil && runtime.GOOS == "linux" {
		if info, err := os.Stat(filepath.Join(home, "snap")); err == nil && info.IsDir() {
			if folder, err := os.MkdirTemp(home, pattern); err == nil {
				return folder, nil
			}
		}
	}
	folder, err := os.MkdirTemp("", pattern)
	if err != nil {
		return "", err
	}
	if err := custody.CheckFolder(folder); err != nil {
		return "", errors.Join(err, os.Remove(folder))
	}
	return folder, nil
}

func randomText() string { return rand.Text() + rand.Text() }

// outcome says what became of the page, where otherwise tells why the wait for it ended.
func (o *onePage) outcome(otherwise string) Presented {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.content)
	switch o.state {
	case pageShown:
		return Presented{Seen: true}
	case pageLed:
		return Presented{Reason: OpenedInBrowser}
	case pageDoubled:
		return Presented{Reason: OpenedElsewhere}
	case pageLost:
		return Presented{Reason: "interrupted"}
	case pageOpened:
		if otherwise == "timeout" {
			return Presented{Reason: NotPressed}
		}
	case pageWaits:
	}
	return Presented{Reason: otherwise}
}

// end says that the page has come to its end.
func (o *onePage) end(state pageState) {
	if o.state == pageWaits || o.state == pageOpened {
		close(o.ended)
	}
	o.state = state
}

// ServeHTTP implements http.Handler.
func (o *onePage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; "+
		"frame-ancestors 'none'; base-uri 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	// The button's post tells its origin: with no-referrer it would be null, as that of a stranger's page.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	switch {
	case r.Host != o.host || r.URL.Path != pagePath && r.URL.Path != pressPath:
		http.NotFound(w, r)
	case r.Method != http.MethodPost:
		h.Set("Allow", http.MethodPost)
		o.say(w, http.StatusMethodNotAllowed, "There is nothing here. Open the file that you were told.")
	case !alone(r.Header):
		o.say(w, http.StatusForbidden, "This page is opened by itself, in a window of its own.")
	case r.URL.Path == pagePath:
		o.open(w, r)
	default:
		o.show(w, r)
	}
}

// alone says whether a request is a navigation of a whole window, as far as its browser says.
func alone(h http.Header) bool {
	mode, dest := h.Get("Sec-Fetch-Mode"), h.Get("Sec-Fetch-Dest")
	return (mode == "" || mode == "navigate") && (dest == "" || dest == "document") && h.Get("Sec-Purpose") == ""
}

// comes says whether a request comes from one of these origins and sites, as far as its browser says.
func comes(h http.Header, origin string, sites ...string) bool {
	site, known := h.Get("Sec-Fetch-Site"), false
	for _, s := range sites {
		known = known || site == s
	}
	return (h.Get("Origin") == "" || h.Get("Origin") == origin) && (site == "" || known)
}

// field is one field of a posted form.
func field(w http.ResponseWriter, r *http.Request, name string) string {
	r.Body = http.MaxBytesReader(w, r.Body, maxPost)
	if r.ParseForm() != nil {
		return ""
	}
	return r.PostForm.Get(name)
}

func same(given, secret string) bool {
	return secret != "" && subtle.ConstantTimeCompare([]byte(given), []byte(secret)) == 1
}

// open gives the page to the browser that comes first with the file's secret. A file has the origin null.
func (o *onePage) open(w http.ResponseWriter, r *http.Request) {
	given := field(w, r, "secret")
	o.mu.Lock()
	defer o.mu.Unlock()
	if !comes(r.Header, "null", "none", "cross-site") || !same(given, o.secret) {
		o.say(w, http.StatusForbidden, "This page is opened by its own file.")
		return
	}
	if o.state != pageWaits {
		clear(o.content)
		o.content = nil
		o.end(pageDoubled)
		o.say(w, http.StatusGone, "This page was opened before, by another window. It shows nothing any more. If that "+
			"window was not yours, somebody else may have seen what it had: freeze the card, and ask for it again.")
		return
	}
	if o.leads != "" {
		o.end(pageLed)
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Location", o.leads)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	o.state, o.cookie, o.token = pageOpened, randomText(), randomText()
	http.SetCookie(w, &http.Cookie{
		Name: pageCookie, Value: o.cookie, Path: pagePath, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	o.answer(w, http.StatusOK, pageOf(o.title, filled("<p>It is shown once. Make sure that nobody else sees your screen."+
		`</p><form method="post" action="%s"><input type="hidden" name="token" value="%s"><button>Show it</button></form>`,
		pressPath, o.token)))
}

// show shows the content to the person who pressed the button, in the browser that has the page. The cookie alone would
// not do: other ports of this machine get it, too.
func (o *onePage) show(w http.ResponseWriter, r *http.Request) {
	token := field(w, r, "token")
	o.mu.Lock()
	defer o.mu.Unlock()
	bound := false
	for _, c := range r.CookiesNamed(pageCookie) {
		bound = bound || same(c.Value, o.cookie)
	}
	if !comes(r.Header, "http://"+o.host, "same-origin") || !bound || !same(token, o.token) {
		o.say(w, http.StatusForbidden, "This button is pressed in the window that has it.")
		return
	}
	if o.state != pageOpened {
		o.say(w, http.StatusGone, "This page was shown once. Ask for it again.")
		return
	}
	// What is not written was not seen, and cannot be any more.
	state := pageShown
	if !o.answer(w, http.StatusOK, string(o.content)) {
		state = pageLost
	}
	clear(o.content)
	o.content = nil
	o.end(state)
}

func (o *onePage) say(w http.ResponseWriter, status int, text string) {
	o.answer(w, status, pageOf("roamcard", filled("<p>%s</p>", text)))
}

// answer writes a page, and says whether the browser took it.
func (o *onePage) answer(w http.ResponseWriter, status int, text string) bool {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, err := w.Write([]byte(text))
	return errors.Join(err, http.NewResponseController(w).Flush()) == nil
}
