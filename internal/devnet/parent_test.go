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
// on its output, and waits to be killed.
const parentDir = "DEVNET_TEST_PARENT_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentDir); dir != "" {
		if err := beParent(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// children is what the parent tells.
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
	pg, err := StartPostgres(ctx, PostgresConfig{Dir: filepath.Join(dir, "db")})
	if err != nil {
		return err
	}
	err = json.NewEncoder(os.Stdout).Encode(children{
		RPCURL: chain.RPCURL, DatabaseURL: pg.URL(),
		AnvilPID: chain.child.cmd.Process.Pid, PostgresPID: pg.child.cmd.Process.Pid,
		AnvilName: "anvil", PostgresName: "postgres",
	})
	if err != nil {
		return err
	}
	<-chain.Done()
	return errors.New("the chain ended")
}

// startParent starts both children of a process that can be killed.
func startParent(t *testing.T, dir string) (*exec.Cmd, children) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), parentDir+"="+dir)
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
