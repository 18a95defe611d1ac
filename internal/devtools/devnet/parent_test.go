package devnet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// parentDir, set in the environment, makes the test binary a parent: it starts both children there, tells about them
// on its output, and waits to be killed. With chainAlone set as well it starts the chain alone.
const (
	parentDir  = "DEVNET_TEST_PARENT_DIR"
	chainAlone = "DEVNET_TEST_PARENT_CHAIN_ALONE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentDir); dir != "" {
		if err := beParent(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	_ = os.RemoveAll(made.dir) // a temporary folder, if there is one
	os.Exit(code)
}

// children is what the parent tells; without a database its PID is 0.
type children struct {
	RPCURL, DatabaseURL     string
	AnvilPID, PostgresPID   int
	AnvilName, PostgresName string
}

func beParent(dir string) error {
	ctx := context.Background()
	chain, err := StartChain(ctx, ChainConfig{Dir: filepath.Join(dir, "chain")})
	if err != nil {
		return err
	}
	told := children{RPCURL: chain.RPCURL, AnvilPID: chain.child.cmd.Process.Pid, AnvilName: "anvil"}
	if os.Getenv(chainAlone) == "" {
		pg, err := StartPostgres(ctx, PostgresConfig{Dir: filepath.Join(dir, "db")})
		if err != nil {
			return err
		}
		told.DatabaseURL, told.PostgresPID, told.PostgresName = pg.URL(), pg.child.cmd.Process.Pid, "postgres"
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		return err
	}
	<-chain.Done()
	return errors.New("the chain ended")
}

// startParent starts the children of a process that can be killed. extra goes into its environment.
func startParent(t *testing.T, dir string, extra ...string) (*exec.Cmd, children) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(append(os.Environ(), parentDir+"="+dir), extra...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var told children
	t.Cleanup(func() {
		cmd.Process.Kill() // if the test has not
		cmd.Wait()
		if told.AnvilPID != 0 { // they still write into the test's folder
			awaitEnd(t, told.AnvilPID, told.AnvilName)
		}
		if told.PostgresPID != 0 {
			awaitEnd(t, told.PostgresPID, told.PostgresName)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &told)
	}
	if err != nil {
		t.Fatalf("parent did not start: %v", err)
	}
	return cmd, told
}

// kill ends the process at once, as a crash or kill -9 does.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
}

var errStillRunning = errors.New("still running")

func awaitEnd(t *testing.T, pid int, name string) {
	t.Helper()
	poll(t, func() (struct{}, error) {
		if running(pid, name) {
			return struct{}{}, fmt.Errorf("%s: %w", name, errStillRunning)
		}
		return struct{}{}, nil
	})
}
