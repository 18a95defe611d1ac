//go:build unix

package devnet

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lingeringForTest runs a shell script as a child that outlives its parent a little.
func lingeringForTest(t *testing.T, script string) *child {
	t.Helper()
	c, err := startLingering("script", exec.Command("/bin/sh", "-c", script), orDiscard(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.stop() }) // it may have ended by itself
	return c
}

func awaitDone(t *testing.T, c *child) {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		t.Fatal("the child has not ended")
	}
}

func TestLingeringChildReportsItsEnd(t *testing.T) {
	c := lingeringForTest(t, `echo "disk is full" >&2; exit 7`)
	awaitDone(t, c)
	if got := c.cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit code is %d, want its own 7", got)
	}
	if got := c.stop().Error(); !strings.Contains(got, "disk is full") {
		t.Errorf("the error is %q, want its last words in it", got)
	}
}

func TestLingeringChildReportsItsKill(t *testing.T) {
	c := lingeringForTest(t, "exec sleep 60")
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitDone(t, c)
}

func TestStopReachesALingeringChildItself(t *testing.T) {
	c := lingeringForTest(t, `trap "exit 7" INT; echo ready; while :; do sleep 0.01; done`)
	poll(t, func() (struct{}, error) {
		if c.output.last() == "" {
			return struct{}{}, errors.New("the trap is not set yet")
		}
		return struct{}{}, nil
	})
	if err := c.stop(); err != nil {
		t.Error(err)
	}
	if got := c.cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit code is %d, want its own 7", got)
	}
}

func TestLingeringChildIsOutsideTheTerminalsGroup(t *testing.T) {
	c := lingeringForTest(t, "exec sleep 60")
	if got, err := syscall.Getpgid(c.cmd.Process.Pid); err != nil || got != c.cmd.Process.Pid {
		t.Errorf("group %d, %v, want its own %d", got, err, c.cmd.Process.Pid)
	}
}
