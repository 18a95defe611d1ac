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

// built is the program under test, built by the first test that starts it.
var built struct {
	sync.Once
	path, dir string
	err       error
}

// Binary is the path of the program, built from the working tree.
func Binary(t testing.TB) string {
	t.Helper()
	built.Do(func() {
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

// Stop asks the program to end, and fails the test when it does not in time.
func (p *Process) Stop(t testing.TB, within time.Duration) {
	t.Helper()
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("stop the program: %v", err)
	}
	select {
	case <-p.Done:
	case <-time.After(within):
		p.Kill(t)
		t.Errorf("the program does not stop\n%s", p.Log.Tail())
	}
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

// Until polls a condition until it holds.
func Until(t testing.TB, within time.Duration, what string, holds func() error) {
	t.Helper()
	if err := Eventually(t.Context(), within, holds); err != nil {
		t.Fatalf("not within %s: %s: %v", within, what, err)
	}
}

// Eventually polls a condition until it holds, and returns what it last said when it does not.
func Eventually(ctx context.Context, within time.Duration, holds func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		err := holds()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-look.C:
		}
	}
}
