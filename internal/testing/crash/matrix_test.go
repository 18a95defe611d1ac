package crash_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// record is one line of the fault matrix.
type record struct {
	Flow    string `json:"flow"`
	Settler string `json:"settler"`
	Mode    string `json:"mode"`
	First   string `json:"first"`
	Second  string `json:"second,omitempty"`
	Signs   bool   `json:"signs,omitempty"`
	// Recovery is how many seconds the order took once the program ran again.
	Recovery   float64 `json:"recovery"`
	Violations int     `json:"violations"`
	Failed     bool    `json:"failed"`
}

var matrix sync.Mutex

// write adds the line to the file that ROAMCARD_MATRIX names.
func (r record) write(t *testing.T) {
	path := os.Getenv("ROAMCARD_MATRIX")
	if path == "" {
		return
	}
	matrix.Lock()
	defer matrix.Unlock()
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Errorf("note the result: %v", err)
		return
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		t.Errorf("note the result: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("note the result: %v", err)
	}
}

// drawnSeed is the seed of a run, which it prints: that of ROAMCARD_SEED, or a new one.
func drawnSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("ROAMCARD_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("ROAMCARD_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("seed %d", seed)
	return seed
}

// drawn are the cases of a torture run: all of them in a random order, or the first ROAMCARD_CASES of
// it. The seed is printed; ROAMCARD_SEED repeats a run.
func drawn(t *testing.T) []crash {
	t.Helper()
	seed := drawnSeed(t)
	var all []crash
	for _, flow := range []string{issue, topup, later, refund, esim} {
		for _, settler := range []string{relayer, facilitator, both} {
			all = append(all, pairs(flow, settler)...)
		}
	}
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if s := os.Getenv("ROAMCARD_CASES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("ROAMCARD_CASES: %q is no number of cases", s)
		}
		all = all[:min(n, len(all))]
	}
	return all
}

// pairs are all cases of a flow under a settler.
func pairs(flow, settler string) []crash {
	var all []crash
	for _, first := range points(flow, settler) {
		seconds := []string{""}
		for _, second := range points(flow, settler) {
			if again(flow, settler, first, second) {
				seconds = append(seconds, second)
			}
		}
		for _, second := range seconds {
			for _, signs := range []bool{false, true} {
				all = append(all, crash{flow: flow, settler: settler, first: first, second: second, signs: signs, drawn: true})
			}
		}
	}
	return all
}
