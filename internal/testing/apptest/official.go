package apptest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Language is one of an official x402 client.
type Language string

// The languages of the official clients that tests buy with.
const (
	TypeScript Language = "typescript"
	Python     Language = "python"
)

// command runs the program of a language that buys what its standard input says.
func (l Language) command(root string) *exec.Cmd {
	if l == Python {
		return exec.Command(filepath.Join(root, "clients/python/.venv/bin/python"),
			filepath.Join(root, "clients/python/tests/official.py"))
	}
	return exec.Command("node", filepath.Join(root, "clients/typescript/test/support/official.mjs"))
}

// Wanted is one purchase by an official client: its two requests, of which the second one pays.
type Wanted struct {
	BaseURL    string `json:"baseUrl"`
	PrivateKey string `json:"privateKey"`
	Path       string `json:"path"`
	Body       any    `json:"body"`
	// TimeoutMS is how long the client waits for each answer; zero is as long as the client does by itself.
	TimeoutMS int64 `json:"timeoutMs,omitempty"`
}

// Told is what came of a purchase. Status is 0 when no answer came, and Body then says why.
type Told struct {
	Status int
	Body   string
}

// Buyers is a process with an official client, which makes as many purchases at once as it is asked for.
type Buyers struct {
	in   io.WriteCloser
	mu   sync.Mutex
	last int
	open map[int]chan<- Told
	// ended is closed when the process writes no more.
	ended chan struct{}
}

// official are the processes of all tests of a binary, which end with it: starting one costs more than a purchase.
var official struct {
	sync.Mutex
	by map[Language]*Buyers
}

// Official returns the official client of a language, which is started on first use.
func Official(t testing.TB, by Language) *Buyers {
	t.Helper()
	official.Lock()
	defer official.Unlock()
	if b := official.by[by]; b != nil {
		return b
	}
	cmd := by.command(Root(t))
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, StartTied(cmd)); err != nil {
		t.Fatalf("start the official client: %v", err)
	}
	b := &Buyers{in: in, open: map[int]chan<- Told{}, ended: make(chan struct{})}
	go b.hear(cmd, out)
	if official.by == nil {
		official.by = map[Language]*Buyers{}
	}
	official.by[by] = b
	return b
}

// Buy makes a purchase and returns what came of it.
func (b *Buyers) Buy(ctx context.Context, w Wanted) (Told, error) {
	told := make(chan Told, 1)
	b.mu.Lock()
	b.last++
	nth := b.last
	b.open[nth] = told
	line, err := json.Marshal(struct {
		Wanted
		Nth int `json:"nth"`
	}{w, nth})
	if err == nil {
		_, err = b.in.Write(append(line, '\n'))
	}
	b.mu.Unlock()
	if err != nil {
		return Told{}, fmt.Errorf("ask the official client: %w", err)
	}
	select {
	case one := <-told:
		return one, nil
	case <-b.ended:
		return Told{}, errors.New("the official client has ended")
	case <-ctx.Done():
		return Told{}, fmt.Errorf("wait for the official client: %w", ctx.Err())
	}
}

// hear passes on what the process writes, until it ends.
func (b *Buyers) hear(cmd *exec.Cmd, out io.Reader) {
	defer close(b.ended)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var one struct {
			Told
			Nth int
		}
		if err := json.Unmarshal(line, &one); err != nil {
			fmt.Fprintf(os.Stderr, "the official client wrote %s\n", line)
			continue
		}
		b.mu.Lock()
		told := b.open[one.Nth]
		delete(b.open, one.Nth)
		b.mu.Unlock()
		if told != nil {
			told <- one.Told
		}
	}
	_ = cmd.Wait() // whoever waits for a purchase is told
}

// Root is the folder of the repository, above that of the test.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, found := os.Stat(filepath.Join(dir, "go.work")); found == nil {
			return dir
		}
	}
	t.Fatalf("no go.work above the test's folder: %v", err)
	return ""
}
