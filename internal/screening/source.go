package screening

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

const fetchTimeout = 2 * time.Minute

// Source is where a list is read from: a file, or an address of the web.
type Source struct {
	path string
	url  *url.URL
	http *http.Client
}

// ParseSource reads a location: an absolute path, or the URL of a host that the rule allows to ask. It is asked as it
// is: a redirect would lead to an address that nobody named.
func ParseSource(location string, rule outward.Rule) (Source, error) {
	if filepath.IsAbs(location) {
		return Source{path: filepath.Clean(location)}, nil
	}
	u, err := url.Parse(location)
	if err != nil || u.Fragment != "" || rule.Check(u) != nil {
		return Source{}, errors.New("must be an absolute path or an https URL")
	}
	return Source{url: u, http: outward.New(outward.Config{Rule: rule, Timeout: fetchTimeout, Most: maxList + 1})}, nil
}

// Name is the location without what may be secret in it. Where a part of its path may be, a sum tells it from others.
func (s Source) Name() string {
	if s.url == nil {
		return s.path
	}
	name := (&url.URL{Scheme: s.url.Scheme, Host: s.url.Host, Path: s.url.Path}).String()
	masked := secret.Mask(name)
	if masked != name {
		sum := sha256.Sum256([]byte(name))
		masked += fmt.Sprintf(" (%x)", sum[:4])
	}
	return masked
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
	return Parse(body)
}

func (s Source) fetch(ctx context.Context) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask for %s: not a request", s.Name())
	}
	res, err := s.http.Do(req)
	if err != nil {
		return nil, outward.Cause(err)
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	err = fmt.Errorf("it answers %d", res.StatusCode)
	if to, elsewhere := res.Location(); elsewhere == nil {
		err = fmt.Errorf("%w, a redirect to %s, which is not followed", err, to.Hostname())
	}
	return nil, errors.Join(err, res.Body.Close())
}
