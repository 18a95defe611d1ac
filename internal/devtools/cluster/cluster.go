package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// cluster is everything that runs.
type cluster struct {
	*topology
	// roamcard is the program that is tried, with its path; say prints a line.
	roamcard string
	say      func(format string, args ...any)

	etcd, patroni, servers, workers []*process
	haproxy, pgbouncer              *process
	// started are all.
	started []*process
}

// up starts everything, each once what it needs answers.
func (c *cluster) up(ctx context.Context) error {
	for _, part := range []struct {
		what  string
		start func(context.Context) error
	}{
		{"three members of etcd", c.startEtcd},
		{"two PostgreSQL under Patroni, the second a synchronous standby", c.startPatroni},
		{"HAProxy, before the API and the primary", c.startHAProxy},
		{"PgBouncer, in transaction mode", c.startPgBouncer},
		{"the development chain and the sandbox providers", c.startOutside},
		{"the migration, directly and not through PgBouncer", c.migrate},
		{"two servers and two workers", c.startService},
	} {
		c.say("starts %s", part.what)
		if err := part.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// down ends everything: first what needs others, each kind at once.
func (c *cluster) down() error {
	var errs []error
	outside := slices.DeleteFunc(slices.Clone(c.started), func(p *process) bool {
		return slices.Contains(slices.Concat(c.servers, c.workers, c.patroni, c.etcd), p)
	})
	for _, kind := range [][]*process{slices.Concat(c.servers, c.workers), outside, c.patroni, c.etcd} {
		ended := make(chan error)
		for _, p := range kind {
			go func() { ended <- p.stop() }()
		}
		for range kind {
			errs = append(errs, <-ended)
		}
	}
	return errors.Join(errs...)
}

// run starts one process. It is known by its name.
func (c *cluster) run(name string, servant bool, env []string, args ...string) (*process, error) {
	p := &process{name: name, args: args, env: env, servant: servant, log: filepath.Join(c.Dir, "log", name+".log")}
	if err := p.start(); err != nil {
		return nil, err
	}
	c.started = append(c.started, p)
	return p, nil
}

func (c *cluster) startEtcd(ctx context.Context) error {
	path, err := program("etcd")
	if err != nil {
		return err
	}
	var members []string
	for i, m := range c.Etcd {
		members = append(members, m.Name+"=http://"+c.EtcdPeers[i])
	}
	for i, m := range c.Etcd {
		client, peer := "http://"+m.Addr, "http://"+c.EtcdPeers[i]
		p, err := c.run(m.Name, true, nil, path, "--name", m.Name, "--data-dir", filepath.Join(c.Dir, "etcd", m.Name),
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(members, ","), "--initial-cluster-state", "new",
			// All share the processors of one machine.
			"--heartbeat-interval", "250", "--election-timeout", "2500")
		if err != nil {
			return err
		}
		c.etcd = append(c.etcd, p)
	}
	return c.etcdHealthy(ctx)
}

// etcdHealthy waits until every member answers and knows a leader.
func (c *cluster) etcdHealthy(ctx context.Context) error {
	for i, p := range c.etcd {
		if err := p.until(ctx, "wait until it is healthy", answers("http://"+c.Etcd[i].Addr+"/health")); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) startPatroni(ctx context.Context) error {
	path, err := program("patroni")
	if err != nil {
		return err
	}
	for _, n := range c.Nodes {
		p, err := c.run(n.Name, true, []string{"LC_ALL=C"}, path, c.conf(n.Name+".yml"))
		if err != nil {
			return err
		}
		c.patroni = append(c.patroni, p)
	}
	return c.replicated(ctx)
}

func (c *cluster) startHAProxy(ctx context.Context) error {
	path, err := program("haproxy")
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, path, "-c", "-f", c.conf("haproxy.cfg")).CombinedOutput(); err != nil {
		return fmt.Errorf("check haproxy.cfg: %w: %s", err, out)
	}
	if c.haproxy, err = c.run("haproxy", false, nil, path, "-db", "-f", c.conf("haproxy.cfg")); err != nil {
		return err
	}
	if err := c.haproxy.until(ctx, "wait until it knows the primary", c.routed); err != nil {
		return err
	}
	// As whom Patroni has made the database's owner. Neither who migrates nor who serves is a superuser.
	return c.haproxy.until(ctx, "make the database", func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, c.database(c.Primary, "postgres"))
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		for _, statement := range []string{
			fmt.Sprintf("CREATE ROLE roamcard LOGIN PASSWORD '%s'", c.Password),
			fmt.Sprintf("CREATE ROLE roamcard_service LOGIN PASSWORD '%s'", c.Password),
			"CREATE DATABASE roamcard OWNER roamcard",
		} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// routed succeeds when HAProxy sends the database's clients to one server. It takes each for a primary until it has
// asked.
func (c *cluster) routed(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(c.Dir, "haproxy.sock"))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("show stat\n")); err != nil {
		return err
	}
	table, err := io.ReadAll(conn)
	if err != nil {
		return err
	}
	return onePrimary(string(table))
}

// onePrimary reads HAProxy's table of servers.
func onePrimary(table string) error {
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(strings.TrimSpace(table), "# "))).ReadAll()
	if err != nil {
		return fmt.Errorf("read HAProxy's table: %w", err)
	}
	if len(rows) == 0 || !slices.Contains(rows[0], "status") {
		return errors.New("HAProxy's table is empty")
	}
	status := slices.Index(rows[0], "status")
	var up []string
	for _, row := range rows[1:] {
		if row[0] == "primary" && row[1] != "FRONTEND" && row[1] != "BACKEND" && strings.HasPrefix(row[status], "UP") {
			up = append(up, row[1])
		}
	}
	if len(up) != 1 {
		return fmt.Errorf("HAProxy takes %d servers for the primary: %s", len(up), strings.Join(up, ", "))
	}
	return nil
}

