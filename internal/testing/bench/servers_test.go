package bench

import (
	"bytes"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/secret"
)

// opening is how long the buyers of BenchmarkServers buy.
const opening = 30 * time.Second

// market is what the servers of BenchmarkServers have in common.
type market struct {
	name  string
	chain devnet.ChainConfig
	// relayers is how many keys settle, and customers how many buyers the servers have in all.
	relayers, customers int
	// servers are the numbers of servers that are measured in turn.
	servers []int
}

// BenchmarkServers has as many buyers purchase cards from one server and from three, which share a database, relayer
// keys and a chain: one with a block for each transaction, and one with a block every 2 s and so many keys that it does
// not set the pace; and from one with a single key, for what a purchase costs the server. Each server is a process that
// serves and works; the buyers, the database, the chain and the issuer are on the same cores.
func BenchmarkServers(b *testing.B) {
	program := build(b)
	public := devnet.ChainConfig{BlockEvery: baseBlock, OnlyEvery: true}
	for _, m := range []market{
		{"instant", devnet.ChainConfig{BlockEvery: time.Second}, 16, 48, []int{1, 3}},
		{"blocks", public, 16, 240, []int{1, 3}},
		{"onekey", public, 1, 600, []int{1}},
	} {
		for _, servers := range m.servers {
			b.Run(m.name+"/"+strconv.Itoa(servers), func(b *testing.B) {
				for b.Loop() {
					buyFromServers(b, program, m, servers)
				}
			})
		}
	}
}

// build builds the program.
func build(b *testing.B) (program string) {
	b.Helper()
	program = filepath.Join(b.TempDir(), "roamcard")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", program,
		"../../../cmd/roamcard").CombinedOutput(); err != nil {
		b.Fatalf("build the program: %v\n%s", err, out)
	}
	return program
}

func buyFromServers(b *testing.B, program string, m market, servers int) {
	p := newProgramOn(b, m.chain)
	p.fund(b, 1_000_000_00)
	node, err := rpc.DialContext(b.Context(), p.chain.RPCURL)
	if err != nil {
		b.Fatal(err)
	}
	defer node.Close()
	bank := relaying{node: node}
	for len(p.config.RelayerKeys) < m.relayers {
		key := newKey(b)
		bank.call(b, nil, "anvil_setBalance", addressOf(key).String(), hexutil.EncodeBig(big.NewInt(1e18)))
		p.config.RelayerKeys = append(p.config.RelayerKeys, secret.New(hexutil.Encode(crypto.FromECDSA(key))))
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: m.customers}}
	defer client.CloseIdleConnections()
	crowds, pids := make([]*crowd, servers), make([]int, servers)
	for i := range crowds {
		var addr string
		addr, pids[i] = launch(b, p.config, program)
		ask(b, addr, "/api/card/purchase")
		crowds[i] = &crowd{B: b, addr: addr, bank: bank, client: client}
	}
	ticksBefore, callsBefore, commitsBefore := ticks(b, pids), asked(p.chain), commits(b, p.db)
	end := time.Now().Add(opening)
	var all sync.WaitGroup
	for _, c := range crowds {
		c.end = end
		for range m.customers / servers {
			all.Go(c.shop)
		}
	}
	all.Wait()
	spent, calls := ticks(b, pids)-ticksBefore, asked(p.chain)-callsBefore
	transactions := commits(b, p.db) - commitsBefore
	var took []time.Duration
	unknown, failed := 0, 0
	for _, c := range crowds {
		took = append(took, c.took...)
		unknown, failed = unknown+c.unknown, failed+c.failed
	}
	b.ReportMetric(float64(len(took))/opening.Seconds(), "settled/s")
	b.ReportMetric(float64(unknown), "unknown")
	b.ReportMetric(float64(failed), "failed")
	b.ReportMetric(float64(spent)*10/float64(max(len(took), 1)), "cpu-ms/settled")
	b.ReportMetric(float64(calls)/float64(max(len(took), 1)), "calls/settled")
	b.ReportMetric(float64(transactions)/float64(max(len(took), 1)), "transactions/settled")
	if slices.Sort(took); len(took) > 0 {
		b.ReportMetric(took[len(took)/2].Seconds(), "p50-s")
		b.ReportMetric(took[len(took)*99/100].Seconds(), "p99-s")
	}
}

// commits is how many transactions of a database have ended, but for those of the last second.
func commits(b *testing.B, db string) (n int) {
	b.Helper()
	row(b, db, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()", &n)
	return n
}

// ticks is the processor time that processes have used, in hundredths of a second.
func ticks(b *testing.B, pids []int) (sum int) {
	b.Helper()
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Skipf("no /proc: %v", err)
		}
		// After the name, in parentheses, utime and stime are the twelfth and thirteenth.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, field := range fields[11:13] {
			n, err := strconv.Atoi(field)
			if err != nil {
				b.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}
