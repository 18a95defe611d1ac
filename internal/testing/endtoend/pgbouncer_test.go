package endtoend_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/doctor"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// startPgBouncer runs a PgBouncer in front of a database, which shares each of a few sessions between transactions,
// and returns the address of the database behind it.
func startPgBouncer(t *testing.T, target string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			t.Skip("no PgBouncer here: apt-get install pgbouncer")
		}
	}
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	dir, err := os.MkdirTemp("", "bouncer-") // the test's own folder would be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(config, fmt.Appendf(nil, `[databases]
%s = host=%s port=%s user=%s
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = %s
auth_type = any
pool_mode = transaction
default_pool_size = 6
max_client_conn = 200
`, strings.TrimPrefix(u.Path, "/"), query.Get("host"), query.Get("port"), u.User.Username(), dir), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, config)
	asOwner(t, cmd, query.Get("host"), dir)
	var said lockedBuffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := apptest.StartTied(cmd); err != nil {
		t.Fatalf("start PgBouncer: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
		if t.Failed() {
			t.Logf("PgBouncer %s: %s", cmd.ProcessState, said.String())
		}
	})
	query.Set("host", dir)
	query.Set("port", "6432")
	u.RawQuery = query.Encode()
	eventually(t, func() (bool, string) {
		conn, err := pgx.Connect(t.Context(), u.String())
		if err != nil {
			return false, err.Error() + "\n" + said.String()
		}
		return conn.Close(context.WithoutCancel(t.Context())) == nil, ""
	})
	return u.String()
}

// asOwner runs a command as the owner of the server's socket, whom alone the server lets in, and gives it a folder.
func asOwner(t *testing.T, cmd *exec.Cmd, socket, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	info, err := os.Stat(socket)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 {
		t.Skip("PgBouncer does not run as root")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	if err := errors.Join(os.Chown(dir, int(owner.Uid), int(owner.Gid)), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
}

// TestSalesBehindPgBouncer sells over a pool that goes through PgBouncer, by a server and a worker: cards, an eSIM, and
// a purchase that the worker decides while its buyer waits at the server. What the server hears of it comes by the
// connection that listens at PostgreSQL itself.
func TestSalesBehindPgBouncer(t *testing.T) {
	t.Parallel()
	direct := storetest.URL(t)
	pooled := startPgBouncer(t, direct)
	ear := newOverhearer(t, direct)
	w := newWorld(t, plan{bare: true, databaseURL: direct, chain: ownChain(t), change: func(c *app.Config) {
		c.Wait = 50 * time.Second
		c.DatabaseURL = secret.New(pooled)
		c.Database = app.DatabaseConfig{QueryMode: "cache_describe", MaxConns: 16}
	}})
	server, worker := w.config, w.config
	server.NoWorker, worker.NoServer = true, true
	server.Database.ListenURL, worker.Database.ListenURL = secret.New(ear.url), secret.New(direct)
	w.start(worker)
	w.start(server)
	w.instances = w.instances[1:] // the worker takes no requests
	w.awaitReady(w.instances[0])

	b := w.buyer()
	first := purchase("pooled", header(t, b.payment()))
	w.pauseMining()
	answered := make(chan answer, 1)
	go func() { answered <- w.send(first) }()
	eventually(t, func() (bool, string) {
		n := w.count("SELECT coalesce(max(attempt), 0) FROM jobs WHERE owner = $1", b.address.Lower())
		return n > 1, fmt.Sprint(n, " runs of the order's job")
	})
	order := queryOne[string](w, "SELECT id FROM orders WHERE owner = $1", b.address.Lower())
	w.resumeMining()
	wantStatus(t, "the buyer who waits", <-answered, 200)
	// It may have found it by polling in the same moment.
	eventually(t, func() (bool, string) {
		return ear.heard("order", order) > 0, "the server did not hear of " + order + " by its listener"
	})
	w.awaitEsimReady(w.instances[0])
	travelling := w.buyer()
	esim := travelling.buyEsim("pooled-esim")
	var buying sync.WaitGroup
	for i := range 8 {
		other := w.buyer()
		buying.Go(func() { other.wantSold(fmt.Sprint("pooled-", i)) })
	}
	buying.Wait()
	w.awaitSettled()
	eventually(t, func() (bool, string) {
		n := w.count("SELECT count(*) FROM orders WHERE status = 'fulfilled' AND id = $1", esim.OrderID)
		return n == 1, "the eSIM is not delivered"
	})
	w.checkBooks()
}

// TestDoctorTellsWhatAPoolerNeeds examines a service behind PgBouncer, first with the settings of one without, and then
// with what the doctor says, one after the other.
func TestDoctorTellsWhatAPoolerNeeds(t *testing.T) {
	direct := storetest.URL(t)
	pooled := startPgBouncer(t, direct)
	w := newWorld(t, plan{bare: true, databaseURL: direct, change: func(c *app.Config) {
		c.DatabaseURL = secret.New(pooled)
	}})
	for _, setting := range w.environment("127.0.0.1:0") {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
	apptest.HideVariables(t)
	examine := func() (failed string, detail, fix map[string]string) {
		t.Helper()
		var out bytes.Buffer
		_ = doctor.Run(t.Context(), doctor.Config{JSON: true, Out: &out}) // the findings say what failed
		var told struct {
			Checks []struct{ Name, Status, Detail, Fix string }
		}
		if err := json.Unmarshal(out.Bytes(), &told); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		detail, fix = map[string]string{}, map[string]string{}
		for _, c := range told.Checks {
			detail[c.Name], fix[c.Name] = c.Detail, c.Fix
			ours := c.Name == "database" || c.Name == "connections" || c.Name == "query mode" || c.Name == "wake-ups" ||
				c.Name == "migrations"
			if ours && c.Status == "fail" {
				failed += c.Name + " "
			}
		}
		return failed, detail, fix
	}
	failed, detail, fix := examine()
	if failed != "query mode " || !strings.Contains(fix["query mode"], "database.query_mode to cache_describe") {
		t.Errorf("with prepared statements: %q, %v", failed, detail)
	}
	t.Setenv("ROAMCARD_DATABASE__QUERY_MODE", "cache_describe")
	failed, detail, fix = examine()
	if failed != "wake-ups " || !strings.Contains(fix["wake-ups"], "set database.listen_url") {
		t.Errorf("deaf: %q, %v", failed, detail)
	}
	t.Setenv("ROAMCARD_DATABASE__LISTEN_URL", direct)
	failed, detail, _ = examine()
	if failed != "" || !strings.Contains(detail["database"], "behind a pooler") {
		t.Errorf("with all that is needed: %q, %v", failed, detail)
	}
	// The server has room for 600 connections, some of them for superusers.
	t.Setenv("ROAMCARD_DATABASE__LISTEN_URL", "")
	t.Setenv("ROAMCARD_DATABASE__QUERY_MODE", "")
	t.Setenv("ROAMCARD_DATABASE__URL", direct)
	t.Setenv("ROAMCARD_DATABASE__MAX_CONNS", "100")
	failed, detail, _ = examine()
	if failed != "" || !strings.Contains(detail["connections"], "enough for 5 processes") {
		t.Errorf("without a pooler: %q, %v", failed, detail)
	}
}

func TestMigrationsAreRefusedBehindAPooler(t *testing.T) {
	t.Parallel()
	pooled := startPgBouncer(t, storetest.URL(t))
	if _, err := store.Migrate(t.Context(), pooled, nil); err == nil || !strings.Contains(err.Error(), "pooler") {
		t.Errorf("migrated through a pooler: %v", err)
	}
}
