// Package vendorapi puts a program that is not ours between an adapter and the fake of its vendor: each request and
// each answer has to match the vendor's own OpenAPI document.
package vendorapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// documentsEnv names the folder of the vendors' documents, which are not ours to publish.
const documentsEnv = "ROAMCARD_VENDOR_OPENAPI"

// startTimeout is how long Prism may take to read a document on a busy machine.
const startTimeout = 3 * time.Minute

// Validator is a Prism that runs in front of a server. It is safe for concurrent use.
type Validator struct {
	// URL is where requests are checked and passed on.
	URL string

	mu         sync.Mutex
	checked    map[string]int
	violations []string
}

// Prism starts Prism with a vendor's document, by its file name, in front of a server. What does not match fails the
// test at its end, unless it was taken by Violations. Where Prism or the document is missing the test is skipped,
// unless the environment names the folder that the document is missing in.
func Prism(t *testing.T, document, upstream string) *Validator {
	t.Helper()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, "tools", "conformance", "node_modules", ".bin", "prism")
	folder, named := os.LookupEnv(documentsEnv)
	if !named || folder == "" {
		folder, named = filepath.Join(filepath.Dir(root), "shared", "vendor-openapi"), false
	}
	document = filepath.Join(folder, document)
	switch _, err := os.Stat(document); {
	case err != nil && named:
		t.Fatalf("%s names a folder without the vendor's OpenAPI document: %v", documentsEnv, err)
	case err != nil:
		t.Skip("the vendor's OpenAPI document is not here: set " + documentsEnv + " to its folder")
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("Prism is not installed: run npm ci in tools/conformance")
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node, which runs Prism, is not installed")
	}
	const attempts = 3 // the port may be taken by the time that Prism listens
	for n := 1; ; n++ {
		url, err := run(t, program, document, upstream)
		if err == nil {
			v := &Validator{URL: url, checked: map[string]int{}}
			t.Cleanup(func() {
				for _, found := range v.Violations() {
					t.Error(found)
				}
			})
			return v
		}
		if n == attempts {
			t.Fatal(err)
		}
	}
}

// repository is the folder with go.work, above the test.
func repository() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, missing := os.Stat(filepath.Join(dir, "go.work")); missing == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("there is no go.work above the test")
		}
	}
	return "", err
}

// run starts Prism and waits until it listens. The test ends it.
func run(t *testing.T, program, document, upstream string) (url string, err error) {
	t.Helper()
	port, err := freePort()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(program, "proxy", document, upstream, "--errors", "-h", "127.0.0.1", "-p", strconv.Itoa(port))
	var said bytes.Buffer
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	cmd.Stderr = &said
	if err := apptest.StartTied(cmd); err != nil {
		return "", fmt.Errorf("start Prism: %w", err)
	}
	listens, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(out)
		for heard := false; lines.Scan(); {
			if !heard && strings.Contains(lines.Text(), "Prism is listening") {
				heard = true
				close(listens)
			}
		}
		_ = lines.Err() // it has ended, or says more in one line than anybody reads
		_, _ = io.Copy(io.Discard, out)
	}()
	stop := func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = cmd.Wait()
	}
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case <-listens:
		t.Cleanup(stop)
		return fmt.Sprintf("http://127.0.0.1:%d", port), nil
	case <-ended:
		stop()
		return "", fmt.Errorf("prism ended: %s", said.String())
	case <-timer.C:
		stop()
		return "", fmt.Errorf("prism does not listen after %s", startTimeout)
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Client makes requests whose violations are recorded.
func (v *Validator) Client() *http.Client { return &http.Client{Transport: recorder{v}} }

// Checked is how often each method and path was checked, such as "GET /orders".
func (v *Validator) Checked() map[string]int {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := map[string]int{}
	for what, times := range v.checked {
		all[what] = times
	}
	return all
}

// Violations are what did not match since the last call.
func (v *Validator) Violations() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.violations
	v.violations = nil
	return all
}

type recorder struct{ to *Validator }

// RoundTrip implements http.RoundTripper. Prism answers itself where something does not match, and adds a header where
// that is a warning only, such as for a status that the document does not name.
func (c recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	what := r.Method + " " + r.URL.Path
	c.to.mu.Lock()
	defer c.to.mu.Unlock()
	c.to.checked[what]++
	warned := resp.Header.Get("sl-violations")
	switch {
	case bytes.Contains(body, []byte("stoplight.io/prism/errors")):
		c.to.violations = append(c.to.violations, what+": "+string(body))
	case warned != "":
		c.to.violations = append(c.to.violations, what+": "+warned)
	}
	return resp, nil
}
