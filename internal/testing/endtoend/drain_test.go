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

// drained is a process of the program that has been asked to end, and says that it is stopping. Its collector is down.
func drained(t *testing.T, w *world, delay string) (p *apptest.Process, url string) {
	t.Helper()
	addr := apptest.FreeAddr(t)
	p = apptest.Start(t, append(w.environment(addr), "ROAMCARD_SERVER__DRAIN_DELAY="+delay,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9"), "serve")
	t.Cleanup(func() { p.Kill(t) })
	url = "http://" + addr
	answers := func(status int, text string) {
		t.Helper()
		eventually(t, func() (bool, string) {
			err := answersWith(url+"/ready", status, text)
			if p.Ended() {
				t.Fatalf("it has ended\n%s", p.Log.Tail())
			}
			return err == nil, fmt.Sprint(err)
		})
	}
	answers(http.StatusOK, `"ready"`)
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	answers(http.StatusServiceUnavailable, "stopping")
	return p, url
}

// TestProcessServesUntilItsCallersHaveNoticed: while /ready says that it is stopping, new connections are served.
func TestProcessServesUntilItsCallersHaveNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{bare: true})
	p, url := drained(t, w, "10s")
	for path, want := range map[string]string{"/livez": `"ok"`, "/health": `"ok"`, "/api/config": origin} {
		if err := answersWith(url+path, http.StatusOK, want); err != nil {
			t.Error(err)
		}
	}
	w.instances = []*instance{{url: url, stop: func() {}}}
	w.send(purchase("while it stops", "")).into(t, http.StatusPaymentRequired, nil)
	awaitEnd(t, p)
	if !p.Cmd.ProcessState.Success() || !strings.Contains(p.Log.Tail(), "telemetry not sent") ||
		strings.Contains(p.Log.Tail(), "gauge not read") {
		t.Errorf("it ended with %s\n%s", p.Cmd.ProcessState, p.Log.Tail())
	}
}

func TestSecondSignalEndsADrainAtOnce(t *testing.T) {
	t.Parallel()
	p, _ := drained(t, newWorld(t, plan{bare: true}), "5m")
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, p)
	if status, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %s", p.Cmd.ProcessState)
	}
}

// awaitEnd waits until a program has ended.
func awaitEnd(t *testing.T, p *apptest.Process) {
	t.Helper()
	ctx, cancel := waitContext(t)
	defer cancel()
	select {
	case <-p.Done:
	case <-ctx.Done():
		t.Fatalf("it does not end\n%s", p.Log.Tail())
	}
}

// answersWith asks on a connection of its own.
func answersWith(url string, status int, text string) error {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
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
