package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/job/jobtest"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

const bake job.Kind = "bake"

func bakeJob(key string) job.New {
	return job.New{Args: jobtest.Args{Name: bake}, UniqueKey: key}
}

// insert makes a transaction's change: a job of a key.
func insert(key string) func(context.Context, *ent.Tx) error {
	return func(ctx context.Context, tx *ent.Tx) error {
		_, _, err := store.InsertJob(ctx, tx, bakeJob(key))
		return err
	}
}

func exists(t *testing.T, s *store.Store, key string) bool {
	t.Helper()
	_, found, err := s.Jobs().Find(t.Context(), bake, key)
	if err != nil {
		t.Fatalf("Find: %v", err)
	}
	return found
}

func TestTransactionsThatDeadlockBothCommit(t *testing.T) {
	s := storetest.Open(t, storetest.URL(t)) // as the owner, who waits shorter for locks
	for _, key := range []string{"a", "b"} {
		if err := s.Tx(t.Context(), insert(key)); err != nil {
			t.Fatal(err)
		}
	}
	var runs atomic.Int32
	var met sync.WaitGroup
	met.Add(2)
	lockBoth := func(first, second string) error {
		meet := sync.OnceFunc(func() { met.Done(); met.Wait() })
		return s.Tx(t.Context(), func(ctx context.Context, tx *ent.Tx) error {
			runs.Add(1)
			const lock = "UPDATE jobs SET version = version + 1 WHERE unique_key = $1 AND owner = ''"
			if _, err := store.Raw(tx).Exec(ctx, "SET LOCAL deadlock_timeout = '10ms'"); err != nil {
				return err
			}
			if _, err := store.Raw(tx).Exec(ctx, lock, first); err != nil {
				return err
			}
			meet()
			_, err := store.Raw(tx).Exec(ctx, lock, second)
			return err
		})
	}
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() { errs[0] = lockBoth("a", "b") })
	wg.Go(func() { errs[1] = lockBoth("b", "a") })
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil || runs.Load() < 3 { // who runs again may meet the other once more
		t.Errorf("after %d runs: %v", runs.Load(), err)
	}
	if row, _, _ := s.Jobs().Find(t.Context(), bake, "a"); row.Version != 2 {
		t.Errorf("version %d after two changes", row.Version)
	}
}

func TestOnlyConflictsAreRunAgain(t *testing.T) {
	s := storetest.New(t)
	for code, want := range map[string]int{
		"40001": store.MaxReruns + 1, "40P01": store.MaxReruns + 1, "23505": 1, "P0001": 1, "57014": 1,
	} {
		runs := 0
		err := s.Tx(t.Context(), func(ctx context.Context, tx *ent.Tx) error {
			runs++
			_, err := store.Raw(tx).Exec(ctx, "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '"+code+"'; END $$")
			return err
		})
		if err == nil || runs != want {
			t.Errorf("%s: %d runs, want %d: %v", code, runs, want, err)
		}
	}
}

func TestTransactionOutlivesItsCaller(t *testing.T) {
	s := storetest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		if _, err := store.Raw(tx).Exec(ctx, "SELECT 1"); err != nil {
			return err
		}
		cancel() // the client hangs up
		return insert("k")(ctx, tx)
	})
	if err != nil || !exists(t, s, "k") {
		t.Errorf("the caller's end undid the change: %v", err)
	}
	if err := s.Tx(ctx, insert("later")); !errors.Is(err, context.Canceled) {
		t.Errorf("begun for nobody: %v", err)
	}
}

func TestErrorOrPanicRollsBack(t *testing.T) {
	s := storetest.New(t)
	wake, cancel := s.Subscribe("jobs", "")
	defer cancel()
	eventually(t, "the listener's start wakes everybody", func() bool { return woken(wake) })
	mine := errors.New("mine")
	err := s.Tx(t.Context(), func(ctx context.Context, tx *ent.Tx) error {
		return errors.Join(insert("k")(ctx, tx), mine)
	})
	if !errors.Is(err, mine) || exists(t, s, "k") {
		t.Errorf("after an error: %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = s.Tx(t.Context(), func(ctx context.Context, tx *ent.Tx) error {
			if err := insert("k")(ctx, tx); err != nil {
				return err
			}
			panic("mine")
		})
	}()
	if exists(t, s, "k") || s.Pool().Stat().AcquiredConns() != 0 {
		t.Error("a panic left its change or its connection")
	}
	select {
	case <-wake:
		t.Error("woken for a change that was undone")
	default:
	}
}

func TestKilledBackendRollsBack(t *testing.T) {
	s := storetest.New(t)
	err := s.Tx(t.Context(), func(ctx context.Context, tx *ent.Tx) error {
		if err := insert("k")(ctx, tx); err != nil {
			return err
		}
		var pid int
		if err := store.Raw(tx).QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return err
		}
		if _, err := s.Pool().Exec(ctx, "SELECT pg_terminate_backend($1, 5000)", pid); err != nil {
			return err
		}
		_, err := store.Raw(tx).Exec(ctx, "SELECT 1")
		return err
	})
	if err == nil || errors.Is(err, store.ErrUnknownCommit) || exists(t, s, "k") {
		t.Errorf("after the kill: %v", err)
	}
	if err := s.Tx(t.Context(), insert("k")); err != nil || !exists(t, s, "k") {
		t.Errorf("the next transaction: %v", err)
	}
}

