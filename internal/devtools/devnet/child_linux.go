package devnet

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// killFamily kills a process and its children. It is stopped first, so that it neither cleans up nor has more of them.
func killFamily(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// After the name, which is in parentheses: the state, and the parent.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(p.Pid) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return p.Kill()
}

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
