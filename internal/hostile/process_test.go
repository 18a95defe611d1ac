package hostile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
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
		if built.dir, built.err = os.MkdirTemp("", "roamcard-hostile-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "roamcard")
		var out []byte
		if out, built.err = exec.Command("go", "build", "-o", built.path, "../../cmd/roamcard").CombinedOutput(); built.err != nil {
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
	cmd *exec.Cmd
	log *log
	// base is where it serves.
	base string
	done chan struct{}
}

// launch starts the program; it ends with t.
func launch(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary(t), args...), log: &log{}, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = p.log // what it prints is for the developer, tokens and all
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
	t.Cleanup(func() { p.stop(t) })
	return p
}

// launchUntil starts the program and waits for the file that it writes when it is ready.
func launchUntil(t testing.TB, ready string, env []string, args ...string) *process {
	t.Helper()
	p := launch(t, env, append(args, "--ready-file", ready)...)
	p.await(t, func() error { _, err := os.Stat(ready); return err })
	return p
}

// await waits until the program is ready.
func (p *process) await(t testing.TB, isReady func() error) {
	t.Helper()
	until(t, time.Minute, "the program is ready", func() error {
		select {
		case <-p.done:
			t.Fatalf("the program ended: %v\n%s", p.cmd.ProcessState, p.log.tail())
		default:
		}
		return isReady()
	})
}

func (p *process) stop(t testing.TB) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("stop the program: %v", err)
	}
	select {
	case <-p.done:
	case <-time.After(40 * time.Second):
		_ = p.cmd.Process.Kill() // it does not stop, which is said below
		<-p.done
		t.Errorf("the program does not stop\n%s", p.log.tail())
	}
}

// cpu is the processor time that the program has used; zero where the system does not say.
func (p *process) cpu() time.Duration {
	fields := p.stat()
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)   // zero when it is no number
	system, _ := strconv.ParseInt(fields[12], 10, 64) // as well
	const tick = 10 * time.Millisecond
	return time.Duration(user+system) * tick
}

// stat is what Linux says of the program, from its state on.
func (p *process) stat() []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// memory is how many bytes of the program are in memory; zero where the system does not say.
func (p *process) memory() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if fields := strings.Fields(string(b)); err == nil && len(fields) > 1 {
		pages, _ := strconv.ParseInt(fields[1], 10, 64) // zero when it is no number
		return pages * int64(os.Getpagesize())
	}
	return 0
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

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// tail is the end of it, which is what tells why.
func (l *log) tail() string {
	text := l.String()
	return text[max(0, len(text)-8_000):]
}

// until polls a condition until it holds.
func until(t testing.TB, within time.Duration, what string, holds func() error) {
	t.Helper()
	if err := eventually(t.Context(), within, holds); err != nil {
		t.Fatalf("not within %s: %s: %v", within, what, err)
	}
}

func eventually(ctx context.Context, within time.Duration, holds func() error) error {
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
