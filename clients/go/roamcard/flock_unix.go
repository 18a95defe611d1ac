//go:build unix && !solaris && !aix

package roamcard

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks a file until it is closed, or says that its file system cannot.
func lockFile(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// holderOfFile says whether somebody has locked a file.
func holderOfFile(f *os.File) holderState {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) // shared: who looks hides nothing from the others
	switch {
	case err == nil:
		return holderGone
	case errors.Is(err, syscall.EWOULDBLOCK):
		return holderAlive
	}
	return holderUnknown
}
