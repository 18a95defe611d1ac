// Package devnet runs the managed children of development and tests: an EVM chain that looks like Base with USDC on
// it, and a PostgreSQL in a folder of its own.
package devnet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/roamcard/roamcard/internal/outward"
)

// Chain is a running development chain on loopback: anvil with Base's id and, at Base's address, a token that behaves
// as USDC, behind a node that refuses what public nodes refuse. What is signed for it is valid on Base too, so only the
// keys of Wallets may be used.
type Chain struct {
	RPCURL  string
	ChainID int64
	USDC    string

	anvil string
	front *publicNode
	child *child
	keep  *stateKeeper
	lock  *os.File
}

// ChainConfig says where the chain lives and how it makes blocks.
type ChainConfig struct {
	// Dir keeps the chain's state: a later start there continues the chain. Empty means a fresh
	// chain in memory. A second start in the same Dir waits for the first to end and then gives up.
	Dir string
	// Port to listen on; 0 picks a free one.
	Port int
	// BlockEvery also makes a block at this interval, in whole seconds, as Base does every 2 s. Zero makes blocks only
	// for transactions: then an idle chain's latest block stays in the past, and nothing after it becomes safe or final.
	BlockEvery time.Duration
	// OnlyEvery makes no block besides those of BlockEvery: a transaction waits for the next one, as on Base.
	OnlyEvery bool
	// Slots is how many transactions of one sender the pool takes: 16.
	Slots int
	// QueueGaps lets a transaction that comes before an earlier one of its sender take a slot and wait, as in reth. Else
	// it is refused, as some nodes do.
	QueueGaps bool
	Log       *slog.Logger // nil discards
}

// startTimeout bounds a child's start; the slowest is a database that recovers from a crash.
const startTimeout = time.Minute

// settleTimeout bounds the last requests to a chain that is about to be stopped.
const settleTimeout = 2 * time.Second

// StartChain starts the chain and returns when it answers and the token is in place. ctx bounds the start only; the
// chain runs until Close or until this process dies.
//
// Blocks have wall-clock time, several may share one second. `safe` is one block behind `latest`, `finalized` two.
func StartChain(ctx context.Context, cfg ChainConfig) (*Chain, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cfg.Log = orDiscard(cfg.Log)
	anvil, err := FindAnvil()
	if err != nil {
		return nil, err
	}
	c := &Chain{ChainID: ChainID, USDC: USDCAddress}
	if cfg.Dir != "" {
		if c.lock, err = lockChain(ctx, cfg.Dir); err != nil {
			return nil, err
		}
		if c.keep, err = newStateKeeper(cfg.Dir, cfg.Log); err != nil {
			return nil, errors.Join(err, c.lock.Close())
		}
	}
	var lc net.ListenConfig
	// A foreign chain on a wanted port must not be taken for ours.
	listener, err := lc.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(cfg.Port)))
	for attempt := 1; err == nil; attempt++ {
		err = c.launch(ctx, anvil, cfg)
		// Between finding a free port and anvil's binding it another process may take it.
		if err == nil || attempt == 3 || !strings.Contains(err.Error(), "in use") {
			break
		}
		err = nil
	}
	if err == nil {
		c.front, err = startPublicNode(ctx, listener, c.anvil, cfg)
		c.RPCURL = "http://" + listener.Addr().String()
	}
	if err != nil {
		if listener != nil {
			listener.Close()
		}
		c.Close() // it failed already, and err says why
		return nil, fmt.Errorf("start development chain: %w", err)
	}
	if c.keep != nil {
		c.keep.run()
	}
	return c, nil
}

// Done is closed when the chain's process has ended, asked to or not.
func (c *Chain) Done() <-chan struct{} { return c.child.done }

// Calls are the JSON-RPC calls that were made so far, by method.
func (c *Chain) Calls() map[string]int { return c.front.counted() }

// Close stops the chain and waits until its state is written. A second call does nothing more.
func (c *Chain) Close() error {
	var err error
	if c.child != nil {
		err = errors.Join(c.settle(), c.child.stop())
	}
	if c.front != nil {
		err = errors.Join(err, c.front.close())
		c.front = nil
	}
	if c.keep != nil {
		c.keep.close()
	}
	if c.lock != nil {
		c.lock.Close()
	}
	return err
}

