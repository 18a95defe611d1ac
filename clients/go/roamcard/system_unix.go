//go:build unix

package roamcard

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// errQuota says that the user's share of the disk is full.
const errQuota = syscall.EDQUOT

// hasProc says that the system tells of processes in /proc.
const hasProc = runtime.GOOS == "linux"

// processIsAlive says whether there is a process, also one of another user.
func processIsAlive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// checkFolder refuses a folder that others may write: who writes the journal decides what is paid.
func checkFolder(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if of, ok := info.Sys().(*syscall.Stat_t); ok && int(of.Uid) != os.Geteuid() {
		return &exposedError{fmt.Sprintf("the folder %s is that of user %d, and this is user %d; name one of your own", path,
			of.Uid, os.Geteuid())}
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return &exposedError{fmt.Sprintf("others may write the folder %s, whose mode is %04o; `chmod go-w %s`, or name "+
			"another one", path, mode, path)}
	}
	return nil
}

func syncFolder(path string) (err error) {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}
