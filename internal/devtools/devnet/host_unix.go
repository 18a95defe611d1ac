//go:build unix

package devnet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// tryLock takes the lock kept in the file at path, or returns nil when another process has it. The lock lasts until
// every copy of the file is closed, a child's inherited one included.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// owner returns who owns the file at path.
func owner(path string) (uid, gid uint32, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	st := info.Sys().(*syscall.Stat_t)
	return st.Uid, st.Gid, nil
}

// reachable reports whether the account can enter dir and every folder above it. Its error names the folder
// that stops it.
func reachable(dir string, who account) error {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		st, may := info.Sys().(*syscall.Stat_t), info.Mode().Perm()&0o001 != 0
		switch {
		case st.Uid == who.uid:
			may = info.Mode().Perm()&0o100 != 0
		case st.Gid == who.gid:
			may = info.Mode().Perm()&0o010 != 0
		}
		if !may {
			return fmt.Errorf("user %d may not enter %s", who.uid, at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// running says whether pid is a live process of the named program; an empty name means any.
func running(pid int, name string) bool {
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	if name == "" {
		return true
	}
	if runtime.GOOS == "linux" { // minimal images have no ps
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		// A process in state Z has ended and only waits for its parent to look.
		return err == nil && strings.Contains(string(stat), "("+name+") ") && !strings.Contains(string(stat), ") Z ")
	}
	out, err := exec.Command("ps", "-p", strconv.Itoa(pid), "-o", "comm=").Output()
	return err == nil && filepath.Base(strings.TrimSpace(string(out))) == name
}

// interrupt asks a process that is not our child to end.
func interrupt(pid int) error { return syscall.Kill(pid, syscall.SIGINT) }
