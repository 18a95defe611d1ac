//go:build !unix

package devnet

import (
	"os"
	"os/exec"
)

// Elsewhere the children run without locks, accounts and parent-death signals: one start per folder is up to the user.

func tryLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
}

func owner(string) (uid, gid uint32, err error) { return 0, 0, nil }

func reachable(string, account) error { return nil }

func running(int, string) bool { return false }

func interrupt(int) error { return nil }

func dieWithParent(*exec.Cmd) {}

func lingerAfterParent(*exec.Cmd, *os.File) {}

func runAs(*exec.Cmd, account) {}

func killFamily(p *os.Process) error { return p.Kill() }
