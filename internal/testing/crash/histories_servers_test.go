package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// lease is how long a server's job is its own without a heartbeat: so short that others take it over in every stop.
const lease = 3 * time.Second

// stopped draws how long a process is stopped.
func stopped(rng *rand.Rand) time.Duration { return 2*lease + upTo(rng, 2*lease) }

// server is a place where one process of the program runs at a time, as an orchestrator has it.
type server struct {
	market *market
	addr   string

	mu  sync.Mutex
	now *apptest.Process
}

func (s *server) running() *apptest.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// start starts the program, and does not wait until it is ready.
func (s *server) start(fault string) *apptest.Process {
	m := s.market
	env := append(m.w.serviceEnv(s.addr),
		"ROAMCARD_FAULT="+fault, "ROAMCARD_WORKER__LEASE="+lease.String(), "ROAMCARD_PAYMENT__WAIT=10s",
		"ROAMCARD_CHAIN__REORG_PAUSE=3s", "ROAMCARD_CHAIN__DEAD_AT=finalized", "ROAMCARD_DATABASE__MAX_CONNS=8",
		"ROAMCARD_SERVER__MAX_CONNECTIONS_PER_ADDRESS=1024")
	p := apptest.StartProgram(m.t, apptest.Binary(m.t), env, "serve")
	m.t.Cleanup(func() { p.Kill(m.t) })
	s.mu.Lock()
	s.now = p
	s.mu.Unlock()
	return p
}

// startWell starts the program until it is ready.
func (s *server) startWell() {
	p := s.start("")
	p.Await(s.market.t, "the server is ready", func() error { return ready(s.market.t.Context(), s.addr) })
}

// supervise starts the program again whenever it dies, until the storm is over, and stops it then.
func (s *server) supervise(storm context.Context) {
	m := s.market
	rng := m.dice("server", s.addr[len(s.addr)-1:])
	var watchers sync.WaitGroup
	defer watchers.Wait()
	p := s.running()
	if pause(storm, upTo(rng, 5*time.Second)) {
		p.Kill(m.t) // the next one has a fault
	}
	for {
		select {
		case <-p.Done:
			m.count("ends of servers")
			s.diedWell(p)
		case <-storm.Done():
		}
		if !pause(storm, upTo(rng, 2*time.Second)) {
			break
		}
		p = s.start(drawFault(rng))
		now, lasts := p, stopped(rng)
		watchers.Go(func() { s.stopAtItsPoint(storm, now, lasts) })
	}
	if p := s.running(); !p.Ended() {
		_ = p.Cmd.Process.Signal(syscall.SIGCONT) // it may have ended
		p.Stop(m.t)
		s.diedWell(p)
	}
}

// diedWell checks that a process which has ended was killed, or has said why it could not go on.
func (s *server) diedWell(p *apptest.Process) {
	for _, bad := range []string{"panic: ", "fatal error: ", "DATA RACE"} {
		if strings.Contains(p.Log.String(), bad) {
			s.market.t.Errorf("a server ended by itself: %v\n%s", p.Cmd.ProcessState, p.Log.Tail())
		}
	}
}

// reached are the points that these buyers' purchases reach.
var reached = func() (all []string) {
	of := strings.Fields("catchup buy arrive claim fulfill transaction batch settle resume void answer move card submit " +
		"issuer turn load esim supplier extend refund fee confirm")
	for _, p := range faultpoint.Points() {
		if area, _, _ := strings.Cut(p.Name, "."); slices.Contains(of, area) {
			all = append(all, p.Name)
		}
	}
	return all
}()

// drawFault draws what happens to a process at points of the program: it is killed at the first that it reaches, or
// waits there, when it is stopped.
func drawFault(rng *rand.Rand) string {
	what := []string{"", "kill", "sleep=500ms", "sleep=500ms"}[rng.IntN(4)]
	if what == "" {
		return ""
	}
	var all []string
	for _, n := range rng.Perm(len(reached))[:1+rng.IntN(8)] {
		all = append(all, fmt.Sprintf("%s:%s@%d", reached[n], what, 1+rng.IntN(3)))
	}
	return strings.Join(all, ",")
}

// stopAtItsPoint stops a process when it waits at its point, for longer than its leases last.
func (s *server) stopAtItsPoint(storm context.Context, p *apptest.Process, lasts time.Duration) {
	for pause(storm, 20*time.Millisecond) && !p.Ended() {
		if strings.Contains(p.Log.String(), "faultpoint ") {
			s.market.count("stops at a point")
			stop(storm, p, lasts)
			pause(storm, lasts/2)
			p.Kill(s.market.t) // the next one has other points
			return
		}
	}
}

// stop stops a process for a while.
func stop(storm context.Context, p *apptest.Process, lasts time.Duration) {
	_ = p.Cmd.Process.Signal(syscall.SIGSTOP) // it may have ended
	pause(storm, lasts)
	_ = p.Cmd.Process.Signal(syscall.SIGCONT)
}

// durable is a PostgreSQL that may be killed, and put back to what it was.
type durable struct {
	t   *testing.T
	dir string

	mu  sync.Mutex
	now *devnet.Postgres
}

func newDurable(t *testing.T) *durable {
	t.Helper()
	d := &durable{t: t, dir: serverFolder(t)}
	d.now = newServer(t, devnet.PostgresConfig{Dir: d.dir})
	return d
}

func (d *durable) url() string { return d.now.URL() }

// kill ends the server as a loss of power does, and starts it again after a while.
func (d *durable) kill(down time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end()
	pause(d.t.Context(), down)
	d.now = newServer(d.t, devnet.PostgresConfig{Dir: d.dir})
}

func (d *durable) end() {
	if err := errors.Join(d.now.Kill(), d.now.Close()); err != nil {
		d.t.Errorf("end the database: %v", err)
	}
}

// copy copies the files of the running server as a base backup does.
func (d *durable) copy(into string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	copyServer(d.t, d.now, into)
	recovering(d.t, into, "recovery.signal", "restore_command = 'false'")
}

// restore puts a copy in the place of the server, and returns when nothing was answered by it any more, and when the
// copy answered.
func (d *durable) restore(from string) (ended, restored time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end()
	ended = time.Now()
	if err := os.RemoveAll(filepath.Join(d.dir, filepath.Base(d.now.Data()))); err != nil {
		d.t.Errorf("remove the database: %v", err)
	}
	shell(d.t, "mv", from, d.now.Data())
	d.now = newServer(d.t, devnet.PostgresConfig{Dir: d.dir})
	return ended, time.Now()
}
