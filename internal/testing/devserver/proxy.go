package devserver

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// Proxy is a program of clients/testing in front of the server: the fault proxy, or a service that lies.
type Proxy struct {
	URL     string `json:"baseUrl"`
	Control string `json:"controlUrl"`
	t       testing.TB
}

// Fault is one of clients/testing/fault-proxy.mjs.
type Fault map[string]any

// Request is a request that reached the proxy. Payment is its payment header, if any.
type Request struct{ Path, Payment string }

// Before starts such a program, which ends with the test.
func (s Server) Before(program string, args ...string) *Proxy {
	s.t.Helper()
	p, stop := s.launch(program, args...)
	s.t.Cleanup(stop)
	return p
}

func (s Server) launch(program string, args ...string) (*Proxy, func()) {
	s.t.Helper()
	cmd := exec.Command("node", append([]string{filepath.Join(apptest.Root(s.t), "clients/testing", program)}, args...)...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		s.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	p := &Proxy{t: s.t}
	stop := func() { _ = errors.Join(in.Close(), cmd.Wait()) } // however it ends
	if err := errors.Join(err, json.Unmarshal(line, p)); err != nil {
		stop()
		s.t.Fatal(err)
	}
	return p, stop
}

// lying are the services that lie in front of the shared server. Starting one costs more than what a test does with it,
// and each forgets the test before when it is told its lies.
var lying struct {
	sync.Mutex
	idle []Proxy
	stop []func()
}

// Lying is a service that lies, of this test alone until it ends. It tells the truth until it is told its lies, by a
// POST to its Control. Whatever the test has sent it must be answered before the test ends.
func (s Server) Lying() *Proxy {
	s.t.Helper()
	lying.Lock()
	defer lying.Unlock()
	var p *Proxy
	if last := len(lying.idle) - 1; last >= 0 {
		p = &Proxy{URL: lying.idle[last].URL, Control: lying.idle[last].Control, t: s.t}
		lying.idle = lying.idle[:last]
	} else {
		var stop func()
		p, stop = s.launch("hostile-service.mjs", s.BaseURL, s.RPCURL, s.USDC)
		lying.stop = append(lying.stop, stop)
	}
	s.t.Cleanup(func() {
		lying.Lock()
		defer lying.Unlock()
		lying.idle = append(lying.idle, *p)
	})
	return p
}

// Inject makes the proxy inject faults, one after the other.
func (p *Proxy) Inject(faults ...Fault) {
	p.t.Helper()
	Exchange(p.t, p.Control, append([]Fault{}, faults...), new([]any))
}

// Requests are those that the proxy has seen so far.
func (p *Proxy) Requests() (all []Request) {
	p.t.Helper()
	p.Told(&all)
	return all
}

// Told reads what the program reports about itself.
func (p *Proxy) Told(to any) {
	p.t.Helper()
	res, err := http.Get(p.Control)
	read(p.t, res, err, to)
}
