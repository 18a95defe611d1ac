package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/roamcard/roamcard/internal/outward"
)

// process is a program that this one runs. It may be started again after its end.
type process struct {
	name string
	// args are the program and what it is called with, env what it has more in its environment.
	args, env []string
	// servant runs it as the account of the database when this program is run by root, as who PostgreSQL does not run.
	servant bool
	// log is the file that gets its output.
	log string

	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start starts it. The kernel ends it when this program dies, however it dies.
func (p *process) start() error {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", p.name, err)
	}
	cmd, done := exec.Command(p.args[0], p.args[1:]...), make(chan struct{})
	cmd.Env = append(withoutSettings(os.Environ()), p.env...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := detach(cmd, p.servant); err != nil {
		return errors.Join(err, out.Close())
	}
	if p.servant {
		cmd.Dir = "/" // the account may not be able to enter the present one
	}
	started := make(chan error, 1)
	go func() {
		defer out.Close()
		// The kernel ties a child to the thread that started it, which has to live as long.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in ProcessState
		}
		close(done)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.cmd, p.done = cmd, done
	return nil
}

// kill ends it at once, as a crash does.
func (p *process) kill() error {
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// stop asks it to end, and kills it when it does not.
func (p *process) stop() error {
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(20 * time.Second):
		return errors.Join(fmt.Errorf("%s did not end when it was asked to, and was killed", p.name), p.kill())
	}
}

// until tries something until it succeeds. It fails when the process ends meanwhile, or ctx does.
func (p *process) until(ctx context.Context, what string, try func(context.Context) error) error {
	if err := until(ctx, p.done, try); err != nil {
		return fmt.Errorf("%s: %s: %w\n%s", p.name, what, err, p.tail())
	}
	return nil
}

var errEnded = errors.New("it ended by itself")

// until tries something until it succeeds, done is closed or ctx ends.
func until(ctx context.Context, done <-chan struct{}, try func(context.Context) error) error {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := try(once)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-done:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-look.C:
		}
	}
}

// tail is the end of the log.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	last := lines[max(0, len(lines)-8):]
	return "  " + string(bytes.Join(last, []byte("\n  ")))
}

// withoutSettings leaves the service's settings of whoever calls this program out of an environment.
func withoutSettings(environ []string) []string {
	var kept []string
	for _, one := range environ {
		if !strings.HasPrefix(one, "ROAMCARD_") && !strings.HasPrefix(one, "PG") {
			kept = append(kept, one)
		}
	}
	return kept
}

// local asks the processes, which are on this machine.
var local = outward.New(outward.Config{Timeout: time.Minute})

// answers succeeds when an address answers 200.
func answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		res, err := local.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, res.Status)
		}
		return nil
	}
}

// program finds an installed program, also where only root looks for one.
func program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	path := filepath.Join("/usr/sbin", name)
	if _, err := exec.LookPath(path); err != nil {
		return "", fmt.Errorf("%s is not installed; tools/cluster.sh installs it", name)
	}
	return path, nil
}
