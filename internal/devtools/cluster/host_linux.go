package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is as whom PostgreSQL's package runs it.
const account = "postgres"

// detach gives cmd a process group of its own, so that a terminal's Ctrl-C reaches this program alone, which then ends
// its children in order, and makes the kernel end it with this program.
func detach(cmd *exec.Cmd, servant bool) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	uid, gid, err := servantIDs()
	if servant && uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return err
}

// servantIDs are those of the account when this program is run by root, and zero otherwise.
func servantIDs() (uid, gid uint32, err error) {
	if os.Geteuid() != 0 {
		return 0, 0, nil
	}
	who, err := user.Lookup(account)
	if err != nil {
		return 0, 0, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	u, err := strconv.ParseUint(who.Uid, 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("read the id of %s: %w", account, err)
	}
	g, err := strconv.ParseUint(who.Gid, 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("read the group of %s: %w", account, err)
	}
	return uint32(u), uint32(g), nil
}

// give makes the account the owner of a path.
func give(path string) error {
	uid, gid, err := servantIDs()
	if err != nil || uid == 0 {
		return err
	}
	return os.Chown(path, int(uid), int(gid))
}

// enterable says whether the account can enter every folder above a path; its error names the one that stops it.
func enterable(path string) error {
	uid, _, err := servantIDs()
	if err != nil || uid == 0 {
		return err
	}
	for at := filepath.Dir(path); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case os.IsNotExist(err): // it will be made
		case err != nil:
			return err
		case info.Mode().Perm()&0o001 == 0:
			return fmt.Errorf("the account %s may not enter %s", account, at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// crash ends a process that is not our child at once.
func crash(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
