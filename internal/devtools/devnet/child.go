package devnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// child is a process that must not outlive this one.
type child struct {
	name   string
	cmd    *exec.Cmd
	output *output
	done   chan struct{} // closed when the process has ended and err is set
	err    error
	stop   func() error
}

// startChild starts cmd with its output going to log. On Linux the kernel sends the child SIGINT when this process
// dies, however it dies.
func startChild(name string, cmd *exec.Cmd, log *slog.Logger) (*child, error) {
	dieWithParent(cmd)
	return start(name, cmd, log, nil)
}

// startLingering is startChild for a child that may be stopped only when it has nothing left to do: it is sent SIGINT
// half a second after this process died, on every Unix.
func startLingering(name string, cmd *exec.Cmd, log *slog.Logger) (*child, error) {
	// No other child inherits our end of the pipe, so it ends with this process.
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer theirs.Close()
	lingerAfterParent(cmd, theirs)
	return start(name, cmd, log, ours)
}

// start starts cmd and closes tie, if there is one, when cmd has ended.
func start(name string, cmd *exec.Cmd, log *slog.Logger, tie *os.File) (*child, error) {
	c := &child{name: name, cmd: cmd, output: &output{name: name, log: log}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = c.output, c.output
	cmd.WaitDelay = time.Second // a grandchild that keeps the pipe open must not keep Wait
	started := make(chan error, 1)
	go func() {
		if tie != nil {
			defer tie.Close()
		}
		// The kernel ties the parent-death signal to the thread that started the child, and the runtime ends idle
		// threads. This goroutine keeps its thread until the child is gone.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		if err = cmd.Wait(); !errors.Is(err, exec.ErrWaitDelay) {
			c.err = err
		}
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c.stop = sync.OnceValue(c.interrupt)
	return c, nil
}

// interrupt asks the process to end, kills it after ten seconds, and returns when it has ended.
func (c *child) interrupt() error {
	select {
	case <-c.done:
		return c.failure()
	default:
	}
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	select {
	case <-c.done:
		return nil
	case <-time.After(10 * time.Second):
	}
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", c.name, err)
	}
	<-c.done
	return fmt.Errorf("stop %s: it did not end in time and was killed", c.name)
}

// failure says how a child ended that was not asked to end.
func (c *child) failure() error {
	return fmt.Errorf("%s ended by itself (%v): %s", c.name, c.cmd.ProcessState, c.output.last())
}

// until calls try every few milliseconds until it returns nil, ctx ends or the child does.
func (c *child) until(ctx context.Context, try func(context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.done:
			return c.failure()
		case <-ctx.Done():
			return fmt.Errorf("%s did not get ready: %w; last answer: %w", c.name, context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// keptLines is how much of a child's last output an error shows.
const keptLines = 12

// output logs a child's lines and keeps the last of them for error texts.
type output struct {
	name string
	log  *slog.Logger

	mu      sync.Mutex
	partial []byte
	lines   []string
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.partial = append(o.partial, p...)
	for {
		line, rest, whole := bytes.Cut(o.partial, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		o.partial = rest
		if text := strings.TrimSpace(string(line)); text != "" {
			o.lines = append(o.lines, text)
			o.lines = o.lines[max(0, len(o.lines)-keptLines):]
			o.log.Debug("child output", slog.String("child", o.name), slog.String("line", text))
		}
	}
}

func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(append(o.lines[:len(o.lines):len(o.lines)], string(o.partial)), "\n")
}
