//go:build unix

package roamcard

import (
	"errors"
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

func syncFolder(path string) (err error) {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}