func (c *cluster) startPgBouncer(ctx context.Context) error {
	path, err := program("pgbouncer")
	if err != nil {
		return err
	}
	if c.pgbouncer, err = c.run("pgbouncer", true, nil, path, c.conf("pgbouncer.ini")); err != nil {
		return err
	}
	return c.pgbouncer.until(ctx, "wait until it answers", c.pooled)
}

// pooled succeeds when the database answers through PgBouncer.
func (c *cluster) pooled(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.PooledURL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.Ping(ctx)
}

func (c *cluster) startOutside(ctx context.Context) error {
	chain, err := c.run("chain", false, nil, c.roamcard, "devnet", "--port", portOf(c.RPC))
	if err != nil {
		return err
	}
	addr := strings.TrimPrefix(c.SandboxURL, "http://")
	sandbox, err := c.run("sandbox", false, nil, c.roamcard, "sandbox", "--addr", addr,
		"--data", filepath.Join(c.Dir, "sandbox"))
	if err != nil {
		return err
	}
	return errors.Join(
		chain.until(ctx, "wait for the chain", c.chainAnswers),
		sandbox.until(ctx, "wait for the providers", answers(c.SandboxURL+"/control/books")),
	)
}

func (c *cluster) migrate(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, c.roamcard, "migrate", "--config", c.conf("roamcard.yaml"))
	cmd.Env = append(withoutSettings(cmd.Environ()), "ROAMCARD_DATABASE__OWNER_URL="+c.OwnerURL())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("migrate: %w: %s", err, out)
	}
	return nil
}

func (c *cluster) startService(ctx context.Context) error {
	config := []string{"--config", c.conf("roamcard.yaml")}
	for _, s := range c.Servers {
		p, err := c.run(s.Name, false, []string{"ROAMCARD_ADDR=" + s.Addr, "ROAMCARD_METRICS__ADDR=" + c.Metrics[s.Name]},
			append([]string{c.roamcard, "serve", "--no-worker"}, config...)...)
		if err != nil {
			return err
		}
		c.servers = append(c.servers, p)
	}
	for _, name := range []string{"worker-1", "worker-2"} {
		p, err := c.run(name, false, []string{"ROAMCARD_METRICS__ADDR=" + c.Metrics[name]},
			append([]string{c.roamcard, "worker"}, config...)...)
		if err != nil {
			return err
		}
		c.workers = append(c.workers, p)
	}
	return c.whole(ctx)
}

// whole waits until nothing is missing: every process answers, and the standby has what the primary has.
func (c *cluster) whole(ctx context.Context) error {
	if err := c.etcdHealthy(ctx); err != nil {
		return err
	}
	if err := c.replicated(ctx); err != nil {
		return err
	}
	if err := c.pgbouncer.until(ctx, "wait until it answers", c.pooled); err != nil {
		return err
	}
	for i, p := range c.servers {
		if err := p.until(ctx, "wait until it is ready", answers("http://"+c.Servers[i].Addr+"/ready")); err != nil {
			return err
		}
	}
	for _, p := range c.workers {
		if err := p.until(ctx, "wait until it works", answers("http://"+c.Metrics[p.name]+"/metrics")); err != nil {
			return err
		}
	}
	return c.haproxy.until(ctx, "wait until it has a server", answers(c.URL()+"/ready"))
}
