// Package apptest runs the program in tests the way an operator does: built, and as a process of its own.
package apptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BinaryVariable names a program that is built already, which all packages of tests share: linking one takes longer
// than most tests.
const BinaryVariable = "ROAMCARD_BIN_UNDER_TEST"

// given is that program. It is read before a test hides the variables of tests.
var given = os.Getenv(BinaryVariable)

// built is the program under test, built by the first test that starts it.
var built struct {
	sync.Once
	path, dir string
	err       error
}

// Binary is the path of the program: the one that is given, or one that is built from the working tree.
func Binary(t testing.TB) string {
	t.Helper()
	built.Do(func() {
		if given != "" {
			// Programs start in folders of their own.
			if built.path, built.err = filepath.Abs(given); built.err == nil {
				_, built.err = os.Stat(built.path)
			}
			return
		}
		if built.dir, built.err = os.MkdirTemp("", "roamcard-test-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "roamcard")
		// Without symbols it is linked in half the time; traces of a panic need none.
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", built.path, program)
		var out []byte
		if out, built.err = build.CombinedOutput(); built.err != nil {
			built.err = fmt.Errorf("%w: %s", built.err, out)
		}
	})
	if built.err != nil {
		t.Fatalf("build the program: %v", built.err)
	}
	return built.path
}

const program = "github.com/roamcard/roamcard/cmd/roamcard"

// RemoveBinary removes what Binary has built, when all tests are over.
func RemoveBinary() {
	if built.dir != "" {
		_ = os.RemoveAll(built.dir) // a temporary folder
	}
}

// Process is one run of the program.
type Process struct {
	Cmd *exec.Cmd
	// Log is what the run has written to its standard error.
	Log *Log
	// Done is closed when it has ended.
	Done chan struct{}
}

// Start starts the program with more environment and arguments. The kernel kills it when the tests end, however they
// end; a test that starts it also stops it.
func Start(t testing.TB, env []string, args ...string) *Process {
	t.Helper()
	return StartProgram(t, Binary(t), env, args...)
}

// StartProgram is Start for another build of the program.
func StartProgram(t testing.TB, path string, env []string, args ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(path, args...), Log: &Log{}, Done: make(chan struct{})}
	p.Cmd.Env = append(Environ(), env...)
	p.Cmd.Stderr = p.Log
	if err := StartTied(p.Cmd); err != nil {
		t.Fatalf("start the program: %v", err)
	}
	go func() {
		_ = p.Cmd.Wait() // how it ended is in ProcessState
		close(p.Done)
	}()
	return p
}

// Ended reports whether the program has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Kill ends the program at once.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	if err := p.Cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("kill the program: %v", err)
	}
	<-p.Done
}

// Stop asks the program to end, and waits until it has. How long that takes decides nothing.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("stop the program: %v", err)
	}
	select {
	case <-p.Done:
	case <-time.After(timeoutOf(t)):
		p.Kill(t)
		t.Errorf("the program does not stop\n%s", p.Log.Tail())
	}
}

// AwaitEnd waits until the program has ended by itself, and kills it when it never does.
func (p *Process) AwaitEnd(t testing.TB) {
	t.Helper()
	select {
	case <-p.Done:
	case <-time.After(timeoutOf(t)):
		p.Kill(t)
		t.Fatalf("the program goes on\n%s", p.Log.Tail())
	}
}

// Await polls a condition that the program brings about. It fails with the program's log when that ends before.
func (p *Process) Await(t testing.TB, what string, holds func() error) {
	t.Helper()
	Await(t, what, func() error {
		ended := p.Ended() // first, for the last thing that it did may have been that
		err := holds()
		if err != nil && ended {
			t.Fatalf("the program ended before: %s: %v: %v\n%s", what, err, p.Cmd.ProcessState, p.Log.Tail())
		}
		return err
	})
}

// Log keeps what a program writes.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is all of it.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Tail is the end of it, for messages of failed tests.
func (l *Log) Tail() string {
	text := l.String()
	return text[max(0, len(text)-12_000):]
}

// Await polls a condition until it holds. It fails when the tests are about to end, not by a clock of its own.
func Await(t testing.TB, what string, holds func() error) {
	t.Helper()
	if err := Eventually(t, holds); err != nil {
		t.Fatalf("never: %s: %v", what, err)
	}
}

// Eventually polls a condition until it holds, and returns what it last said when it never does.
func Eventually(t testing.TB, holds func() error) error {
	t.Helper()
	over := time.NewTimer(timeoutOf(t))
	defer over.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		err := holds()
		if err == nil {
			return nil
		}
		select {
		case <-t.Context().Done():
			return err
		case <-over.C:
			return err
		case <-look.C:
		}
	}
}

// Context is a test's, which ends a little before the tests have to, so that what waits for it says why.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), timeoutOf(t))
	t.Cleanup(cancel)
	return ctx
}

const (
	// maxTimeout is many times what anything takes on a machine that is busy with other things. It is there for the
	// person who waits for a test to fail.
	maxTimeout = 5 * time.Minute
	// toTell is what a test needs to say why it failed, before the deadline of the tests ends them all.
	toTell = 15 * time.Second
)

// timeoutOf is how long a test waits for what never comes.
func timeoutOf(t testing.TB) time.Duration {
	most := maxTimeout
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, set := d.Deadline(); set {
			most = min(most, time.Until(end)-toTell)
		}
	}
	return max(most, time.Second)
}
