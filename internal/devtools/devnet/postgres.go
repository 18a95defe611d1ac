package devnet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres is a running PostgreSQL that only this machine's users can reach, by a unix socket.
type Postgres struct {
	place     pgPlace
	data      string   // empty when another process owns the server
	child     *child   // nil when another process owns the server
	killed    bool     // by Kill
	lock      *os.File // held while this process owns the server
	temporary []string // folders that Close removes
}

// PostgresConfig says where the database lives.
type PostgresConfig struct {
	// Dir keeps the data, in a folder named for the major version that made it. Empty means a temporary one. A second
	// start in the same Dir joins the server that runs there.
	Dir string
	// Throwaway gives up durability for speed: what is written may be lost in a crash. For tests.
	Throwaway bool
	// Programs is the folder of PostgreSQL's programs; empty is the first one that is found.
	Programs string
	// Settings are more of the server's, each as name=value.
	Settings []string
	Log      *slog.Logger // nil discards
}

const (
	pgUser     = "app"
	pgDatabase = "roamcard"
	pgPort     = 5432 // a part of the socket's name only
)

// StartPostgres starts a server, made if Dir has none yet, and returns when it answers and has the database. ctx bounds
// the start only; the server runs until Close or until this process dies, except that one joined runs as long as its
// owner.
func StartPostgres(ctx context.Context, cfg PostgresConfig) (*Postgres, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cfg.Log = orDiscard(cfg.Log)
	p := &Postgres{}
	err := p.start(ctx, cfg)
	if err == nil {
		err = p.place.createDatabase(ctx)
	}
	if err != nil {
		p.Close() // err says why
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return p, nil
}

// URL is the database's address for pgx and other clients of libpq's kind.
func (p *Postgres) URL() string { return p.place.url(pgDatabase) }

// Data is the folder of the server's files; of a joined server it is empty.
func (p *Postgres) Data() string { return p.data }

// Socket is the folder of the server's socket.
func (p *Postgres) Socket() string { return p.place.socket }

// Kill ends the server and its sessions at once, as a loss of power does, and waits for the server's end. Close still
// has to be called.
func (p *Postgres) Kill() error {
	if p.child == nil {
		return errors.New("kill PostgreSQL: another process owns the server")
	}
	if err := killFamily(p.child.cmd.Process); err != nil {
		return fmt.Errorf("kill PostgreSQL: %w", err)
	}
	<-p.child.done
	p.killed = true
	return nil
}

// Done is closed when the server's process has ended, asked to or not; of a joined server, never.
func (p *Postgres) Done() <-chan struct{} {
	if p.child == nil {
		return nil
	}
	return p.child.done
}

// Close stops the server, cutting its connections, and waits for its end. A joined server goes on. A second call does
// nothing more.
func (p *Postgres) Close() error {
	var err error
	if p.child != nil && !p.killed {
		err = p.child.stop()
	}
	for _, dir := range p.temporary {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if p.lock != nil {
		p.lock.Close()
	}
	return err
}

func (p *Postgres) start(ctx context.Context, cfg PostgresConfig) error {
	dir, err := p.folder(cfg.Dir)
	if err != nil {
		return err
	}
	if p.lock, p.place, err = ownOrJoin(ctx, dir); err != nil || p.lock == nil {
		return err
	}
	data, major, err := existingData(dir)
	if err != nil {
		return err
	}
	accounts, err := accountsFor(data, dir)
	if err != nil {
		return err
	}
	bin, err := findPostgres(cfg.Programs, major, accounts)
	if err != nil {
		return err
	}
	if major == 0 {
		data = filepath.Join(dir, "pg"+strconv.Itoa(bin.major))
		if err := initData(ctx, bin, data, cfg); err != nil {
			return err
		}
	}
	if err := clearOrphan(ctx, data); err != nil {
		return err
	}
	socket, err := p.socketFolder(dir, bin.who)
	if err != nil {
		return err
	}
	p.place, p.data = pgPlace{socket: socket, port: pgPort}, data
	return p.serve(ctx, bin, data, cfg)
}

// folder returns the absolute folder that holds everything, making it when it is missing.
func (p *Postgres) folder(dir string) (string, error) {
	if dir == "" {
		dir, err := os.MkdirTemp("", "roamcard-pg-")
		if err != nil {
			return "", fmt.Errorf("make data folder: %w", err)
		}
		p.temporary = append(p.temporary, dir)
		return dir, os.Chmod(dir, 0o755)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find data folder: %w", err)
	}
	_, missing := os.Stat(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make data folder: %w", err)
	}
	if missing != nil {
		// Whatever the umask: the account must get through. The data lie below, in a folder of mode 0700.
		return dir, os.Chmod(dir, 0o755)
	}
	return dir, nil
}

// socketPathLimit is below what every system allows for a unix socket's path.
const socketPathLimit = 100

// socketFolder makes the private folder of the socket: next to the data, or in the temporary folder when that path is
// too long.
func (p *Postgres) socketFolder(dir string, who account) (string, error) {
	socket := filepath.Join(dir, "socket")
	err := os.Mkdir(socket, 0o700)
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	if len(pgPlace{socket, pgPort}.path())+len(".lock") >= socketPathLimit {
		if socket, err = os.MkdirTemp("", "rc-pg-"); err == nil {
			p.temporary = append(p.temporary, socket)
		}
	}
	if err == nil {
		err = who.give(socket)
	}
	if err != nil {
		return "", fmt.Errorf("make socket folder: %w", err)
	}
	return socket, nil
}

// serve starts the server on the data and waits until it answers.
func (p *Postgres) serve(ctx context.Context, bin pgBinaries, data string, cfg PostgresConfig) error {
	args := []string{"-D", data}
	for _, setting := range append(pgSettings(p.place, cfg.Throwaway), cfg.Settings...) {
		args = append(args, "-c", setting)
	}
	for {
		var err error
		if p.child, err = startChild("postgres", bin.command("postgres", args...), cfg.Log); err != nil {
			return err
		}
		if err = p.child.until(ctx, p.place.ping); err == nil {
			return nil
		}
		p.child.stop() // it failed already, and err says why
		// After a kill of the server alone its sessions need a moment to notice, and hold the shared memory until then.
		if !strings.Contains(err.Error(), "shared memory block") || ctx.Err() != nil {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func pgSettings(place pgPlace, throwaway bool) []string {
	settings := []string{
		"listen_addresses=",
		`unix_socket_directories="` + strings.ReplaceAll(place.socket, `"`, `""`) + `"`,
		"unix_socket_permissions=0700",
		"port=" + strconv.Itoa(place.port),
		"max_connections=600",
		"logging_collector=off",
		"log_destination=stderr",
	}
	if throwaway {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off")
	}
	return settings
}

// pgPlace is where a server listens.
type pgPlace struct {
	socket string // the socket's folder
	port   int
}

func (p pgPlace) path() string {
	return filepath.Join(p.socket, ".s.PGSQL."+strconv.Itoa(p.port))
}

func (p pgPlace) url(database string) string {
	query := url.Values{"host": {p.socket}, "port": {strconv.Itoa(p.port)}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User(pgUser), Path: "/" + database, RawQuery: query.Encode()}
	return u.String()
}

// connect opens a connection to the database every server has.
func (p pgPlace) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, p.url("postgres"))
}

func (p pgPlace) ping(ctx context.Context) error {
	conn, err := p.connect(ctx)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func (p pgPlace) createDatabase(ctx context.Context) error {
	conn, err := p.connect(ctx)
	if err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	defer conn.Close(ctx)
	var exists bool
	find := "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"
	if err := conn.QueryRow(ctx, find, pgDatabase).Scan(&exists); err != nil {
		return fmt.Errorf("look for database: %w", err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgDatabase); err != nil && !isDuplicateDatabase(err) {
		return fmt.Errorf("create database: %w", err)
	}
	return nil
}
