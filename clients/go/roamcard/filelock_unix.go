//go:build unix

package roamcard

import (
	"errors"
	"os"
	"syscall"
)

// lockFile waits for the lock, which the system gives back when the program dies.
func lockFile(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// tryLockFile takes a lock that nobody holds; unlock is nil when somebody does. The file goes with its lock.
func tryLockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return nil, f.Close()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// Whoever held it before may have taken the file away in between: then the lock is nobody's.
	mine, err := f.Stat()
	there, gone := os.Stat(path)
	if err != nil || gone != nil || !os.SameFile(mine, there) {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = errors.Join(os.Remove(path), f.Close()) }, nil
}

func syncFolder(path string) (err error) {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}
