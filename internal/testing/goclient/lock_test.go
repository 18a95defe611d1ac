package goclient_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

func journalIn(t *testing.T, folder string) *roamcard.FileStore {
	t.Helper()
	store, err := roamcard.NewFileStore(folder)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// notes is a change that adds a payee, by which it is found again.
func notes(name string) func(*roamcard.Book) error {
	return func(b *roamcard.Book) error {
		b.Payees["https://"+name+".example"] = "0x1"
		return nil
	}
}

// noted checks which changes a journal has.
func noted(t *testing.T, folder string, names ...string) {
	t.Helper()
	b, err := journalIn(t, folder).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if b.Payees["https://"+name+".example"] == "" {
			t.Errorf("the change %s is lost", name)
		}
	}
	if len(b.Payees) != len(names) || b.Generation != int64(len(names)) {
		t.Errorf("%d changes in generation %d, want %q", len(b.Payees), b.Generation, names)
	}
}

func isJournalError(err error, reason roamcard.JournalReason) bool {
	failed, ok := errors.AsType[*roamcard.JournalError](err)
	return ok && failed.Reason == reason
}

// holds leaves a lock in a folder, as a holder of an hour ago.
func holds(t *testing.T, folder, record string) (free string) {
	t.Helper()
	lock := filepath.Join(folder, "lock-7")
	hourAgo := time.Now().Add(-time.Hour)
	if err := errors.Join(os.WriteFile(lock, []byte(record), 0o600), os.Chtimes(lock, hourAgo, hourAgo)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "free-7")
}

func recordOf(t *testing.T, change func(map[string]any)) string {
	t.Helper()
	host, err := os.Hostname()
	record := map[string]any{"pid": 4_000_000, "host": host, "boot": "host:" + host, "namespace": "host:" + host,
		"started": "1", "locked": false}
	if runtime.GOOS == "linux" {
		boot, failed := os.ReadFile("/proc/sys/kernel/random/boot_id")
		record["boot"] = strings.TrimSpace(string(boot))
		record["namespace"], err = os.Readlink("/proc/self/ns/pid")
		err = errors.Join(err, failed)
	}
	change(record)
	text, failed := json.Marshal(record)
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A pid that does not exist here may be alive in another container: its lock is not taken, and a person is told.
func TestLockOfAHolderThatCannotBeSeenIsNotTaken(t *testing.T) {
	for name, record := range map[string]string{
		"another container": recordOf(t, func(r map[string]any) { r["namespace"] = "pid:[1]" }),
		"another host":      recordOf(t, func(r map[string]any) { r["host"] = "elsewhere" }),
		"another boot":      recordOf(t, func(r map[string]any) { r["boot"] = "0-0-0"; r["locked"] = true }),
		"no boot":           recordOf(t, func(r map[string]any) { r["boot"] = "" }),
		"an older client":   "4000000",
		"half a record":     `{"pid": 40`,
		"nothing":           "",
	} {
		folder := t.TempDir()
		free := holds(t, folder, record)
		err := journalIn(t, folder).Update(t.Context(), notes("a"))
		if !isJournalError(err, roamcard.JournalLocked) || !strings.Contains(err.Error(), free) {
			t.Errorf("%s: %v", name, err)
		}
		noted(t, folder)
		// The person has looked, and says that it has ended.
		if err := os.WriteFile(free, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := journalIn(t, folder).Update(t.Context(), notes("a")); err != nil {
			t.Errorf("%s, freed: %v", name, err)
		}
		noted(t, folder, "a")
	}
}

// What is known to be dead is not waited for.
func TestLockOfADeadHolderIsTaken(t *testing.T) {
	dead := map[string]string{
		"no such process": recordOf(t, func(map[string]any) {}),
		"the pid of another process": recordOf(t, func(r map[string]any) {
			if runtime.GOOS == "linux" {
				r["pid"] = os.Getpid()
			}
		}),
		"let go by an older client": "0",
	}
	if runtime.GOOS == "linux" {
		dead["another container, without its lock of the file"] = recordOf(t, func(r map[string]any) {
			r["namespace"], r["host"], r["locked"] = "pid:[1]", "elsewhere", true
		})
	}
	for name, record := range dead {
		folder := t.TempDir()
		holds(t, folder, record)
		if err := journalIn(t, folder).Update(t.Context(), notes("a")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		noted(t, folder, "a")
	}
}

// A holder that was stopped, as by a computer that slept, keeps its lock for as long as it lives.
func TestLockOfASlowHolderIsNotTaken(t *testing.T) {
	folder := t.TempDir()
	slow, quick := journalIn(t, folder), journalIn(t, folder)
	holding, goOn, first := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		first <- slow.Update(t.Context(), func(b *roamcard.Book) error {
			close(holding)
			<-goOn
			return notes("slow")(b)
		})
	}()
	<-holding
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(folder, "lock-1"), hourAgo, hourAgo); err != nil {
		t.Fatal(err)
	}
	waiting, giveUp := context.WithCancel(t.Context())
	err := quick.Update(&patience{Context: waiting, giveUp: giveUp}, notes("quick"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the second one did not wait: %v", err)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Errorf("the first: %v", err)
	}
	noted(t, folder, "slow")
}

// patience is a context that ends when it was waited on a few times.
type patience struct {
	context.Context
	giveUp context.CancelFunc
	waits  atomic.Int32
}

// Done implements context.Context.
func (p *patience) Done() <-chan struct{} {
	if p.waits.Add(1) == 10 {
		p.giveUp()
	}
	return p.Context.Done()
}

// Whoever is stopped while it holds the lock, and whose lock a person gives away, changes nothing when it goes on.
func TestWriterOfAnOlderGenerationChangesNothing(t *testing.T) {
	given := func(folder string) error {
		if err := os.WriteFile(filepath.Join(folder, "free-1"), nil, 0o600); err != nil {
			return err
		}
		return journalIn(t, folder).Update(t.Context(), notes("other"))
	}
	// As a program that writes without the lock, or a restored file.
	write := func(text string) func(string) error {
		return func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "journal.json"), []byte(text), 0o600)
		}
	}
	const other = `{"schema": "roamcard.journal", "version": 2, "purchases": {}, ` +
		`"payees": {"https://other.example": "0x1"}`
	for name, meanwhile := range map[string]func(folder string) error{
		"a lock given away":  given,
		"another generation": write(other + `, "generation": 1}`),
		"another text":       write(other + `}`),
	} {
		folder := t.TempDir()
		err := journalIn(t, folder).Update(t.Context(), func(b *roamcard.Book) error {
			if err := meanwhile(folder); err != nil {
				t.Fatal(err)
			}
			return notes("stale")(b)
		})
		if !isJournalError(err, roamcard.JournalFailed) || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%s: %v", name, err)
		}
		b, err := journalIn(t, folder).Read(t.Context())
		if err != nil || b.Payees["https://other.example"] == "" || len(b.Payees) != 1 {
			t.Errorf("%s: %v, %v", name, b.Payees, err)
		}
		if left, _ := filepath.Glob(filepath.Join(folder, "*draft*")); len(left) > 0 {
			t.Errorf("%s: %q is left", name, left)
		}
	}
}

