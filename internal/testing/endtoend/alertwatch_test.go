package endtoend_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/testing/apptest"
)

const (
	promtoolModule = "../../../tools/promtool"
	alertRules     = "../../../docs/operations/alerts.yml"
	alertTests     = "../../../docs/operations/alerts_test.yml"
)

// evaluator is the program that evaluates alerts, built by the first test that needs it.
var evaluator struct {
	sync.Once
	path, dir string
	err       error
	said      []byte
}

// buildEvaluator builds the program of tools/promtool/evaluate, which is made of Prometheus' own packages.
func buildEvaluator(t *testing.T) string {
	t.Helper()
	evaluator.Do(func() {
		if evaluator.dir, evaluator.err = os.MkdirTemp("", "roamcard-evaluate-"); evaluator.err != nil {
			return
		}
		evaluator.path = filepath.Join(evaluator.dir, "evaluate")
		build := exec.Command("go", "build", "-C", promtoolModule, "-ldflags=-s -w", "-o", evaluator.path, "./evaluate")
		build.Env = append(os.Environ(), "GOWORK=off")
		evaluator.said, evaluator.err = build.CombinedOutput()
	})
	if evaluator.err != nil {
		t.Fatalf("build the evaluator of alerts: %v\n%s", evaluator.err, evaluator.said)
	}
	return evaluator.path
}

// removeEvaluator removes what buildEvaluator has built, when all tests are over.
func removeEvaluator() {
	if evaluator.dir != "" {
		_ = os.RemoveAll(evaluator.dir) // a temporary folder
	}
}

// TestAlertsFireAndClear runs the unit tests of docs/operations/alerts.yml.
func TestAlertsFireAndClear(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), buildEvaluator(t), "-test", alertTests).CombinedOutput()
	if err != nil || !strings.Contains(string(out), " tests, ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// alert is one that is pending or firing.
type alert struct {
	Name   string
	Firing bool
	Labels map[string]string
}

// alertWatch scrapes an instance and evaluates docs/operations/alerts.yml after each scrape, at times that the test
// chooses.
type alertWatch struct {
	t   *testing.T
	at  *instance
	in  *json.Encoder
	out *json.Decoder
	// now is the time of the last scrape.
	now time.Time
	// active are the alerts of that time, and fired when each fired first.
	active []alert
	fired  map[string]time.Time
}

// watchAlerts begins to watch the metrics of an instance.
func watchAlerts(t *testing.T, at *instance) *alertWatch {
	t.Helper()
	cmd := exec.Command(buildEvaluator(t), alertRules)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := apptest.StartTied(cmd); err != nil {
		t.Fatalf("start the evaluator of alerts: %v", err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends then
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the evaluator of alerts ended: %v", err)
		}
	})
	return &alertWatch{
		t: t, at: at, in: json.NewEncoder(in), out: json.NewDecoder(out), now: time.Now(), fired: map[string]time.Time{},
	}
}

// scrape reads the metrics now, as a scrape that is so much later than the last one.
func (w *alertWatch) scrape(later time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(later)
	err := w.in.Encode(map[string]any{"at": w.now, "instance": w.at.url, "page": scrape(w.t, w.at.metrics)})
	if err == nil {
		w.active = nil
		err = w.out.Decode(&w.active)
	}
	if err != nil {
		w.t.Fatalf("evaluate the alerts: %v", err)
	}
	for _, name := range w.firing() {
		if _, before := w.fired[name]; !before {
			w.fired[name] = w.now
			w.t.Logf("%s: %s fires", w.now.Format(time.TimeOnly), name)
		}
	}
}

// firing are the names of the alerts that fire.
func (w *alertWatch) firing() (names []string) {
	for _, a := range w.active {
		if a.Firing && !slices.Contains(names, a.Name) {
			names = append(names, a.Name)
		}
	}
	return names
}

// fires reports whether an alert fires with a label.
func (w *alertWatch) fires(name, label, value string) bool {
	return slices.ContainsFunc(w.active, func(a alert) bool {
		return a.Firing && a.Name == name && a.Labels[label] == value
	})
}
