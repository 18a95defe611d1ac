package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

func TestCompareFindsMoneyWithoutOrdersAndSharedOrders(t *testing.T) {
	two := []bought{{Order: "a", Amount: 2500}, {Order: "b", Amount: 350}}
	shared := []bought{{Order: "a", Amount: 2500}, {Order: "a", Amount: 350}}
	for name, tt := range map[string]struct {
		has  roamcard.USDC
		all  []bought
		want string
	}{
		"as it should be": {28_500_000, two, ""},
		"paid twice":      {53_500_000, two, "2 purchases cost 28.500000 USDC, and 53.500000 arrived"},
		"not paid":        {25_000_000, two, "and 25.000000 arrived"},
		"a shared order":  {28_500_000, shared, "two purchases were told of order a"},
		"nothing":         {0, nil, "nothing was bought"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := compare(tt.has, tt.all)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestForeignFolderIsNotEmptied(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "somebody's")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := empty(dir); err == nil {
		t.Error("a folder with other files is taken")
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	own := filepath.Join(dir, "own")
	if err := empty(own); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(own, "log", "old.log")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := empty(own); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("what the last run left is still there: %v", err)
	}
}

func TestEveryProcessHasAPortOfItsOwn(t *testing.T) {
	c, err := newTopology(t.TempDir(), "/usr/bin", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	all := append([]string{c.API, c.Primary, c.Pool, c.RPC, strings.TrimPrefix(c.SandboxURL, "http://")}, c.EtcdPeers...)
	for _, e := range append(slices.Clone(c.Servers), c.Etcd...) {
		all = append(all, e.Addr)
	}
	for _, n := range c.Nodes {
		all = append(all, n.Addr, n.REST)
	}
	for _, addr := range c.Metrics {
		all = append(all, addr)
	}
	for _, addr := range all {
		host, _, err := net.SplitHostPort(addr)
		if err != nil || host != "127.0.0.1" {
			t.Errorf("%q is not on loopback", addr)
		}
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 21 {
		t.Errorf("%d addresses, want 21", n)
	}
}

func TestEnvironmentOfTheCallerSetsNothing(t *testing.T) {
	got := withoutSettings([]string{"PATH=/bin", "ROAMCARD_LIMITS=off", "PGHOST=elsewhere"})
	if !slices.Equal(got, []string{"PATH=/bin"}) {
		t.Errorf("%q", got)
	}
}

func TestNewestPostgresIsTaken(t *testing.T) {
	dir := t.TempDir()
	install := func(version string) {
		t.Helper()
		at := filepath.Join(dir, version, "bin")
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "pg_rewind"), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	pattern := filepath.Join(dir, "*", "bin")
	install("9")
	if _, err := newest(pattern); err == nil {
		t.Error("a version that is too old is taken")
	}
	install("15")
	install("18")
	if got, err := newest(pattern); err != nil || got != filepath.Join(dir, "18", "bin") {
		t.Errorf("%s, %v", got, err)
	}
}

func TestOneServerIsThePrimary(t *testing.T) {
	const head = "# pxname,svname,qcur,status,weight\nprimary,FRONTEND,,OPEN,\napi,server-1,0,UP,1\n"
	for table, want := range map[string]string{
		head + "primary,postgres-1,0,UP,1\nprimary,postgres-2,0,DOWN,1\nprimary,BACKEND,0,UP,1\n": "",
		// As it begins, before any check.
		head + "primary,postgres-1,0,UP,1\nprimary,postgres-2,0,UP,1\nprimary,BACKEND,0,UP,2\n":     "2 servers",
		head + "primary,postgres-1,0,UP,1\nprimary,postgres-2,0,UP 1/2,1\nprimary,BACKEND,0,UP,2\n": "2 servers",
		head + "primary,postgres-1,0,DOWN,1\nprimary,postgres-2,0,DOWN,1\n":                         "0 servers",
		"": "empty",
	} {
		err := onePrimary(table)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", table, err, want)
		}
	}
}