func TestLostCommitIsUnknown(t *testing.T) {
	target := storetest.URL(t)
	direct := storetest.Open(t, target)
	for name, forward := range map[string]bool{"before the server": false, "after the server": true} {
		t.Run(name, func(t *testing.T) {
			cut := cutAtCommit(t, target, forward)
			s := storetest.Open(t, cut)
			key := uuid.NewString()
			if err := s.Tx(t.Context(), insert(key)); !errors.Is(err, store.ErrUnknownCommit) {
				t.Fatalf("tx: %v", err)
			}
			if !forward {
				if exists(t, direct, key) {
					t.Error("committed without a commit")
				}
				return
			}
			eventually(t, "the commit is executed", func() bool { return exists(t, direct, key) })
		})
	}
}

// cutAtCommit is a way to the database that ends when a COMMIT passes, forwarded or not.
func cutAtCommit(t *testing.T, target string, forward bool) string {
	t.Helper()
	return proxied(t, target, func(sent []byte) cut {
		switch {
		case !bytes.Contains(sent, executing("commit")):
			return pass
		case forward:
			return cutAfter
		}
		return cutBefore
	})
}

// cut is what a way to the database does with what a client sends.
type cut int

const (
	pass cut = iota
	cutBefore
	cutAfter
	// refuse answers as a server that has rolled the transaction back in favour of another one.
	refuse
	// silence answers nothing, until the client gives up.
	silence
)

// proxied is a way to the database on which decide looks at what clients send.
func proxied(t *testing.T, target string, decide func(sent []byte) cut) string {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	server := filepath.Join(query.Get("host"), ".s.PGSQL."+query.Get("port"))
	dir, err := os.MkdirTemp("", "cut-") // t.TempDir would be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.1"))
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { relay(client, server, decide) })
		}
	})
	t.Cleanup(func() { listener.Close(); open.Wait() })
	query.Set("host", dir)
	query.Set("port", "1")
	u.RawQuery = query.Encode()
	return u.String()
}

func relay(client net.Conn, server string, decide func([]byte) cut) {
	defer client.Close()
	back, err := net.Dial("unix", server)
	if err != nil {
		return
	}
	defer back.Close()
	go func() { _, _ = io.Copy(client, back); client.Close() }()
	var sent []byte
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if sent = append(sent, buffer[:n]...); !whole(sent) {
			continue
		}
		if bytes.HasPrefix(sent, cancelRequest) {
			decide(sent)
			return // what was begun goes on, as when the network is gone
		}
		what := decide(sent)
		switch what {
		case refuse:
			_, _ = client.Write(serializationFailure)
			sent = nil
			continue
		case silence:
			_ = client.SetReadDeadline(time.Now().Add(2 * time.Second)) // which is longer than the client waits
			_, _ = io.Copy(io.Discard, client)
			return
		case cutBefore, cutAfter:
			client.Close()
		case pass:
		}
		if what == cutBefore {
			return
		}
		if _, err := back.Write(sent); err != nil {
			return
		}
		sent = nil
		if what == cutAfter {
			_ = back.(*net.UnixConn).CloseWrite() // the server does it and then finds us gone
			_, _ = io.Copy(io.Discard, back)
			return
		}
	}
}

// serializationFailure is the server's error of that name, and that the transaction has failed.
var serializationFailure = func() []byte {
	fields := []byte("SERROR\x00VERROR\x00C40001\x00Mcould not serialize access\x00\x00")
	message := append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(4+len(fields))), fields...)
	return append(message, 'Z', 0, 0, 0, 5, 'E')
}()

// cancelRequest begins what a client sends to cancel a statement whose connection it has given up.
var cancelRequest = []byte{0, 0, 0, 16, 4, 210, 22, 46}

// whole reports whether what a client has sent ends with a message that the server answers.
func whole(sent []byte) bool {
	if sent[0] == 0 {
		return true // the first message has no type
	}
	var last byte
	for len(sent) > 0 {
		if len(sent) < 5 {
			return false
		}
		size := 1 + int(binary.BigEndian.Uint32(sent[1:]))
		if len(sent) < size {
			return false
		}
		last, sent = sent[0], sent[size:]
	}
	return bytes.IndexByte([]byte("SQXp"), last) >= 0
}

// eventually polls a condition that another process brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(3 * time.Minute) // ends a test that fails
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("never: %s", what)
		}
	}
}

// executing is in what a client sends to execute a statement: the name that pgx gives the statement, bound to a portal
// without a name.
func executing(sql string) []byte {
	sum := sha256.Sum256([]byte(sql))
	return []byte("\x00stmtcache_" + hex.EncodeToString(sum[:24]) + "\x00")
}
