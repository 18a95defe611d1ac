package outward

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func answer(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }
}

func post(client *http.Client, to string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, to, strings.NewReader("token"))
	if err != nil {
		return nil, err
	}
	return client.Do(r)
}

func TestRedirectIsAnAnswer(t *testing.T) {
	asked := false
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { asked = true })
	for _, status := range []int{301, 302, 303, 307, 308} {
		from := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, status) })
		res, err := post(New(Config{}), from)
		if err != nil || res.StatusCode != status || asked {
			t.Fatalf("%d: %v, %v, and the other address is asked: %t", status, res, err, asked)
		}
		_ = res.Body.Close()
	}
}

// TestAnswerIsBoundedAfterItIsUnpacked: what is short on the way may be long here.
func TestAnswerIsBoundedAfterItIsUnpacked(t *testing.T) {
	const most = 100_000
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(make([]byte, most+1))
	if err := errors.Join(err, w.Close()); err != nil || packed.Len() > most/100 {
		t.Fatalf("%d bytes, %v", packed.Len(), err)
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"as long as it may be": {answer(make([]byte, most)), nil},
		"longer":               {answer(make([]byte, most+1)), ErrTooLong},
		"longer when it is unpacked": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes())
		}, ErrTooLong},
	} {
		res, err := post(New(Config{Most: most}), serve(t, c.answer))
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(res.Body)
		if !errors.Is(err, c.want) || len(all) != most {
			t.Errorf("%s: %d bytes, %v", name, len(all), err)
		}
		if _, err := res.Body.Read(make([]byte, 1)); c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s, read again: %v", name, err)
		}
		_ = res.Body.Close()
	}
	_, err = post(New(Config{}), serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("a", 2*maxHeader))
	}))
	if err == nil {
		t.Error("an endless header is read")
	}
	if _, err := Read(strings.NewReader("12345"), 4); !errors.Is(err, ErrTooLong) {
		t.Errorf("Read: %v", err)
	}
	if all, err := Read(strings.NewReader("1234"), 4); err != nil || string(all) != "1234" {
		t.Errorf("Read: %q, %v", all, err)
	}
}

func TestRequestWithoutAnAnswerEnds(t *testing.T) {
	hang := make(chan struct{})
	silent := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			_, _ = w.Write([]byte("half"))
			w.(http.Flusher).Flush()
		}
		<-hang
	})
	t.Cleanup(func() { close(hang) })
	if New(Config{}).Timeout == 0 {
		t.Error("a client has no deadline")
	}
	client := New(Config{Timeout: 100 * time.Millisecond})
	if _, err := post(client, silent); !errors.Is(err, context.DeadlineExceeded) || !os.IsTimeout(err) {
		t.Errorf("no answer: %v", err)
	}
	res, err := post(client, silent+"/half")
	if err == nil {
		_, err = io.ReadAll(res.Body)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("half an answer: %v", err)
	}
}

type refused struct{ t *testing.T }

func (r refused) RoundTrip(*http.Request) (*http.Response, error) {
	r.t.Error("the request is sent")
	return nil, errors.New("sent")
}

func TestCallerWhoHasGoneSendsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example.com", strings.NewReader("a"))
	if err != nil {
		t.Fatal(err)
	}
	client := New(Config{Through: &http.Client{Transport: refused{t}}})
	if _, err := client.Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestOnlyNamedHostsAreAskedWithoutTLS(t *testing.T) {
	named := Rule{Plaintext: []string{"Node.internal", "10.0.0.7", "fd00::7"}}
	for address, want := range map[string]struct{ strict, named bool }{
		"https://api.example.com/v1":       {true, true},
		"https://10.0.0.7":                 {true, true},
		"http://127.0.0.1:80":              {true, true},
		"http://127.9.9.9":                 {true, true},
		"http://[::1]:1":                   {true, true},
		"http://[::ffff:127.0.0.1]:1":      {true, true},
		"http://LOCALHOST:1":               {true, true},
		"http://node.internal:8545":        {false, true},
		"http://10.0.0.7:8545":             {false, true},
		"http://[fd00::7]:8545":            {false, true},
		"http://10.0.0.8":                  {},
		"http://node.internal.example.com": {},
		"http://127.0.0.1.example.com":     {},
		"http://localhost.example.com":     {},
		"ftp://127.0.0.1":                  {},
		"ws://node.internal":               {},
		"http:///path":                     {},
		"https://":                         {},
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		for what, c := range map[string]struct {
			rule Rule
			want bool
		}{"strict": {Rule{}, want.strict}, "named": {named, want.named}} {
			if err := c.rule.Check(u); (err == nil) != c.want {
				t.Errorf("%s, %s: %v", address, what, err)
			}
			if c.want {
				continue
			}
			client := New(Config{Rule: c.rule, Through: &http.Client{Transport: refused{t}}})
			if _, err := post(client, address); err == nil {
				t.Errorf("%s, %s: no error", address, what)
			}
		}
	}
	if err := (Rule{Anywhere: true}).Check(&url.URL{Scheme: "http", Host: "node.internal"}); err != nil {
		t.Error(err)
	}
}

func TestOriginHasNothingButHostAndPath(t *testing.T) {
	for text, want := range map[string]bool{
		"https://api.example.com": true, "https://api.example.com/v2": true, "http://127.0.0.1:80": true,
		"http://localhost:1": true, "http://[::1]:1": true,
		"http://api.example.com": false, "http://127.0.0.1.example.com": false, "ftp://127.0.0.1": false, "": false,
		"api.example.com": false, "https://": false, "https://a@b.example.com": false,
		"https://b.example.com?key=1": false, "https://b.example.com#a": false, "https://%zz": false,
	} {
		if base, err := (Rule{}).Origin(text); (err == nil) != want || (base != nil) != want {
			t.Errorf("Origin(%q) = %v, %v", text, base, err)
		}
	}
}

func TestAddressesOfTheLinkAreNotDialled(t *testing.T) {
	for address, want := range map[string]bool{
		"169.254.169.254:80": false, "169.254.170.2:80": false, "[fe80::1%eth0]:443": false, "[fe80::1]:443": false,
		"[::ffff:169.254.169.254]:80": false, "[fd00:ec2::254]:80": false, "[fd20:ce::254]:80": false,
		"100.100.100.200:80": false, "224.0.0.1:80": false, "[ff02::1]:80": false, "nowhere": false,
		"127.0.0.1:80": true, "10.0.0.7:80": true, "[fd00::7]:443": true, "192.0.2.1:443": true, "100.100.100.201:80": true,
	} {
		if err := refuseLink(t.Context(), "tcp", address, nil); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	// The rule would let it pass.
	for _, rule := range []Rule{{Anywhere: true}, {Plaintext: []string{"169.254.169.254"}}} {
		if _, err := post(New(Config{Rule: rule}), "http://169.254.169.254/latest/meta-data"); !errors.Is(err, ErrLink) {
			t.Errorf("%v: %v", rule, err)
		}
	}
}

func TestCauseHasNoAddress(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	_, err := post(New(Config{}), closed.URL+"/hunter2?key=hunter2")
	if err == nil || strings.Contains(Cause(err).Error(), "hunter2") || !strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v, without its address %v", err, Cause(err))
	}
	if other := errors.New("other"); Cause(other) != other {
		t.Error("an error of something else is changed")
	}
}
