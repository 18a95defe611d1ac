// Command cluster runs what packaging/compose.yaml describes on one machine, without containers, and takes one process
// after the other away while it buys.
//
//	buyers ─► HAProxy ─► server-1, server-2 ─► PgBouncer ─► HAProxy ─► the primary of two PostgreSQL under Patroni
//	                     worker-1, worker-2 ─┘                         which three members of etcd agree on
//
// The chain and the providers are those of development. Everything is on loopback.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
	}
	os.Exit(code)
}

// startTimeout bounds the start of everything.
const startTimeout = 3 * time.Minute

// oldestPostgres is the first major version that the service runs on.
const oldestPostgres = 15

// run returns the exit code: 0 when everything survives.
func run(ctx context.Context, args []string) (code int, err error) {
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	dir := flags.String("data", "data/cluster", "folder of data, settings and logs; it is emptied first")
	api := flags.String("addr", "127.0.0.1:8402", "where buyers come to; port 0 picks one")
	binary := flags.String("roamcard", "bin/roamcard", "the program to run")
	binaries := flags.String("postgres", "", "folder of PostgreSQL's programs (default: the newest installed)")
	keep := flags.Bool("keep", false, "leave everything running instead of taking processes away")
	if err := flags.Parse(args); err != nil {
		return 2, nil // it has been told
	}
	c, err := prepare(*dir, *api, *binary, *binaries)
	if err != nil {
		return 1, err
	}
	defer func() {
		if failed := c.down(); failed != nil {
			code, err = 1, errors.Join(err, failed)
		}
	}()
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.up(starting); err != nil {
		return 1, err
	}
	c.introduce()
	if *keep {
		c.say("\nCtrl-C ends everything.")
		<-ctx.Done()
		return 0, nil
	}
	w := &walk{cluster: c, shop: shopper{url: c.URL(), payee: c.PayTo()}}
	if err := w.run(ctx); err != nil {
		w.tell("the walk", "", err)
	}
	c.say("\n%d passed, %d failed", w.passed, w.failed)
	if w.failed > 0 {
		return 1, nil
	}
	return 0, nil
}

// prepare makes the folder and the settings, and starts nothing.
func prepare(dir, api, binary, binaries string) (*cluster, error) {
	binary, err := program(binary)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("name the data folder: %w", err)
	}
	c := &cluster{roamcard: binary, say: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	if err := enterable(dir); err != nil {
		// As in the home of root.
		other := filepath.Join(os.TempDir(), "roamcard-cluster")
		c.say("%v: the data is in %s instead", err, other)
		dir = other
	}
	if binaries == "" {
		if binaries, err = newest("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"); err != nil {
			return nil, err
		}
	}
	if c.topology, err = newTopology(dir, binaries, api); err != nil {
		return nil, err
	}
	if err := empty(dir); err != nil {
		return nil, err
	}
	return c, c.write()
}

// newest is the folder with PostgreSQL's programs of the highest version, with all that Patroni calls.
func newest(patterns ...string) (dir string, err error) {
	best := 0
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(pattern, "pg_rewind"))
		if err != nil {
			return "", fmt.Errorf("look for PostgreSQL: %w", err)
		}
		for _, path := range found {
			// .../postgresql/15/bin/pg_rewind, or .../pgsql-15/bin/pg_rewind.
			digits := regexp.MustCompile(`\d+$`).FindString(filepath.Dir(filepath.Dir(path)))
			if version, err := strconv.Atoi(digits); err == nil && version > best {
				best, dir = version, filepath.Dir(path)
			}
		}
	}
	if best < oldestPostgres {
		return "", fmt.Errorf("PostgreSQL %d or later is not installed; tools/cluster.sh installs it", oldestPostgres)
	}
	return dir, nil
}

// introduce says where everything is.
func (c *cluster) introduce() {
	c.say("\n  API            %s, by HAProxy, from %s and %s", c.URL(), c.Servers[0].Addr, c.Servers[1].Addr)
	c.say("  database       %s, by PgBouncer; the primary at %s, by HAProxy", c.Pool, c.Primary)
	c.say("  Patroni        http://%s/cluster, http://%s/cluster", c.Nodes[0].REST, c.Nodes[1].REST)
	c.say("  metrics        http://%s/metrics, and three more", c.Metrics["server-1"])
	c.say("  chain          %s", c.RPCURL())
	c.say("  providers      %s/control/books", c.SandboxURL)
	c.say("  settings       %s", c.conf("roamcard.yaml"))
	c.say("  logs           %s", filepath.Join(c.Dir, "log"))
	c.say("  operator       export ROAMCARD_URL=%s ROAMCARD_OPERATOR_TOKEN=%s\n", c.URL(), c.OperatorToken)
}
