package apptest

import (
	"os/exec"
	"syscall"
)

// DieWithTests makes the kernel kill a process when the tests end, however they end.
func DieWithTests(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
