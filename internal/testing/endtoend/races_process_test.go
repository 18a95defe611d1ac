package endtoend_test

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// TestRacesOfThreeProcessesHaveOneWinner runs the contests over three processes of the program itself, on one
// database: those for a wallet's own purchase all at once, and that for the last float by itself.
func TestRacesOfThreeProcessesHaveOneWinner(t *testing.T) {
	onlyTorture(t, "store TestRacesOfThreeProcessesHaveOneWinnerEach, and TestRacesHaveOneWinner here")
	t.Parallel()
	program := apptest.Binary(t)
	for name, contests := range contestsByWorld() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The orders that wait for their card need not be looked at often.
			w := newWorld(t, plan{change: func(c *app.Config) { c.IssuerPoll = time.Second }})
			w.replaceInstances(w.launch(program), w.launch(program), w.launch(program))
			w.runContests(contests, rounds())
			w.checkBooks()
		})
	}
}

// replaceInstances ends the instances of the world and goes on with others, once they are ready.
func (w *world) replaceInstances(by ...*instance) {
	w.t.Helper()
	for _, i := range w.instances {
		i.stop()
	}
	w.instances = by
	for _, i := range w.instances {
		w.awaitReady(i)
	}
}

// launch starts an instance that is a process of its own. More are flags, and settings beyond the world's own
// as NAME=value without the prefix.
func (w *world) launch(program string, more ...string) *instance {
	w.t.Helper()
	addr := apptest.FreeAddr(w.t)
	cmd := exec.Command(program, "serve")
	cmd.Env = append(apptest.Environ(), w.environment(addr)...)
	for _, s := range more {
		if strings.HasPrefix(s, "--") {
			cmd.Args = append(cmd.Args, s)
		} else {
			cmd.Env = append(cmd.Env, "ROAMCARD_"+s)
		}
	}
	var said lockedBuffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		w.t.Fatalf("start the program: %v", err)
	}
	asked, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		err := cmd.Wait()
		select {
		case <-asked:
		default:
			endedByItself(w.t, fmt.Sprintf("the program ended by itself: %v\n%s", err, said.String()))
		}
		ended <- err
	}()
	w.t.Cleanup(func() {
		close(asked)
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := <-ended; err != nil {
			w.t.Errorf("the program ended: %v\n%s", err, said.String())
		}
	})
	return &instance{url: "http://" + addr, stop: func() {}, pid: cmd.Process.Pid}
}

// environment is the world as a process is told of it.
func (w *world) environment(addr string) (env []string) {
	c := w.config
	for name, value := range map[string]string{
		// All racers have one address.
		"LIMITS":                              "off",
		"SERVER__MAX_CONNECTIONS_PER_ADDRESS": "8192",
		"ADDR":                                addr,
		"BASE_URL":                            origin,
		"ENVIRONMENT":                         app.Sandbox,
		"DATABASE__URL":                       c.DatabaseURL.Reveal(),
		"CHAIN__RPC_URL":                      strings.Join(c.RPCURLs, ","),
		"SUPPLIER__URL":                       c.Esim.URL,
		"SUPPLIER__KEY":                       c.Esim.Key.Reveal(),
		"ESIM__KEYS":                          c.Esim.Keys.Reveal(),
		"ESIM__TOKEN_KEY":                     c.Esim.TokenKey.Reveal(),
		"PAYMENT__PAY_TO":                     c.PayTo.String(),
		"RELAYER__KEYS":                       c.RelayerKeys[0].Reveal(),
		"ISSUER__URL":                         c.IssuerURL,
		"ISSUER__KEY":                         c.IssuerKey.Reveal(),
		"ISSUER__POLL":                        c.IssuerPoll.String(),
		"QUOTE__KEY":                          c.QuoteKey.Reveal(),
		"PAYMENT__WAIT":                       c.Wait.String(),
		"WORKER__LEASE":                       c.LeaseTTL.String(),
		"ISSUER__CALL_TIMEOUT":                c.IssuerCallTimeout.String(),
		"ISSUER__VISIBILITY_DELAY":            c.IssuerVisibilityDelay.String(),
	} {
		env = append(env, fmt.Sprintf("ROAMCARD_%s=%s", name, value))
	}
	return env
}
