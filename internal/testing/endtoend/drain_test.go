package endtoend_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// drained is a process of the program that has been asked to end, and says that it is stopping.
func drained(t *testing.T, w *world, delay string) (p *apptest.Process, url string) {
	t.Helper()
	addr := apptest.FreeAddr(t)
	p = apptest.Start(t, append(w.environment(addr), "ROAMCARD_SERVER__DRAIN_DELAY="+delay), "serve")
	t.Cleanup(func() { p.Kill(t) })
	url = "http://" + addr
	apptest.Until(t, 30*time.Second, "ready", func() error { return answersWith(url+"/ready", http.StatusOK, `"ready"`) })
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	apptest.Until(t, 10*time.Second, "stopping", func() error {
		return answersWith(url+"/ready", http.StatusServiceUnavailable, "stopping")
	})
	return p, url
}

// TestProcessServesUntilItsCallersHaveNoticed: while /ready says that it is stopping, new connections are served.
func TestProcessServesUntilItsCallersHaveNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{bare: true})
	p, url := drained(t, w, "3s")
	for path, want := range map[string]string{"/livez": `"ok"`, "/health": `"ok"`, "/api/config": origin} {
		if err := answersWith(url+path, http.StatusOK, want); err != nil {
			t.Error(err)
		}
	}
	w.instances = []*instance{{url: url, stop: func() {}}}
	w.send(purchase("while it stops", "")).into(t, http.StatusPaymentRequired, nil)
	select {
	case <-p.Done:
	case <-time.After(30 * time.Second):
		t.Fatalf("it does not end\n%s", p.Log.Tail())
	}
	if !p.Cmd.ProcessState.Success() {
		t.Errorf("it ended with %s\n%s", p.Cmd.ProcessState, p.Log.Tail())
	}
}

func TestSecondSignalEndsADrainAtOnce(t *testing.T) {
	t.Parallel()
	p, _ := drained(t, newWorld(t, plan{bare: true}), "5m")
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done:
	case <-time.After(30 * time.Second):
		t.Fatalf("it does not end\n%s", p.Log.Tail())
	}
	if status, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %s", p.Cmd.ProcessState)
	}
}

// answersWith asks on a connection of its own.
func answersWith(url string, status int, text string) error {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	res, err := client.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != status || !strings.Contains(string(body), text)) {
		err = fmt.Errorf("%s: %d %.200s", url, res.StatusCode, body)
	}
	return err
}
