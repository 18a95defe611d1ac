package roamcard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// lockTimeout is how long a holder may hold the lock before it is taken for dead: what is done under it takes
	// milliseconds.
	lockTimeout = 30 * time.Second
	lockRetry   = 5 * time.Millisecond
	lockPrefix  = "lock-"
)

// errLockLost says that another program took the lock, because this one was stopped for too long.
var errLockLost = errors.New("another program has taken the lock meanwhile")

// folderLock is a turn at a folder, among the programs of all languages. Holders are numbered files: who makes
// the next number holds the lock once the holder before has let go or died. A number is made by link(2), which one
// program wins, with its content in place; the highest one is never removed.
type folderLock struct {
	folder string
	number int
}

// lockFolder waits for the lock.
func lockFolder(ctx context.Context, folder string) (folderLock, error) {
	for {
		lock, held, err := tryLockFolder(folder)
		if err != nil || held {
			return lock, err
		}
		if err := pause(ctx, lockRetry+mathrand.N(lockRetry)); err != nil {
			return folderLock{}, err
		}
	}
}

func tryLockFolder(folder string) (lock folderLock, held bool, err error) {
	numbers, err := lockNumbers(folder)
	if err != nil {
		return folderLock{}, false, err
	}
	highest := 0
	for _, n := range numbers {
		highest = max(highest, n)
	}
	if highest > 0 && !lockIsFree(lockFile(folder, highest)) {
		return folderLock{}, false, nil
	}
	lock = folderLock{folder, highest + 1}
	if held, err = lock.claim(); !held || err != nil {
		return folderLock{}, false, err
	}
	for _, n := range numbers {
		_ = os.Remove(lockFile(folder, n)) // a lower number says nothing any more
	}
	return lock, true, nil
}

// claim makes the lock's number, unless another program does so first.
func (l folderLock) claim() (held bool, err error) {
	draft := filepath.Join(l.folder, fmt.Sprintf("draft-%d-%s", os.Getpid(), rand.Text()))
	if err := os.WriteFile(draft, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(draft) }()
	err = os.Link(draft, lockFile(l.folder, l.number))
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if l.check() == nil {
		return true, nil
	}
	return false, os.Remove(lockFile(l.folder, l.number))
}

// check says whether the lock is still this program's.
func (l folderLock) check() error {
	numbers, err := lockNumbers(l.folder)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if n > l.number {
			return errLockLost
		}
	}
	return nil
}

// unlock lets go: a holder with pid 0 is none.
func (l folderLock) unlock() error {
	return os.WriteFile(lockFile(l.folder, l.number), []byte("0"), 0o600)
}

func lockFile(folder string, number int) string {
	return filepath.Join(folder, lockPrefix+strconv.Itoa(number))
}

func lockNumbers(folder string) ([]int, error) {
	names, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, name := range names {
		digits, ok := strings.CutPrefix(name.Name(), lockPrefix)
		if n, err := strconv.Atoi(digits); ok && err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// lockIsFree says that a holder has let go, or is dead. When its file is gone, a higher one has taken its place.
func lockIsFree(path string) bool {
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	return err != nil || pid == 0 || !processIsAlive(pid) || time.Since(info.ModTime()) > lockTimeout
}
