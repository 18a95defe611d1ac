package apptest

import (
	"os/exec"
	"syscall"
)

// dieWithTests makes the kernel kill a process when the tests end, however they end.
func dieWithTests(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
