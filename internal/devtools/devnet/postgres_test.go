package devnet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// pgTestDir is a folder that the account PostgreSQL runs as can reach, which t.TempDir is not for root.
func pgTestDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "devnet-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// made is the folder of a server that was made and has ended.
var made struct {
	sync.Once
	dir string
	err error
}

// pgMadeDir is pgTestDir with the data of a new server in it: making them takes longer than most tests.
func pgMadeDir(t *testing.T) string {
	t.Helper()
	if len(pgFolders("")) == 0 {
		t.Skip("PostgreSQL is not installed")
	}
	made.Do(func() {
		if made.dir, made.err = os.MkdirTemp("", "pg-made-"); made.err != nil {
			return
		}
		// The server may run as another user.
		if made.err = os.Chmod(made.dir, 0o755); made.err != nil {
			return
		}
		pg, err := StartPostgres(context.Background(), PostgresConfig{Dir: made.dir, Throwaway: true})
		if err == nil {
			err = pg.Close()
		}
		made.err = err
	})
	if made.err != nil {
		t.Fatal(made.err)
	}
	dir := pgTestDir(t)
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", made.dir+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

func startPostgresForTest(t *testing.T, cfg PostgresConfig) *Postgres {
	t.Helper()
	if len(pgFolders("")) == 0 {
		t.Skip("PostgreSQL is not installed")
	}
	pg, err := StartPostgres(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	})
	return pg
}

func query[V any](t *testing.T, url, sql string) V {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var v V
	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// note writes a line into the database.
func note(t *testing.T, url, text string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS notes (text text)"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "INSERT INTO notes VALUES ($1)", text); err != nil {
		t.Fatal(err)
	}
}

func wantNotes(t *testing.T, url, want string) {
	t.Helper()
	if got := query[string](t, url, "SELECT string_agg(text, ',') FROM notes"); got != want {
		t.Errorf("notes are %q, want %q", got, want)
	}
}

func TestKilledPostgresLosesNothingThatWasCommitted(t *testing.T) {
	dir := pgMadeDir(t)
	pg := startPostgresForTest(t, PostgresConfig{Dir: dir, Settings: []string{"work_mem=7MB"}})
	if got := query[string](t, pg.URL(), "SHOW work_mem"); got != "7MB" {
		t.Errorf("work_mem is %s", got)
	}
	note(t, pg.URL(), "kept")
	open, err := pgx.Connect(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := open.Ping(t.Context()); err == nil {
		t.Error("a session outlives its server")
	}
	if err := pg.Close(); err != nil {
		t.Errorf("close what was killed: %v", err)
	}
	wantNotes(t, startPostgresForTest(t, PostgresConfig{Dir: dir}).URL(), "kept")
}

func TestEveryInstalledPostgresServesAndContinues(t *testing.T) {
	folders := pgFolders("")
	if len(folders) == 0 {
		t.Skip("PostgreSQL is not installed")
	}
	if os.Getenv("ROAMCARD_TORTURE") == "" {
		folders = folders[:1] // make torture starts each
	}
	for _, bin := range folders {
		t.Run(strings.ReplaceAll(strings.Trim(bin, "/"), "/", "_"), func(t *testing.T) {
			t.Setenv("ROAMCARD_PG_BIN", bin)
			dir := pgTestDir(t)
			first := startPostgresForTest(t, PostgresConfig{Dir: dir})
			note(t, first.URL(), "kept")
			got := map[string]string{}
			for _, name := range []string{"current_database()", "current_user", "current_setting('fsync')",
				"current_setting('max_connections')", "current_setting('listen_addresses')", "current_setting('server_encoding')"} {
				got[name] = query[string](t, first.URL(), "SELECT "+name+"::text")
			}
			want := map[string]string{"current_database()": "roamcard", "current_user": "app", "current_setting('fsync')": "on",
				"current_setting('max_connections')": "600", "current_setting('listen_addresses')": "",
				"current_setting('server_encoding')": "UTF8"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "socket", ".s.PGSQL.5432")); err == nil {
				t.Error("the socket is still there after Close")
			}

			t.Setenv("ROAMCARD_PG_BIN", "") // the data choose the version now
			wantNotes(t, startPostgresForTest(t, PostgresConfig{Dir: dir}).URL(), "kept")
		})
	}
}

func TestPostgresLeavesDataOfAnotherVersion(t *testing.T) {
	dir := pgMadeDir(t)
	startPostgresForTest(t, PostgresConfig{Dir: dir, Throwaway: true}).Close()
	data, _, err := existingData(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pg, err := StartPostgres(t.Context(), PostgresConfig{Dir: dir})
	if err == nil {
		pg.Close()
		t.Fatal("it started on data of version 99")
	}
	if !strings.Contains(err.Error(), "PostgreSQL 99, which made the data folder") {
		t.Errorf("the error does not say which version is missing: %v", err)
	}
}

func TestThrowawayPostgresIsNotDurableAndLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", pgTestDir(t))
	pg := startPostgresForTest(t, PostgresConfig{Throwaway: true})
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		if got := query[string](t, pg.URL(), "SELECT current_setting('"+setting+"')"); got != "off" {
			t.Errorf("%s is %s, want off", setting, got)
		}
	}
	if err := pg.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

func TestSecondStartJoinsTheRunningServer(t *testing.T) {
	dir := pgMadeDir(t)
	owner := startPostgresForTest(t, PostgresConfig{Dir: dir, Throwaway: true})
	note(t, owner.URL(), "one")
	guest := startPostgresForTest(t, PostgresConfig{Dir: dir})
	wantNotes(t, guest.URL(), "one")
	if err := guest.Close(); err != nil {
		t.Fatal(err)
	}
	wantNotes(t, owner.URL(), "one")
}

func TestPostgresStartsAgainAfterAKill(t *testing.T) {
	dir := pgMadeDir(t)
	killed := startPostgresToKill(t, PostgresConfig{Dir: dir})
	note(t, killed.URL(), "durable")
	if err := killed.child.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-killed.Done()
	if err := killed.Close(); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("Close hides that the server had ended: %v", err)
	}
	wantNotes(t, startPostgresForTest(t, PostgresConfig{Dir: dir}).URL(), "durable")
}

// startPostgresToKill leaves closing to the test.
func startPostgresToKill(t *testing.T, cfg PostgresConfig) *Postgres {
	t.Helper()
	if len(pgFolders("")) == 0 {
		t.Skip("PostgreSQL is not installed")
	}
	pg, err := StartPostgres(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return pg
}

func TestPidFileOfAnotherProgramIsStale(t *testing.T) {
	dir := pgMadeDir(t)
	startPostgresForTest(t, PostgresConfig{Dir: dir, Throwaway: true}).Close()
	data, _, err := existingData(dir)
	if err != nil {
		t.Fatal(err)
	}
	// In a restarted container the old server's number is soon somebody else's: here this test's.
	socket := filepath.Join(dir, "socket")
	stale := fmt.Sprintf("%d\n%s\n1\n%d\n%s\n\n1 1\nready   \n", os.Getpid(), data, pgPort, socket)
	if err := os.WriteFile(pidPath(data), []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(socket, ".s.PGSQL.5432.lock"), []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	startPostgresForTest(t, PostgresConfig{Dir: dir, Throwaway: true})
}

func TestDeepFolderGetsAShortSocketPath(t *testing.T) {
	dir := filepath.Join(pgTestDir(t), strings.Repeat("deep/", 20), "a folder, with \"odd\" characters [x]")
	pg := startPostgresForTest(t, PostgresConfig{Dir: dir, Throwaway: true})
	if n := len(pg.place.path()); n >= socketPathLimit {
		t.Errorf("the socket's path is %d bytes long", n)
	}
	if got := query[int](t, pg.URL(), "SELECT 1"); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
}

func TestPostgresRunsWhereOnlyRootMayEnter(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := filepath.Join(t.TempDir(), "db") // below a folder of mode 0700
	private := reachable(filepath.Dir(dir), account{mode: asUser, uid: nobody, gid: nobody})
	if private == nil {
		t.Fatal("the test's folder is open to all")
	}
	pg, err := StartPostgres(t.Context(), PostgresConfig{Dir: dir, Throwaway: true})
	if err != nil {
		// Where namespaces are forbidden, as in many containers, the error must say what to do.
		if !strings.Contains(err.Error(), "use folders outside root's home") {
			t.Errorf("the error gives no advice: %v", err)
		}
		t.Skipf("no user namespaces here: %v", err)
	}
	defer pg.Close()
	if got := query[int](t, pg.URL(), "SELECT 1"); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
	if err := pg.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPostgresOfRootRunsAsAnUnprivilegedUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	pg := startPostgresForTest(t, PostgresConfig{Dir: pgTestDir(t), Throwaway: true})
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pg.child.cmd.Process.Pid))
	if err != nil {
		t.Skip(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != nobody {
		t.Errorf("the server runs as %d, want %d", uid, nobody)
	}
}

func TestLibraryLinksAreFixedWithoutInstallScripts(t *testing.T) {
	native := filepath.Join(t.TempDir(), "native")
	if err := os.MkdirAll(filepath.Join(native, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"lib/libpq.so.5.18": "library",
		"pg-symlinks.json":  `[{"source":"native/lib/libpq.so.5.18","target":"native/lib/libpq.so.5"}]`,
	} {
		if err := os.WriteFile(filepath.Join(native, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time it finds them made
		if err := fixSymlinks(native); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(native, "lib/libpq.so.5")); err != nil || string(got) != "library" {
		t.Errorf("through the link: %q, %v", got, err)
	}
	evil := `[{"source":"native/lib/libpq.so.5.18","target":"../../etc/x"}]`
	if err := os.WriteFile(filepath.Join(native, "pg-symlinks.json"), []byte(evil), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fixSymlinks(native); err == nil {
		t.Error("a link out of the package was made")
	}
}
