//go:build unix && !linux

package devnet

import (
	"os"
	"os/exec"
	"syscall"
)

// dieWithParent does nothing here: only Linux has a parent-death signal. The next start in the same folder ends a child
// that a kill has orphaned.
func dieWithParent(cmd *exec.Cmd) { attributes(cmd).Setpgid = true }

func attributes(cmd *exec.Cmd) *syscall.SysProcAttr {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	return cmd.SysProcAttr
}

// runAs makes cmd run as the account.
func runAs(cmd *exec.Cmd, who account) {
	if who.mode == asUser {
		attributes(cmd).Credential = &syscall.Credential{Uid: who.uid, Gid: who.gid}
	}
}

// killFamily kills a process. Its children are left to notice.
func killFamily(p *os.Process) error { return p.Kill() }
