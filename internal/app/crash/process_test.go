package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
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

func binary(t testing.TB) string {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "roamcard-crash-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "roamcard")
		var out []byte
		if out, built.err = exec.Command("go", "build", "-o", built.path, "../../../cmd/roamcard").CombinedOutput(); built.err != nil {
			built.err = fmt.Errorf("%w: %s", built.err, out)
		}
	})
	if built.err != nil {
		t.Fatalf("build the program: %v", built.err)
	}
	return built.path
}

func removeBinary() {
	if built.dir != "" {
		_ = os.RemoveAll(built.dir) // a temporary folder
	}
}

// process is one run of the program.
type process struct {
	cmd    *exec.Cmd
	stderr *log
	done   chan struct{}
}

// launch starts the program and waits until it has written its ready file, or has ended.
func launch(t testing.TB, fault, ready string, args ...string) *process {
	t.Helper()
	_ = os.Remove(ready) // of the run before
	p := &process{cmd: exec.Command(binary(t), append(args, "--ready-file", ready)...), stderr: &log{}, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "ROAMCARD_FAULT="+fault, "ROAMCARD_LOG__LEVEL=info")
	p.cmd.Stdout, p.cmd.Stderr = p.stderr, p.stderr
	dieWithTests(p.cmd)
	started := make(chan error, 1)
	go func() {
		// The kernel ties a child to the thread that started it, which has to live as long.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in ProcessState
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		t.Fatalf("start the program: %v", err)
	}
	t.Cleanup(func() { p.kill(t) })
	until(t, 30*time.Second, "the program is ready: "+strings.Join(args, " "), func() error {
		if p.ended() {
			return nil
		}
		_, err := os.Stat(ready)
		return err
	})
	return p
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// awaitKill waits until a fault point has killed the program, and fails when something else ended it.
func (p *process) awaitKill(t testing.TB, within time.Duration) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		t.Fatalf("the fault point was not reached in %s\n%s", within, p.stderr)
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL || !strings.Contains(p.stderr.String(), "faultpoint ") {
		t.Fatalf("the program ended by itself: %v\n%s", p.cmd.ProcessState, p.stderr)
	}
}

func (p *process) kill(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("kill the program: %v", err)
	}
	<-p.done
}

// stop asks the program to end, and fails when it does not end well.
func (p *process) stop(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("stop the program: %v", err)
	}
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		t.Fatalf("the program does not stop\n%s", p.stderr)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the program ended with %d\n%s", code, p.stderr)
	}
}

// log keeps what a program writes.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is the end of it, which is what tells why.
func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	const enough = 12_000
	b := l.text.Bytes()
	return string(b[max(0, len(b)-enough):])
}

// until polls a condition until it holds.
func until(t testing.TB, within time.Duration, what string, holds func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %s: %v", within, what, err)
		case <-look.C:
		}
	}
}

func readJSON(t testing.TB, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
