package hostile_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// process is one run of the program.
type process struct {
	*apptest.Process
	// base is where it serves.
	base string
}

// launch starts the program; it ends with t.
func launch(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	p := &process{Process: apptest.Start(t, env, args...)} // what it prints is for the developer, tokens and all
	t.Cleanup(func() { p.Stop(t) })
	return p
}

// launchUntil starts the program and waits for the file that it writes when it is ready.
func launchUntil(t testing.TB, ready string, env []string, args ...string) *process {
	t.Helper()
	p := launch(t, env, append(args, "--ready-file", ready)...)
	p.Await(t, "the program is ready", func() error { _, err := os.Stat(ready); return err })
	return p
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
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// memory is how many bytes of the program are in memory; zero where the system does not say.
func (p *process) memory() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.Cmd.Process.Pid))
	if fields := strings.Fields(string(b)); err == nil && len(fields) > 1 {
		pages, _ := strconv.ParseInt(fields[1], 10, 64) // zero when it is no number
		return pages * int64(os.Getpagesize())
	}
	return 0
}
