package simulation_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// process is one run of the program, from its start to its death. What it knows dies with it.
type process struct {
	name string
	// immortal is who looks at the world: its calls have no faults.
	immortal bool

	// died is told of the process's death.
	died func()

	mu    sync.Mutex
	dead  chan struct{}
	ended bool
	// end is when it died.
	end time.Time
	// stopped is until when nothing of the process goes on, as when its machine is stopped: its calls and the answers to
	// them wait.
	stopped time.Time
	// wires are its connections, in the order in which they were made.
	wires []*wire
	// handler serves; nil until the process is up, and when it takes nothing more. requests are those under way.
	handler  http.Handler
	requests sync.WaitGroup
	// settings are what is changed in its configuration, and leaves asks the program to end, once there is one.
	settings map[string]string
	leaves   context.CancelFunc
}

func newProcess(name string, died func()) *process {
	return &process{name: name, died: died, dead: make(chan struct{})}
}

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// kill ends the process. Its calls under way never return to it, and no other one happens.
func (p *process) kill() {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return
	}
	p.ended, p.end = true, time.Now()
	wires := p.wires
	p.wires = nil
	p.mu.Unlock()
	close(p.dead)
	for _, w := range wires {
		w.cut()
	}
	p.died()
}

// stop lets nothing of the process go on for a while. One that stands still already is left alone: otherwise it would
// stand still for longer than providers are waited for.
func (p *process) stop(d time.Duration) (stopped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.stopped) {
		return false
	}
	p.stopped = time.Now().Add(d)
	return true
}

// goOn waits until the process goes on, and a little more, of each call's own: what goes on in one moment does so in
// any order. It is false when the process died, or when give ended the wait.
func (p *process) goOn(own time.Duration, give <-chan struct{}) bool {
	for {
		p.mu.Lock()
		left := time.Until(p.stopped)
		p.mu.Unlock()
		if left <= 0 {
			return true
		}
		if !pause(left+own, p.dead, give) {
			return false
		}
	}
}

func (p *process) hold(w *wire) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.wires = append(p.wires, w)
	return true
}

func (p *process) drop(w *wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wires = slices.DeleteFunc(p.wires, func(of *wire) bool { return of == w })
}

// serving is the handler of a process that is up.
func (p *process) serving() http.Handler {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil
	}
	return p.handler
}

// takes is the handler of a process for one more request, which is over when it has been told so.
func (p *process) takes() http.Handler {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.handler == nil {
		return nil
	}
	p.requests.Add(1)
	return p.handler
}

// grace is how long an orchestrator waits for each half of a process's end.
const grace = 15 * time.Second

// leave ends the process as an orchestrator does: it gets no more requests, answers those that it has, and ends. One
// that takes longer is killed.
func (p *process) leave() {
	p.mu.Lock()
	p.handler = nil
	leaves := p.leaves
	p.mu.Unlock()
	answered := make(chan struct{})
	go func() { p.requests.Wait(); close(answered) }()
	pause(grace, answered, p.dead)
	if leaves != nil {
		leaves()
		pause(grace, p.dead)
	}
	p.kill()
}

// program is what a process runs. Run returns when its context ends.
type program interface {
	Handler() http.Handler
	Run(ctx context.Context) error
	Close() error
}

// live runs the program until it dies. It returns once everything of it has unwound.
func (p *process) live(open func(ctx context.Context) (program, error)) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p.mu.Lock()
	p.leaves = cancel
	p.mu.Unlock()
	go func() {
		select {
		case <-p.dead:
			cancel()
		case <-ctx.Done():
		}
	}()
	a, err := open(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	if ctx.Err() == nil {
		p.handler = a.Handler()
	}
	p.mu.Unlock()
	err = a.Run(ctx)
	return errors.Join(err, a.Close())
}

// nowhere is a listener that nobody connects to: requests come by the handler.
type nowhere struct {
	once sync.Once
	end  chan struct{}
}

func newNowhere() *nowhere { return &nowhere{end: make(chan struct{})} }

// Accept implements net.Listener.
func (n *nowhere) Accept() (net.Conn, error) { <-n.end; return nil, net.ErrClosed }

// Close implements net.Listener.
func (n *nowhere) Close() error { n.once.Do(func() { close(n.end) }); return nil }

// Addr implements net.Listener.
func (n *nowhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }
