package crash_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// newServer starts a durable PostgreSQL of the test's own in a folder that is short enough for a socket.
func newServer(t *testing.T, c devnet.PostgresConfig) *devnet.Postgres {
	t.Helper()
	if c.Dir == "" {
		c.Dir = serverFolder(t)
	}
	server, err := devnet.StartPostgres(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() }) // it may have been killed
	return server
}

func serverFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // the server may run as another user
		t.Fatal(err)
	}
	return dir
}

// on runs statements at a server.
func on(t *testing.T, server *devnet.Postgres, statements ...string) {
	t.Helper()
	conn := connect(t, server.URL())
	defer func() { _ = conn.Close(t.Context()) }()
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// copyServer copies the files of a running server as a base backup does.
func copyServer(t *testing.T, server *devnet.Postgres, into string) {
	t.Helper()
	conn := connect(t, server.URL())
	defer func() { _ = conn.Close(t.Context()) }()
	t.Cleanup(func() { _ = os.RemoveAll(into) })
	if _, err := conn.Exec(t.Context(), "SELECT pg_backup_start('copy', true)"); err != nil {
		t.Fatal(err)
	}
	shell(t, "cp", "-a", server.Data(), into)
	var label string
	if err := conn.QueryRow(t.Context(), "SELECT labelfile FROM pg_backup_stop()").Scan(&label); err != nil {
		t.Fatal(err)
	}
	shell(t, "cp", "-a", filepath.Join(server.Data(), "pg_wal")+"/.", filepath.Join(into, "pg_wal"))
	if err := os.Remove(filepath.Join(into, "postmaster.pid")); err != nil { // the running one's
		t.Fatal(err)
	}
	writeServerFile(t, into, "backup_label", label)
}

// recovering makes copied files those of a server that recovers when it starts, as the file of that name says.
func recovering(t *testing.T, data, signal string, settings ...string) {
	t.Helper()
	writeServerFile(t, data, signal, "")
	conf, err := os.OpenFile(filepath.Join(data, "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conf.WriteString(strings.Join(settings, "\n") + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := conf.Close(); err != nil {
		t.Fatal(err)
	}
}

// writeServerFile writes a file that belongs to the server's user.
func writeServerFile(t *testing.T, data, name, text string) {
	t.Helper()
	shell(t, "cp", "-a", filepath.Join(data, "PG_VERSION"), filepath.Join(data, name)) // for its owner
	if err := os.WriteFile(filepath.Join(data, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replicated is a primary and a standby that follows it by streaming replication.
type replicated struct {
	primary, standby *devnet.Postgres
	// url names both.
	url string
}

// replicate starts two servers. When synchronous, no commit is acknowledged before the standby has it.
func replicate(t *testing.T, synchronous bool) replicated {
	t.Helper()
	r := replicated{primary: newServer(t, devnet.PostgresConfig{})}
	dir := serverFolder(t)
	data := filepath.Join(dir, filepath.Base(r.primary.Data()))
	copyServer(t, r.primary, data)
	recovering(t, data, "standby.signal",
		"primary_conninfo = 'host="+r.primary.Socket()+" port=5432 user=app application_name=standby'")
	r.standby = newServer(t, devnet.PostgresConfig{Dir: dir})
	if synchronous {
		on(t, r.primary, "ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (standby)'", "SELECT pg_reload_conf()")
	}
	conn := connect(t, r.primary.URL())
	defer func() { _ = conn.Close(t.Context()) }()
	apptest.Await(t, "the standby follows", func() error {
		var following bool
		if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_replication
			WHERE state = 'streaming' AND (sync_state = 'sync') = $1)`, synchronous).Scan(&following); err != nil {
			return err
		}
		if !following {
			return context.DeadlineExceeded
		}
		return nil
	})
	u, err := url.Parse(r.primary.URL())
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("host", r.primary.Socket()+","+r.standby.Socket())
	query.Set("port", "5432,5432")
	query.Set("target_session_attrs", "read-write")
	u.RawQuery = query.Encode()
	r.url = u.String()
	return r
}

// cut keeps the standby from following any further.
func (r replicated) cut(t *testing.T) {
	t.Helper()
	file := filepath.Join(r.primary.Data(), "pg_hba.conf")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "replication") {
			kept = append(kept, line)
		}
	}
	if err := os.WriteFile(file, []byte(strings.Join(kept, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	on(t, r.primary, "SELECT pg_reload_conf()",
		"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_replication")
}

func shell(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}
