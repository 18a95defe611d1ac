package roamcardtest

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
)

// Page is what a browser shows in the end.
type Page struct{ URL, HTML string }

// Look opens the address that a roamcard.BrowserPresenter gives, as a browser does, and presses the buttons of what it
// finds, as a person does. It is a BrowserPresenter's Open for tests:
//
//	Open: func(ctx context.Context, url string) error { _, err := roamcardtest.Look(ctx, url); return err }
func Look(ctx context.Context, address string) (Page, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "file" {
		return Page{}, errors.New("it is not the address of a file")
	}
	text, err := os.ReadFile(u.Path)
	if err != nil {
		return Page{}, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return Page{}, err
	}
	browser, page := http.Client{Jar: jar}, Page{address, string(text)}
	for range 4 { // the file, the page of this machine, and one of the service's
		form := formOf.FindStringSubmatch(page.HTML)
		if form == nil {
			return page, nil
		}
		if page, err = press(ctx, browser, page, form[1], form[2]); err != nil {
			return Page{}, err
		}
	}
	return Page{}, errors.New("the buttons do not end")
}

var (
	formOf = regexp.MustCompile(`(?s)<form method="post"(?: action="([^"]*)")?>(.*?)</form>`)
	hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
)

// press posts the form of a page, as browsers do.
func press(ctx context.Context, browser http.Client, page Page, action, content string) (Page, error) {
	from, err := url.Parse(page.URL)
	if err != nil {
		return Page{}, err
	}
	to, err := from.Parse(html.UnescapeString(action))
	if err != nil {
		return Page{}, err
	}
	values := url.Values{}
	for _, input := range hidden.FindAllStringSubmatch(content, -1) {
		values.Set(html.UnescapeString(input[1]), html.UnescapeString(input[2]))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), strings.NewReader(values.Encode()))
	if err != nil {
		return Page{}, err
	}
	origin, site := from.Scheme+"://"+from.Host, "same-origin"
	if from.Scheme == "file" {
		origin, site = "null", "cross-site"
	}
	for name, value := range map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "Origin": origin, "Sec-Fetch-Site": site,
		"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document",
	} {
		req.Header.Set(name, value)
	}
	res, err := browser.Do(req)
	if err != nil {
		return Page{}, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return Page{}, err
	}
	if res.StatusCode != http.StatusOK {
		return Page{}, fmt.Errorf("the page answers %d", res.StatusCode)
	}
	return Page{res.Request.URL.String(), string(text)}, nil
}
