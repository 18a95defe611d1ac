package devnet

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel interrupt cmd when the thread that starts it ends, and gives it a process group of
// its own, so that a terminal's Ctrl-C reaches this program alone, which then stops its children in order.
func dieWithParent(cmd *exec.Cmd) {
	attr := attributes(cmd)
	attr.Setpgid = true
	attr.Pdeathsig = syscall.SIGINT
}

func attributes(cmd *exec.Cmd) *syscall.SysProcAttr {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	return cmd.SysProcAttr
}

// runAs makes cmd run as the account.
func runAs(cmd *exec.Cmd, who account) {
	attr := attributes(cmd)
	switch who.mode {
	case asUser:
		attr.Credential = &syscall.Credential{Uid: who.uid, Gid: who.gid}
	case asNamespaced:
		// Inside the namespace the process is an ordinary user; outside, to the file system, it is still root.
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: 0, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: 0, Size: 1}}
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true}
	}
}
