package crash_test

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// process is one run of the program.
type process struct{ *apptest.Process }

// begin starts the program, and does not wait until it is ready.
func begin(t testing.TB, fault, ready string, args ...string) *process {
	t.Helper()
	_ = os.Remove(ready) // of the run before
	env := []string{"ROAMCARD_FAULT=" + fault, "ROAMCARD_LOG__LEVEL=info"}
	p := &process{apptest.Start(t, env, append(args, "--ready-file", ready)...)}
	t.Cleanup(func() { p.Kill(t) })
	return p
}

// launch starts the program and waits until it has written its ready file, or has ended.
func launch(t testing.TB, fault, ready string, args ...string) *process {
	t.Helper()
	p := begin(t, fault, ready, args...)
	apptest.Await(t, "the program is ready: "+strings.Join(args, " "), func() error {
		if p.Ended() && fault == "" {
			t.Fatalf("the program ended: %v\n%s", p.Cmd.ProcessState, p.Log.Tail())
		}
		if p.Ended() {
			return nil
		}
		_, err := os.Stat(ready)
		return err
	})
	return p
}

// awaitKill waits until a fault point has killed the program, and fails when something else ended it.
func (p *process) awaitKill(t testing.TB) {
	t.Helper()
	p.AwaitEnd(t)
	status, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL ||
		!strings.Contains(p.Log.String(), "faultpoint ") {
		t.Fatalf("the program ended by itself: %v\n%s", p.Cmd.ProcessState, p.Log.Tail())
	}
}

// stop asks the program to end, and fails when it does not end well.
func (p *process) stop(t testing.TB) {
	t.Helper()
	p.Stop(t)
	if code := p.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the program ended with %d\n%s", code, p.Log.Tail())
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
