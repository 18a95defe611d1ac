package main

import (
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
)

//go:embed conf
var confFiles embed.FS

// end is where a process listens.
type end struct{ Name, Addr string }

// node is one PostgreSQL with its Patroni.
type node struct {
	end
	// REST is where Patroni answers, Dir what the account of the database owns.
	REST, Dir string
}

// RESTPort is the port of REST.
func (n node) RESTPort() string { return portOf(n.REST) }

// topology is where everything is, and the secrets that it is set up with. The files in conf are made of it.
type topology struct {
	// Dir has data, settings and logs; Binaries is the folder of PostgreSQL's programs.
	Dir, Binaries string
	// API is where buyers come to; Primary is the database's primary, and Pool the same through PgBouncer.
	API, Primary, Pool string
	Servers, Etcd      []end
	// EtcdPeers are where the members of etcd reach each other, in their order.
	EtcdPeers []string
	Nodes     []node
	// Node is whose Patroni is set up.
	Node node
	// Metrics are where servers and workers show theirs, by name.
	Metrics    map[string]string
	RPC        string
	SandboxURL string

	Password, QuoteKey, ESIMKey, TokenKey, OperatorToken string
}

// newTopology finds free ports, and makes the secrets.
func newTopology(dir, binaries, api string) (*topology, error) {
	ports, err := freePorts(21)
	if err != nil {
		return nil, err
	}
	next := func() string {
		port := ports[0]
		ports = ports[1:]
		return port
	}
	if strings.HasSuffix(api, ":0") {
		api = next()
	}
	t := &topology{
		Dir: dir, Binaries: binaries, API: api, Primary: next(), Pool: next(), RPC: next(),
		SandboxURL: "http://" + next(), Metrics: map[string]string{},
		Password: secret(), QuoteKey: secret(), ESIMKey: secret(), TokenKey: secret(), OperatorToken: "rco_" + secret(),
	}
	for _, name := range []string{"server-1", "server-2"} {
		t.Servers = append(t.Servers, end{name, next()})
		t.Metrics[name] = next()
	}
	for _, name := range []string{"worker-1", "worker-2"} {
		t.Metrics[name] = next()
	}
	for _, name := range []string{"etcd-1", "etcd-2", "etcd-3"} {
		t.Etcd = append(t.Etcd, end{name, next()})
		t.EtcdPeers = append(t.EtcdPeers, next())
	}
	for _, name := range []string{"postgres-1", "postgres-2"} {
		t.Nodes = append(t.Nodes, node{end{name, next()}, next(), filepath.Join(dir, name)})
	}
	return t, nil
}

// freePorts are loopback addresses that can be bound.
func freePorts(n int) (addrs []string, err error) {
	var open []net.Listener
	defer func() {
		for _, l := range open {
			err = errors.Join(err, l.Close())
		}
	}()
	for range n {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a port: %w", err)
		}
		open = append(open, l)
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

func secret() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails: the program ends when there is no randomness
	return hex.EncodeToString(random)
}

// URL is the service's origin.
func (t *topology) URL() string { return "http://" + t.API }

// RPCURL is the chain's node.
func (t *topology) RPCURL() string { return "http://" + t.RPC }

// PooledURL is the database through PgBouncer, which has no place for prepared statements.
func (t *topology) PooledURL() string {
	return t.database(t.Pool, "roamcard_service") + "?default_query_exec_mode=cache_describe"
}

// DirectURL is the primary by HAProxy alone.
func (t *topology) DirectURL() string { return t.database(t.Primary, "roamcard_service") }

// OwnerURL is the same as who owns the tables: for the migration alone.
func (t *topology) OwnerURL() string { return t.database(t.Primary, "roamcard") }

func (t *topology) database(addr, user string) string {
	name := "roamcard"
	if user == "postgres" {
		name = "postgres"
	}
	return fmt.Sprintf("postgres://%s:%s@%s/%s", user, t.Password, addr, name)
}

// PrimaryHost, PrimaryPort, PoolHost and PoolPort are parts of addresses.
func (t *topology) PrimaryHost() string { return hostOf(t.Primary) }
func (t *topology) PrimaryPort() string { return portOf(t.Primary) }
func (t *topology) PoolHost() string    { return hostOf(t.Pool) }
func (t *topology) PoolPort() string    { return portOf(t.Pool) }

// PayTo is who is paid, RelayerKeys who settles and TreasuryKey who refunds.
func (t *topology) PayTo() string { return devnet.WalletsOf(devnet.RolePayee)[0].Address }

// RelayerKeys are those of the development chain.
func (t *topology) RelayerKeys() string {
	var keys []string
	for _, w := range devnet.WalletsOf(devnet.RoleRelayer) {
		keys = append(keys, w.PrivateKey)
	}
	return strings.Join(keys, ",")
}

// TreasuryKey is the development chain's.
func (t *topology) TreasuryKey() string { return devnet.WalletsOf(devnet.RoleTreasury)[0].PrivateKey }

// SandboxKey is the sandbox's one key, which is public.
func (t *topology) SandboxKey() string { return "sandbox" }

// OperatorHash is what the settings have of the operator's token.
func (t *topology) OperatorHash() string {
	sum := sha256.Sum256([]byte(t.OperatorToken))
	return hex.EncodeToString(sum[:])
}

// marker names the file by which a folder is known to be a cluster's.
const marker = "cluster.of.roamcard"

// empty makes an empty folder of one that is a cluster's, or is not there. It leaves any other alone.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the data folder: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, marker)); len(entries) > 0 && err != nil {
		return fmt.Errorf("%s has files that are no cluster's: name another folder with -data", dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("empty the data folder: %w", err)
	}
	for _, sub := range []string{"conf", "log"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return fmt.Errorf("make the data folder: %w", err)
		}
	}
	return os.WriteFile(filepath.Join(dir, marker), nil, 0o644)
}

// write makes the files of settings, and the folders that the account of the database owns.
func (t *topology) write() error {
	for _, name := range []string{"haproxy.cfg", "pgbouncer.ini", "roamcard.yaml"} {
		if err := t.render(name, name); err != nil {
			return err
		}
	}
	users := fmt.Sprintf("%q %q\n", "roamcard_service", t.Password)
	if err := t.keep("users.txt", []byte(users)); err != nil {
		return err
	}
	for _, n := range t.Nodes {
		of := *t
		of.Node = n
		if err := of.render("patroni.yml", n.Name+".yml"); err != nil {
			return err
		}
	}
	for _, folder := range []string{t.Nodes[0].Dir, t.Nodes[1].Dir, filepath.Join(t.Dir, "etcd")} {
		if err := errors.Join(os.MkdirAll(folder, 0o700), give(folder)); err != nil {
			return fmt.Errorf("make a data folder: %w", err)
		}
	}
	return nil
}

// render makes a file of settings of the template of a name.
func (t *topology) render(from, to string) error {
	parsed, err := template.ParseFS(confFiles, "conf/"+from)
	if err != nil {
		return fmt.Errorf("read the template: %w", err)
	}
	var text strings.Builder
	if err := parsed.Execute(&text, t); err != nil {
		return fmt.Errorf("make %s: %w", to, err)
	}
	return t.keep(to, []byte(text.String()))
}

// keep writes a file of settings, which have secrets.
func (t *topology) keep(name string, text []byte) error {
	path := t.conf(name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return give(path)
}

func (t *topology) conf(name string) string { return filepath.Join(t.Dir, "conf", name) }

func hostOf(addr string) string { host, _, _ := net.SplitHostPort(addr); return host }
func portOf(addr string) string { _, port, _ := net.SplitHostPort(addr); return port }
