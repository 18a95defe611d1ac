package roamcard

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/secret/custody"
)

const (
	// lockTimeout is how long one holder is waited for: what is done under the lock takes milliseconds.
	lockTimeout = 30 * time.Second
	lockRetry   = 5 * time.Millisecond
	lockPrefix  = "lock-"
	freePrefix  = "free-"
	draftInfix  = ".draft-"
	// released is what the clients of before wrote into a lock that they had let go.
	released = "0"
)

// errLockLost says that the lock was given to another program, which only a person does.
var errLockLost = errors.New("the lock was given to another program meanwhile; nothing was changed")

// lockedError is a lock that stays with its holder.
type lockedError struct{ text string }

func (e *lockedError) Error() string { return e.text }

// folderLock is a turn at a folder, among the programs of all languages. Holders are numbered files: who makes
// lock-N holds the lock once the holder before has made its free-N, or is known to be dead. A number is made by
// link(2), which one program wins, with its content in place; the highest one is never removed.
type folderLock struct {
	folder string
	number int
	// record is open while the lock is held where the system has locks of files: it is locked, and the system lets it go
	// with the process. Elsewhere it is nil.
	record *os.File
}

// lockFolder waits for the lock.
func lockFolder(ctx context.Context, folder string) (folderLock, error) {
	waited := time.Now()
	for last := 0; ; {
		lock, held, err := tryLockFolder(folder)
		if err != nil || held.number == 0 {
			return lock, err
		}
		if held.number != last {
			last, waited = held.number, time.Now()
		}
		if time.Since(waited) > lockTimeout || held.state == holderUnknown && held.age > lockTimeout {
			return folderLock{}, held.refusal(folder)
		}
		if err := pause(ctx, lockRetry+mathrand.N(lockRetry)); err != nil {
			return folderLock{}, err
		}
	}
}

// tryLockFolder takes the lock, or tells who holds it; the number of that is zero when nobody does.
func tryLockFolder(folder string) (lock folderLock, held lockHolder, err error) {
	numbers, free, err := lockNumbers(folder)
	if err != nil {
		return folderLock{}, lockHolder{}, err
	}
	highest := 0
	for _, n := range numbers {
		highest = max(highest, n)
	}
	if highest > 0 && !free[highest] {
		if held, err = holderOf(folder, highest); held.state != holderGone || err != nil {
			return folderLock{}, held, err
		}
	}
	lock = folderLock{folder: folder, number: highest + 1}
	if won, err := lock.claim(); !won || err != nil {
		return folderLock{}, lockHolder{number: lock.number, state: holderAlive}, err
	}
	return lock, lockHolder{}, lock.sweep()
}

// claim makes the lock's number, unless another program does so first.
func (l *folderLock) claim() (won bool, err error) {
	draft := filepath.Join(l.folder, fmt.Sprintf("draft-%d-%s", os.Getpid(), rand.Text()))
	f, err := os.OpenFile(draft, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, err
	}
	defer func() {
		if !won || l.record == nil {
			_ = f.Close()
		}
		_ = os.Remove(draft)
	}()
	who := thisProcess()
	who.Locked = lockFile(f) // before anybody can see it
	record, err := json.Marshal(who)
	if err != nil {
		return false, err
	}
	if _, err := f.Write(record); err != nil {
		return false, err
	}
	err = os.Link(draft, l.path(lockPrefix))
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if l.check() != nil {
		// Made late: there is a higher one, whose holder may have removed it already.
		if err := os.Remove(l.path(lockPrefix)); !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		return false, nil
	}
	if who.Locked {
		l.record = f
	}
	return true, nil
}

// sweep removes what earlier holders have left. A holder that was stopped, and whose lock a person has given away,
// finds its draft gone: what is read from here on stays as it is.
func (l *folderLock) sweep() error {
	names, err := os.ReadDir(l.folder)
	for _, name := range names {
		n, ok := numberOf(name.Name(), lockPrefix, freePrefix)
		_, digits, draft := strings.Cut(name.Name(), draftInfix)
		if draft {
			n, ok = numberOf(digits, "")
		}
		if !ok || n >= l.number {
			continue
		}
		// A lower number says nothing any more, also one that stays because somebody looks at it.
		if removing := os.Remove(filepath.Join(l.folder, name.Name())); draft && !errors.Is(removing, fs.ErrNotExist) {
			err = errors.Join(err, removing)
		}
	}
	if err != nil {
		return errors.Join(err, l.unlock())
	}
	return nil
}

// check says whether the lock is still this program's.
func (l *folderLock) check() error {
	numbers, free, err := lockNumbers(l.folder)
	if err != nil {
		return err
	}
	highest := 0
	for _, n := range numbers {
		highest = max(highest, n)
	}
	if highest != l.number || free[highest] {
		return errLockLost
	}
	return nil
}

// unlock lets go. It makes a name only: after a power cut no file is half written.
func (l *folderLock) unlock() error {
	err := os.Link(l.path(lockPrefix), l.path(freePrefix))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = os.WriteFile(l.path(lockPrefix), []byte(released), 0o600)
	}
	if l.record == nil {
		return err
	}
	return errors.Join(err, l.record.Close())
}

func (l *folderLock) path(prefix string) string {
	return filepath.Join(l.folder, prefix+strconv.Itoa(l.number))
}