// namespaced is a command in a pid namespace of its own, as a container has; ok is false where there are none.
func namespaced(ctx context.Context, program string, args ...string) (cmd *exec.Cmd, ok bool) {
	flags := []string{"-pf", "--mount-proc", "--kill-child"}
	if os.Geteuid() != 0 {
		flags = append([]string{"-U", "--map-root-user"}, flags...)
	}
	if exec.CommandContext(ctx, "unshare", append(flags, "true")...).Run() != nil {
		return nil, false
	}
	return exec.CommandContext(ctx, "unshare", append(append(flags, program), args...)...), true
}

// Processes that do not see each other share a journal: none loses a change, the day's cap holds, and one that dies
// with the lock stops nobody.
func TestJournalIsSharedAcrossNamespaces(t *testing.T) {
	rounds := 2
	if os.Getenv("ROAMCARD_TORTURE") != "" {
		rounds = 100
	}
	for range rounds {
		folder := t.TempDir()
		var writers, ready sync.WaitGroup
		start := make(chan struct{})
		for i := range 3 {
			cmd, ok := namespaced(t.Context(), os.Args[0], "-test.run=^TestNamespaceWriter$")
			if !ok {
				t.Skip("there are no namespaces here")
			}
			cmd.Env = append(os.Environ(), "NAMESPACE_FOLDER="+folder, fmt.Sprintf("NAMESPACE_WRITER=%d", i))
			var told bytes.Buffer
			cmd.Stderr = &told
			in, err1 := cmd.StdinPipe()
			out, err2 := cmd.StdoutPipe()
			if err := errors.Join(err1, err2, cmd.Start()); err != nil {
				t.Fatal(err)
			}
			ready.Add(1)
			writers.Go(func() {
				lines := bufio.NewReader(out)
				_, _ = lines.ReadString('\n') // one that fails says nothing, and is seen below
				ready.Done()
				<-start
				_ = in.Close()
				said, _ := io.ReadAll(lines)
				if err := cmd.Wait(); (i == 2) != (err != nil) {
					t.Errorf("writer %d: %v\n%s%s", i, err, said, &told)
				}
			})
		}
		ready.Wait()
		close(start)
		writers.Wait()
		b, err := journalIn(t, folder).Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// The two that lived took all that there was to take.
		if spent := spentIn(b); spent != dayCap || len(b.Purchases) != dayCap/each {
			t.Fatalf("%d purchases of %d, want %d", len(b.Purchases), spent, dayCap)
		}
		for i := range 2 {
			if b.Payees[fmt.Sprintf("https://%d.example", i)] != "done" {
				t.Fatalf("writer %d lost a change: %v", i, b.Payees)
			}
		}
	}
}

const (
	dayCap = 3_000_000
	each   = 100_000
)

func spentIn(b roamcard.Book) (sum int64) {
	for _, e := range b.Purchases {
		sum += e.Amount
	}
	return sum
}

// TestNamespaceWriter is no test: it is a process that spends what is left of a day's cap.
func TestNamespaceWriter(t *testing.T) {
	folder, writer := os.Getenv("NAMESPACE_FOLDER"), os.Getenv("NAMESPACE_WRITER")
	if folder == "" {
		t.Skip("run by TestJournalIsSharedAcrossNamespaces")
	}
	store := journalIn(t, folder)
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // until all are
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		full := false
		err := store.Update(t.Context(), func(b *roamcard.Book) error {
			if writer == "2" {
				os.Exit(9)
			}
			if full = spentIn(*b)+each > dayCap; full {
				b.Payees["https://"+writer+".example"] = "done"
				return nil
			}
			id := fmt.Sprintf("%s-%d", writer, n)
			b.Purchases[id] = roamcard.Entry{
				Key: id, Operation: "/api/card/purchase", Origin: "https://roamcard.example", Path: "/api/card/purchase",
				Payer: "0x1", Request: json.RawMessage(`{}`), Amount: each, State: roamcard.Reserved, Holder: writer,
				Authorizations: []roamcard.SignedAuthorization{},
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if full {
			return
		}
	}
}
