// Command testcost runs `go test -json …` and adds to a file what each test cost in processor time, a line of JSON for
// each: {"suite": package, "test": name, "seconds": s}. The line without a test is the package's, with all its
// children; that of the suite "compile" is what compilers and linkers took.
//
//	testcost FILE go test -json ./...
//
// Go does not tell the processor time of a test. It is sampled: four times a second the time that the processes under
// a package's test binary have had since, its databases, chains and programs among them, is divided between those tests
// of the package which run at that moment and do not wait for a subtest. Where /proc is missing, the command only runs.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const every = 250 * time.Millisecond

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: testcost FILE COMMAND [ARGUMENT…]")
		os.Exit(2)
	}
	code, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcost:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

// run returns the exit code of the command.
func run(file string, command []string) (int, error) {
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	adoptOrphans()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	m := &meter{root: cmd.Process.Pid, tests: newTests(), spent: map[string]time.Duration{},
		seen: map[int]time.Duration{}, named: map[int]string{}, names: packageNames(dir)}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		m.sample(done)
	}()
	err = m.tests.read(out, os.Stdout)
	close(done)
	<-ended
	if waited := cmd.Wait(); waited != nil {
		var exit *exec.ExitError
		if !errors.As(waited, &exit) {
			return 0, waited
		}
	}
	if err != nil {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), m.write(file)
}

// packageNames says which package's tests run in a folder: `go test` starts each binary in the package's own.
func packageNames(root string) func(dir string) string {
	return func(dir string) string {
		if rel, err := filepath.Rel(root, dir); err == nil && !strings.HasPrefix(rel, "..") {
			return rel
		}
		return dir
	}
}

// meter adds up what packages and tests have had of the processors.
type meter struct {
	root  int
	tests *tests
	names func(dir string) string
	// spent is by "package test"; seen is what a test binary's processes had at the last look, and named its package,
	// which is asked for once: a test may change its folder.
	spent map[string]time.Duration
	seen  map[int]time.Duration
	named map[int]string
}

func (m *meter) sample(done <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			m.look()
		}
	}
}

func (m *meter) look() {
	all := processes()
	for pid, binary := range testBinaries(all, m.root) {
		had := all.under(pid)
		more := had - m.seen[pid]
		if more <= 0 { // a process has gone without being waited for
			continue
		}
		m.seen[pid] = had
		name, known := m.named[pid]
		if !known {
			name = m.names(binary)
			m.named[pid] = name
		}
		m.spent[name+" "] += more
		running := m.tests.running(name)
		for _, test := range running {
			m.spent[name+" "+test] += more / time.Duration(len(running))
		}
	}
	had := all.under(m.root)
	for _, more := range m.seen {
		had -= more
	}
	m.spent["compile "] = max(m.spent["compile "], had)
}

func (m *meter) write(path string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(file)
	for _, key := range slices.Sorted(maps.Keys(m.spent)) {
		suite, test, _ := strings.Cut(key, " ")
		err = errors.Join(err, lines.Encode(struct {
			Suite   string  `json:"suite"`
			Test    string  `json:"test,omitempty"`
			Seconds float64 `json:"seconds"`
		}{suite, test, m.spent[key].Seconds()}))
	}
	return errors.Join(err, file.Close())
}

// tests are those that have begun and not ended, by package, and whether they go on: one that runs next to others
// pauses until there is room for it.
type tests struct {
	mu  sync.Mutex
	now map[string]map[string]bool
}

func newTests() *tests { return &tests{now: map[string]map[string]bool{}} }

// read follows the events of `go test -json`, and copies them.
func (t *tests) read(from io.Reader, to io.Writer) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			t.event(line)
			if _, err := to.Write(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tests) event(line []byte) {
	var e struct{ Action, Package, Test string }
	if json.Unmarshal(line, &e) != nil || e.Test == "" {
		return // what a build prints is no event
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	name := strings.TrimPrefix(e.Package, "github.com/roamcard/roamcard/")
	switch e.Action {
	case "run", "cont":
		if t.now[name] == nil {
			t.now[name] = map[string]bool{}
		}
		t.now[name][e.Test] = true
	case "pause":
		t.now[name][e.Test] = false
	case "pass", "fail", "skip":
		delete(t.now[name], e.Test)
	}
}

// running are the tests of a package that work: one that has subtests waits for them.
func (t *tests) running(name string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var working []string
	for test, goes := range t.now[name] {
		waits := !goes
		for other := range t.now[name] {
			waits = waits || strings.HasPrefix(other, test+"/")
		}
		if !waits {
			working = append(working, test)
		}
	}
	return working
}
