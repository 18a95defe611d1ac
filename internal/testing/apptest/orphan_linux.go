package apptest

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starter runs what it gets on one thread, which lives as long as the tests: the kernel ties a child to the thread that
// started it, and a thread of Go's may end before.
var starter = sync.OnceValue(func() chan<- func() {
	turns := make(chan func())
	go func() {
		runtime.LockOSThread()
		for do := range turns {
			do()
		}
	}()
	return turns
})

// StartTied starts a command, which the kernel kills when the tests end, however they end.
func StartTied(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	starter() <- func() { started <- cmd.Start() }
	return <-started
}
