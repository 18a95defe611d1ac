package roamcard

import (
	"os"
	"syscall"
)

// errQuota is ERROR_DISK_FULL.
const errQuota = syscall.Errno(112)

const hasProc = false

// processIsAlive says whether there is a process: here, to find one is to open it.
func processIsAlive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	return p.Release() == nil
}

// syncFolder has nothing to do: a renamed file is on the disk with its folder.
func syncFolder(string) error { return nil }
