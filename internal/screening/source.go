package screening

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// maxList is more than any published list has: SDN.XML has some 30 MB.
	maxList      = 256 << 20
	fetchTimeout = 2 * time.Minute
	maxRedirects = 3
)

// Source is where a list is read from: a file, or an address of the web.
type Source struct {
	path string
	url  *url.URL
	http *http.Client
}

// ParseSource reads a location: an absolute path, or an https URL. Plain http is accepted for this machine alone.
func ParseSource(location string) (Source, error) {
	if filepath.IsAbs(location) {
		return Source{path: filepath.Clean(location)}, nil
	}
	u, err := url.Parse(location)
	if err != nil || u.Host == "" || u.Fragment != "" {
		return Source{}, errors.New("must be an absolute path or an https URL")
	}
	if err := secure(u); err != nil {
		return Source{}, err
	}
	follow := func(to *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("too many redirects")
		}
		return secure(to.URL)
	}
	return Source{url: u, http: &http.Client{Timeout: fetchTimeout, CheckRedirect: follow}}, nil
}

func secure(u *url.URL) error {
	local := u.Hostname() == "127.0.0.1" || u.Hostname() == "::1" || u.Hostname() == "localhost"
	if u.Scheme == "https" || u.Scheme == "http" && local {
		return nil
	}
	return errors.New("must be an absolute path or an https URL")
}

// Name is the location without what may be secret in it.
func (s Source) Name() string {
	if s.url == nil {
		return s.path
	}
	return (&url.URL{Scheme: s.url.Scheme, Host: s.url.Host, Path: s.url.Path}).String()
}

// Read reads the list as it is now.
func (s Source) Read(ctx context.Context) (_ []x402.Address, err error) {
	var body io.ReadCloser
	if s.url == nil {
		body, err = os.Open(s.path)
	} else {
		body, err = s.fetch(ctx)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	limited := &io.LimitedReader{R: body, N: maxList + 1}
	all, err := Parse(limited)
	if limited.N <= 0 {
		return nil, fmt.Errorf("the list has more than %d bytes", maxList)
	}
	return all, err
}

func (s Source) fetch(ctx context.Context) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask for %s: not a request", s.Name())
	}
	res, err := s.http.Do(req)
	if err != nil {
		// The error of the client has the whole URL.
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("answered %s", res.Status), res.Body.Close())
	}
	return res.Body, nil
}
