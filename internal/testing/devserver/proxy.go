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

// programs are those in front of the shared server, by their names: starting one costs more than what a test does with
// it.
var programs = struct {
	sync.Mutex
	idle map[string][]Proxy
	stop []func()
}{idle: map[string][]Proxy{}}

// borrow gives a test a program of its own until the test ends, before which everything has to be answered that the
// test has sent it. Another test may have had it before.
func (s Server) borrow(program string, args ...string) (p *Proxy, used bool) {
	s.t.Helper()
	programs.Lock()
	defer programs.Unlock()
	idle := programs.idle[program]
	if used = len(idle) > 0; used {
		last := idle[len(idle)-1]
		programs.idle[program] = idle[:len(idle)-1]
		p = &Proxy{URL: last.URL, Control: last.Control, t: s.t}
	} else {
		var stop func()
		p, stop = s.launch(program, args...)
		programs.stop = append(programs.stop, stop)
	}
	s.t.Cleanup(func() {
		programs.Lock()
		defer programs.Unlock()
		programs.idle[program] = append(programs.idle[program], *p)
	})
	return p, used
}

// Lying is a service that lies. It tells the truth until it is told its lies, by a POST to its Control.
func (s Server) Lying() *Proxy {
	s.t.Helper()
	p, used := s.borrow("hostile-service.mjs", s.BaseURL, s.RPCURL, s.USDC)
	if used {
		Exchange(s.t, p.Control, map[string]any{"lies": []any{}}, new(any))
	}
	return p
}

// Faulty is a fault proxy that knows no faults and has seen no requests.
func (s Server) Faulty() *Proxy {
	s.t.Helper()
	p, used := s.borrow("fault-proxy.mjs", s.BaseURL)
	if used {
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPut, p.Control, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		read(s.t, res, err, p)
	}
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