// lockNumbers are the numbers of all holders, and which of them are free.
func lockNumbers(folder string) (numbers []int, free map[int]bool, err error) {
	names, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, err
	}
	free = map[int]bool{}
	for _, name := range names {
		if n, ok := numberOf(name.Name(), lockPrefix); ok {
			numbers = append(numbers, n)
		}
		if n, ok := numberOf(name.Name(), freePrefix); ok {
			numbers, free[n] = append(numbers, n), true
		}
	}
	return numbers, free, nil
}

func numberOf(name string, prefixes ...string) (n int, ok bool) {
	for _, prefix := range prefixes {
		if digits, found := strings.CutPrefix(name, prefix); found {
			n, err := strconv.Atoi(digits)
			return n, err == nil && n > 0
		}
	}
	return 0, false
}

// lockRecord is what a lock's file says of its holder, in all languages.
type lockRecord struct {
	PID  int    `json:"pid"`
	Host string `json:"host"`
	// Boot is the running system's: its kernel knows which processes there are.
	Boot string `json:"boot"`
	// Namespace is where the pid counts: a container has its own.
	Namespace string `json:"namespace"`
	// Started tells processes apart that had the same pid; empty where that is not known.
	Started string `json:"started"`
	// Locked says that the file is locked by flock(2) for as long as the holder has it.
	Locked bool `json:"locked"`
}

// thisProcess is the record of this program.
func thisProcess() lockRecord {
	host, _ := os.Hostname() // without a name no other is known either
	r := lockRecord{PID: os.Getpid(), Host: host}
	if hasProc {
		boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
		r.Boot = strings.TrimSpace(string(boot))
		r.Namespace, _ = os.Readlink("/proc/self/ns/pid")
		_, r.Started, _ = processStat("self")
		return r
	}
	// One space of pids, whose reboots cannot be told from here.
	r.Boot, r.Namespace = "host:"+host, "host:"+host
	return r
}

// holderState is what is known of a holder.
type holderState int

const (
	holderUnknown holderState = iota
	holderAlive
	holderGone
)

// lockHolder is who holds a lock.
type lockHolder struct {
	number int
	record lockRecord
	state  holderState
	age    time.Duration
}

// holderOf looks whether a holder is alive. One that cannot be seen from here is neither alive nor gone.
func holderOf(folder string, number int) (lockHolder, error) {
	held := lockHolder{number: number, state: holderAlive}
	f, err := custody.OpenIn(filepath.Join(folder, lockPrefix+strconv.Itoa(number)), custody.NoWriters)
	if _, ok := errors.AsType[*custody.ExposedError](err); ok {
		return held, err
	}
	if err != nil {
		return held, nil // a higher one has taken its place
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return held, nil
	}
	held.age = time.Since(info.ModTime())
	data := make([]byte, min(info.Size(), 4<<10))
	n, _ := f.ReadAt(data, 0) // what is cut off is no record
	if string(data[:n]) == released {
		held.state = holderGone
		return held, nil
	}
	if json.Unmarshal(data[:n], &held.record) != nil {
		held.record, held.state = lockRecord{}, holderUnknown
		return held, nil
	}
	held.state = held.record.seen(f, thisProcess())
	return held, nil
}

func (r lockRecord) seen(f *os.File, from lockRecord) holderState {
	if r.Boot == "" || r.Boot != from.Boot {
		return holderUnknown
	}
	if r.Locked {
		// The same kernel keeps the lock, whatever container its process is in.
		if state := holderOfFile(f); state != holderUnknown {
			return state
		}
	}
	if r.Host != from.Host || r.Namespace == "" || r.Namespace != from.Namespace || r.PID <= 0 {
		return holderUnknown
	}
	if processIsAlive(r.PID) && !r.replaced() {
		return holderAlive
	}
	return holderGone
}

// replaced says that the pid is another process's by now, or that of one that has ended.
func (r lockRecord) replaced() bool {
	// A /proc of another namespace tells of others.
	if self, err := os.Readlink("/proc/self"); !hasProc || err != nil || self != strconv.Itoa(os.Getpid()) {
		return false
	}
	state, started, ok := processStat(strconv.Itoa(r.PID))
	return ok && (state == "Z" || state == "X" || r.Started != "" && started != r.Started)
}

// processStat reads proc_pid_stat(5): the state of a process, and when it started in ticks since the boot.
func processStat(name string) (state, started string, ok bool) {
	data, err := os.ReadFile(filepath.Join("/proc", name, "stat"))
	if err != nil {
		return "", "", false
	}
	// The second field is the program's name, which may have anything in it.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 20 {
		return "", "", false
	}
	return fields[0], fields[19], true
}

// refusal tells a person why the lock is not taken, and what can be done.
func (h lockHolder) refusal(folder string) error {
	lock := filepath.Join(folder, lockPrefix+strconv.Itoa(h.number))
	free := filepath.Join(folder, freePrefix+strconv.Itoa(h.number))
	who := fmt.Sprintf("process %d of host %q", h.record.PID, h.record.Host)
	if h.record.PID == 0 {
		who = "a program that did not write its name"
	}
	if h.state == holderAlive {
		return &lockedError{fmt.Sprintf("%s is held by %s, which is alive; wait for it, or end it", lock, who)}
	}
	return &lockedError{fmt.Sprintf(
		"%s is held by %s, which cannot be seen from here, as in another container, machine or boot; "+
			"if it has ended, make the empty file %s", lock, who, free)}
}