// local asks the chain, which is on this machine.
func local() *http.Client {
	return outward.New(outward.Config{Timeout: 10 * time.Minute, Most: 1 << 30})
}

func dialNode(ctx context.Context, url string) (*rpc.Client, error) {
	return rpc.DialOptions(ctx, url, rpc.WithHTTPClient(local()))
}

// settle puts what was sent into a last block and lets no block follow. Anvil does not save its state in one piece:
// interrupted while it makes a block, it can forget the block and keep the block's effect.
func (c *Chain) settle() error {
	select {
	case <-c.child.done:
		return nil
	default:
	}
	if c.keep == nil { // nothing is saved
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	client, err := dialNode(ctx, c.anvil)
	if err != nil {
		return fmt.Errorf("settle chain: %w", err)
	}
	defer client.Close()
	for _, step := range []rpc.BatchElem{call("evm_setIntervalMining", 0), call("anvil_mine", "0x1")} {
		if err := client.CallContext(ctx, nil, step.Method, step.Args...); err != nil {
			return fmt.Errorf("settle chain: %w", err)
		}
	}
	return nil
}

func (c *Chain) launch(ctx context.Context, anvil string, cfg ChainConfig) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	cmd := exec.Command(anvil, anvilArgs(port, cfg)...)
	if c.lock != nil {
		// The child holds the lock as well: a start after a kill waits until the old chain has written its state.
		cmd.ExtraFiles = []*os.File{c.lock}
	}
	c.anvil = fmt.Sprintf("http://127.0.0.1:%d", port)
	// Anvil does not save its state in one piece: interrupted while it makes a block, it can forget the block and keep
	// the block's effect. By itself it makes none but empty ones, so it is given time to finish what it was sent.
	if c.child, err = startLingering("anvil", cmd, cfg.Log); err != nil {
		return err
	}
	client, err := dialNode(ctx, c.anvil)
	if err == nil {
		defer client.Close()
		err = c.child.until(ctx, func(ctx context.Context) error { return answersAsBase(ctx, client) })
	}
	if err == nil {
		err = c.prepare(ctx, client)
	}
	if err != nil {
		c.child.stop() // it failed already, and err says why
	}
	return err
}

// prepare puts everything in place and makes one block, so that the latest block is recent and contains it all.
func (c *Chain) prepare(ctx context.Context, client *rpc.Client) error {
	if err := placeToken(ctx, client); err != nil {
		return err
	}
	if err := callAll(ctx, client, []rpc.BatchElem{call("anvil_mine", "0x1")}); err != nil {
		return fmt.Errorf("make the first block: %w", err)
	}
	return checkToken(ctx, client)
}

// keptStates is after how many of the last blocks accounts and contracts can be read. Blocks and logs are kept.
const keptStates = "256"

func anvilArgs(port int, cfg ChainConfig) []string {
	args := []string{
		"--host", "127.0.0.1", "--port", strconv.Itoa(port), "--quiet",
		"--chain-id", strconv.Itoa(ChainID), "--hardfork", "osaka",
		"--accounts", "0", // ours are placed, and none is unlocked in the node
		"--gas-limit", "150000000", "--slots-in-an-epoch", "1",
		// Otherwise the state after each block before the last hundreds is written into the user's home, whole, and stays
		// there when the node is killed.
		"--prune-history", keptStates,
	}
	if seconds := int(cfg.BlockEvery / time.Second); seconds > 0 {
		args = append(args, "--block-time", strconv.Itoa(seconds))
		if !cfg.OnlyEvery {
			args = append(args, "--mixed-mining")
		}
	}
	if cfg.Dir != "" {
		args = append(args, "--state", filepath.Join(cfg.Dir, stateFile), "--state-interval", "1")
	}
	return args
}

func answersAsBase(ctx context.Context, client *rpc.Client) error {
	var id hexutil.Uint64
	if err := client.CallContext(ctx, &id, "eth_chainId"); err != nil {
		return fmt.Errorf("read chain id: %w", err)
	}
	if id != ChainID {
		return fmt.Errorf("chain id is %d, want %d", id, ChainID)
	}
	return nil
}

// freePort returns a port that can be bound.
func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
