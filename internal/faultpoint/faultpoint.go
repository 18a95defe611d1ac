// Package faultpoint stops, breaks or delays the program at a named point, so that tests can crash it there.
//
// Nothing is armed in production: a point is then one load of a nil pointer.
package faultpoint

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ErrInjected is what a point armed with "error" returns.
var ErrInjected = errors.New("injected fault")

// armed is the only global state of the program: passing it to every function that may be killed would put the tests
// into every signature. It is set once, before anything runs.
var armed atomic.Pointer[map[string]*fault]

// fault is what happens at one point.
type fault struct {
	mode  string
	sleep time.Duration
	// at is the pass at which it happens; 0 is every pass.
	at     int64
	passes atomic.Int64
}

// The modes. "kill" ends the process as kill -9 does: nothing is flushed, closed or released.
const (
	modeKill  = "kill"
	modeError = "error"
	modeSleep = "sleep"
	modePanic = "panic"
)

// Arm reads "name:mode" pairs separated by commas and arms those points; empty arms nothing. A mode is
// kill, error, panic or sleep=2s, and may end in @n for the n-th pass instead of the first, or in @* for
// every pass. It is called once, before anything that has points runs.
func Arm(spec string) error {
	if spec == "" {
		return nil
	}
	faults := map[string]*fault{}
	for part := range strings.SplitSeq(spec, ",") {
		name, f, err := parse(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("arm %q: %w", part, err)
		}
		faults[name] = f
	}
	armed.Store(&faults)
	return nil
}

func parse(part string) (string, *fault, error) {
	name, what, _ := strings.Cut(part, ":")
	point, ok := find(name)
	if !ok {
		return "", nil, errors.New("there is no such point")
	}
	f := &fault{at: 1}
	mode, pass, counted := strings.Cut(what, "@")
	switch {
	case counted && pass == "*":
		f.at = 0
	case counted:
		n, err := strconv.ParseInt(pass, 10, 64)
		if err != nil || n < 1 {
			return "", nil, errors.New("what follows @ is the number of a pass, or *")
		}
		f.at = n
	}
	f.mode = mode
	switch pause, sleeps := strings.CutPrefix(mode, modeSleep+"="); {
	case sleeps:
		d, err := time.ParseDuration(pause)
		if err != nil || d <= 0 {
			return "", nil, errors.New("what follows sleep= is a duration")
		}
		f.mode, f.sleep = modeSleep, d
	case mode == modeError && !point.Fails:
		return "", nil, errors.New("nothing can fail here; use kill, panic or sleep")
	case mode != modeKill && mode != modeError && mode != modePanic:
		return "", nil, errors.New("the mode is kill, error, panic or sleep=2s")
	}
	return name, f, nil
}

// Reach marks a point without an error path.
func Reach(name string) {
	if faults := armed.Load(); faults != nil {
		_ = pass(*faults, name, nil) // no error can be armed here
	}
}

// ReachAfter is Reach for a point in the middle of an action: begin runs only when the point is about to fire.
func ReachAfter(name string, begin func()) {
	if faults := armed.Load(); faults != nil {
		_ = pass(*faults, name, begin)
	}
}

// Fail marks a point at which the step about to be taken can fail: it returns ErrInjected when armed so.
func Fail(name string) error {
	if faults := armed.Load(); faults != nil {
		return pass(*faults, name, nil)
	}
	return nil
}

func pass(faults map[string]*fault, name string, begin func()) error {
	f, ok := faults[name]
	if !ok || f.passes.Add(1) != f.at && f.at != 0 {
		return nil
	}
	if begin != nil {
		begin()
	}
	fmt.Fprintf(os.Stderr, "faultpoint %s: %s\n", name, f.mode)
	switch f.mode {
	case modeKill:
		kill()
	case modeSleep:
		time.Sleep(f.sleep)
	case modePanic:
		panic("faultpoint " + name)
	case modeError:
		return fmt.Errorf("faultpoint %s: %w", name, ErrInjected)
	}
	return nil
}

// kill does not return: the signal may arrive late.
func kill() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}
