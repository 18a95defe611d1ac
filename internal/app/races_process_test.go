package app_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/roamcard/roamcard/internal/app"
)

// TestRacesOfThreeProcessesHaveOneWinner runs the contests over three processes of the program itself.
func TestRacesOfThreeProcessesHaveOneWinner(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "roamcard")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/roamcard").CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	w := newWorld(t, plan{})
	for range 3 {
		w.launch(program)
	}
	w.instances[0].stop()
	w.instances = w.instances[1:]
	for _, i := range w.instances {
		w.awaitReady(i)
	}
	bought := 0
	for _, c := range contests() {
		n := max(2, rounds()/10)
		c.run(w, n)
		bought += n
		if got := len(w.transfers()); got != bought {
			t.Fatalf("%s: %d transfers after %d rounds", c.name, got, bought)
		}
	}
	w.reconcile()
}

// launch adds an instance that is a process of its own.
func (w *world) launch(program string) {
	w.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil { // the program takes it over
		w.t.Fatal(err)
	}
	c := w.config
	cmd := exec.Command(program, "serve")
	cmd.Env = os.Environ()
	for name, value := range map[string]string{
		"ADDR": addr, "BASE_URL": origin, "ENVIRONMENT": app.Sandbox, "DATABASE__URL": c.DatabaseURL.Reveal(), "CHAIN__RPC_URL": c.RPCURLs[0],
		"PAYMENT__PAY_TO": c.PayTo.String(), "RELAYER__KEYS": c.RelayerKeys[0].Reveal(), "ISSUER__URL": c.IssuerURL, "ISSUER__KEY": c.IssuerKey.Reveal(),
		"ISSUER__POLL": c.IssuerPoll.String(), "QUOTE__KEY": c.QuoteKey.Reveal(), "PAYMENT__WAIT": c.Wait.String(), "WORKER__LEASE": c.LeaseTTL.String(),
	} {
		cmd.Env = append(cmd.Env, fmt.Sprintf("ROAMCARD_%s=%s", name, value))
	}
	var said lockedBuffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		w.t.Fatalf("start the program: %v", err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := cmd.Wait(); err != nil {
			w.t.Errorf("the program ended: %v\n%s", err, said.String())
		}
	})
	w.instances = append(w.instances, &instance{url: "http://" + addr, stop: func() {}})
}
