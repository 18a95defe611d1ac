package crash_test

import (
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/testing/apptest"
	"github.com/roamcard/roamcard/internal/testing/invariants"
)

// backupPrograms is the folder of a PostgreSQL that has its clients, too, which the npm packages do not.
func backupPrograms(t *testing.T) string {
	t.Helper()
	folders, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(folders) // newest first
	if path, err := exec.LookPath("pg_basebackup"); err == nil {
		folders = append(folders, filepath.Dir(path))
	}
	for _, dir := range append([]string{os.Getenv("ROAMCARD_PG_BIN")}, folders...) {
		whole := dir != ""
		for _, program := range []string{"postgres", "pg_dump", "pg_restore", "pg_basebackup"} {
			_, err := os.Stat(filepath.Join(dir, program))
			whole = whole && err == nil
		}
		if whole {
			return dir
		}
	}
	t.Skip("no PostgreSQL with pg_dump and pg_basebackup here: apt-get install postgresql")
	return ""
}

// as is a server's URL for another of its roles.
func as(t *testing.T, role, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	return u.String()
}

// The commands of docs/operations/backup.md: a dump that is made while the service sells, and restored into a database
// of its own, by the tables' owner, who is no superuser.
func TestRestoredFromADump(t *testing.T) {
	t.Parallel()
	tortures(t)
	bin, w := backupPrograms(t), newWorld(t)
	server := newServer(t, devnet.PostgresConfig{Programs: bin})
	dump := filepath.Join(t.TempDir(), "roamcard.dump")
	on(t, server, "CREATE ROLE roamcard LOGIN", "ALTER DATABASE roamcard OWNER TO roamcard")
	owner := as(t, "roamcard", server.URL())
	w.survives(t, owner, func() {
		shell(t, filepath.Join(bin, "pg_dump"), "--format", "custom", "--no-owner", "--file", dump, owner)
	}, func() string {
		on(t, server, "CREATE DATABASE roamcard_restored OWNER roamcard")
		restored := strings.Replace(owner, "/roamcard?", "/roamcard_restored?", 1)
		shell(t, filepath.Join(bin, "pg_restore"), "--no-owner", "--exit-on-error", "--dbname", restored, dump)
		return restored
	})
}

// A base backup, the archived WAL since, and a point in time.
func TestRestoredToAPointInTime(t *testing.T) {
	t.Parallel()
	tortures(t)
	bin, w := backupPrograms(t), newWorld(t)
	archive := serverFolder(t)
	if err := os.Chmod(archive, 0o777); err != nil { // the server may run as another user
		t.Fatal(err)
	}
	server := newServer(t, devnet.PostgresConfig{Programs: bin, Settings: []string{
		"archive_mode=on", "archive_command=test ! -f " + archive + "/%f && cp %p " + archive + "/%f",
	}})
	dir := serverFolder(t)
	base := filepath.Join(dir, filepath.Base(server.Data()))
	w.books.DatabaseURL = server.URL()
	w.migrates(t)
	on(t, server, "CREATE ROLE backup LOGIN REPLICATION")
	shell(t, filepath.Join(bin, "pg_basebackup"), "--pgdata", base, "--checkpoint", "fast",
		"--dbname", as(t, "backup", server.URL()))
	w.survives(t, server.URL(), func() {
		on(t, server, "SELECT pg_create_restore_point('before_the_mistake')")
	}, func() string {
		var last string
		conn := connect(t, server.URL())
		err := conn.QueryRow(t.Context(), "SELECT pg_walfile_name(pg_switch_wal())").Scan(&last)
		if err = errors.Join(err, conn.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		apptest.Await(t, "the WAL is archived", func() error {
			_, err := os.Stat(filepath.Join(archive, last))
			return err
		})
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		shell(t, "chown", "-R", "--reference="+server.Data(), base)
		recovering(t, base, "recovery.signal", "restore_command = 'cp "+archive+"/%f %p'",
			"recovery_target_name = 'before_the_mistake'", "recovery_target_action = 'promote'")
		restored := newServer(t, devnet.PostgresConfig{Dir: dir, Programs: bin})
		apptest.Await(t, "the server has reached the point", func() error {
			conn := connect(t, restored.URL())
			defer func() { _ = conn.Close(t.Context()) }()
			var recovers bool
			err := conn.QueryRow(t.Context(), "SELECT pg_is_in_recovery()").Scan(&recovers)
			if err == nil && recovers {
				err = errors.New("it recovers")
			}
			return err
		})
		return restored.URL()
	})
}

// survives sells, saves, sells more, restores what was saved, and recovers: in the end each buyer has what was paid
// for.
func (w *world) survives(t *testing.T, database string, save func(), restore func() (database string)) {
	t.Helper()
	w.books.DatabaseURL = database
	w.migrates(t)
	p := w.launchService(t, apptest.Binary(t), w.addr, "serve")
	before := w.sells(t, 3)
	w.waitIdle(t)
	save()
	lostFrom := w.sent(t)
	lost := w.sells(t, 5)
	w.waitIdle(t)
	had := map[*buyer]invariants.Tally{}
	for _, b := range slices.Concat(before, lost) {
		had[b] = w.tell(t, b)
	}
	p.Stop(t)
	w.books.DatabaseURL = restore()
	w.loses(lostFrom, w.sent(t))
	w.answers.all = nil // what was told of lost orders is not in the books any more
	for _, b := range lost {
		if got := w.tell(t, b); got.Orders != 0 {
			t.Fatalf("%s was sold to after the backup, and is in it: %+v", b.address, got)
		}
	}
	p = w.launchService(t, apptest.Binary(t), w.addr, "serve")
	plan, code := w.recovers(t, "--apply", "--operator", "ada", "--reason", "restored a backup")
	if plan.count("adopt", true) != len(lost) || code != 0 {
		t.Fatalf("the recovery ended with %d: %+v", code, plan.Steps)
	}
	w.waitIdle(t)
	p.Stop(t)
	for b, tally := range had {
		if got := w.tell(t, b); got != tally {
			t.Errorf("%s has %+v, had %+v", b.address, got, tally)
		}
	}
	w.haveOnce(t, slices.Concat(before, lost))
	w.checkBooks(t)
}

// sells lets n buyers buy a card or an eSIM at once.
func (w *world) sells(t *testing.T, n int) (buyers []*buyer) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		b := w.buyer(t)
		b.travelling = i%3 == 1
		buyers = append(buyers, b)
		all.Go(func() {
			if err := b.purchaseOnce(t); err != nil {
				t.Errorf("%s: %v", b.address, err)
			}
		})
	}
	all.Wait()
	return buyers
}
