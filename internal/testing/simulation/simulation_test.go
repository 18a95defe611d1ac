package simulation_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/x402"
)

var (
	firstSeed  = flag.Uint64("seed", 0, "the first seed; 0 draws one")
	about      = flag.String("about", "", "what worlds over PostgreSQL are about: everything, or a theme; empty draws it")
	seconds    = flag.Int("seconds", 0, "for how long seeds are taken, one after the other; 0 takes -seeds of them")
	repeats    = flag.Int("repeats", 2, "how often a seed is repeated")
	seeds      = flag.Int("seeds", 1, "how many seeds")
	wholeTrace = flag.Bool("trace", false, "print every call of a run that fails")
	rawOrder   = flag.Bool("raw", false, "compare also the order of what is asked in one moment")
	wholeLog   = flag.Bool("log", false, "print what the processes log")
	servers    = flag.String("server", "", "the two addresses of a server that is ready, as another process has them")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// What is ready at once runs in one order, as long as nothing is interrupted: garbage is collected in between.
	runtime.GOMAXPROCS(1)
	runtime.MemProfileRate = 0 // it throws the runtime's dice
	debug.SetGCPercent(-1)
	makeThreads()
	os.Exit(storetest.Main(m))
}

func domain() x402.Domain {
	asset, err := x402.ParseAddress(devnet.USDCAddress)
	if err != nil {
		panic(err)
	}
	return x402.Domain{Name: "USD Coin", Version: "2", ChainID: x402.ChainID, Contract: asset}
}

// TestSeeds runs one world after the other, from seeds that nobody has chosen.
func TestSeeds(t *testing.T) { newServer(t).seeds(t, planOf) }

// TestSeedsInMemory runs worlds without PostgreSQL, nodes and HTTP servers, in which more is bought in the same time.
func TestSeedsInMemory(t *testing.T) { (*server)(nil).seeds(t, planInMemory) }

func (s *server) seeds(t *testing.T, planOf func(seed uint64) plan) {
	t.Helper()
	first, began, bought := *firstSeed, time.Now(), 0
	if first == 0 {
		first = rand.Uint64()
	}
	ends := func(taken int) bool {
		if *seconds > 0 {
			return time.Since(began) > time.Duration(*seconds)*time.Second
		}
		return taken == *seeds
	}
	for taken := 0; !ends(taken); taken++ {
		out := s.try(t, planOf(first+uint64(taken)))
		if bought += out.bought; t.Failed() {
			t.Logf("found after %s", time.Since(began).Round(time.Second))
			return
		}
	}
	t.Logf("%d bought in %s", bought, time.Since(began).Round(time.Second))
}

// TestStoresDoTheSame runs the domain in worlds over the store in memory, and in the same ones over that in PostgreSQL:
// call by call the same happens. What differs is a fault of one of the two.
func TestStoresDoTheSame(t *testing.T) {
	if !canFix() {
		t.Skip("the runtime's dice are not where they were")
	}
	s, worlds, fresh := newServer(t), []uint64{5000, 5003, 5009, 6012}, 4
	if os.Getenv("ROAMCARD_TORTURE") != "" {
		fresh = 400
	}
	for range fresh {
		worlds = append(worlds, rand.Uint64())
	}
	if *firstSeed != 0 {
		worlds = nil
		for n := range *seeds {
			worlds = append(worlds, *firstSeed+uint64(n))
		}
	}
	for _, seed := range worlds {
		p := planInMemory(seed)
		// The database has one clock for all, and takes ten times as long.
		p.ported, p.skew, p.buyers = true, 0, p.buyers/10
		one, other := (*server)(nil).try(t, p), s.try(t, p)
		if one.trace != other.trace {
			t.Errorf("seed %d: the traces are %s in memory and %s over PostgreSQL\n%s", seed, one.trace, other.trace,
				differ(happenings(one.lines), happenings(other.lines)))
		}
	}
}

// happenings are the lines of a trace without what was only asked for.
func happenings(lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool { return !*rawOrder && strings.Contains(line, " asks ") })
}

// TestKeptSeeds runs the worlds of testdata/seeds.txt, those that have found something and some of each kind, as whole
// programs and in memory: one in six of them, as fresh ones follow, and all in torture. What happens in memory in the
// first one is the same when it runs again.
func TestKeptSeeds(t *testing.T) {
	s := newServer(t)
	for i, k := range keptSeeds(t) {
		if i%6 != 0 && os.Getenv("ROAMCARD_TORTURE") == "" {
			continue
		}
		s.try(t, planAbout(k.theme, k.seed))
		out := (*server)(nil).try(t, planInMemory(k.seed))
		if i > 0 || !canFix() {
			continue
		}
		if again := (*server)(nil).try(t, planInMemory(k.seed)); again.trace != out.trace {
			t.Errorf("the trace is %s, and then %s\n%s", out.trace, again.trace, differ(out.lines, again.lines))
		}
	}
}

// kept is a seed with what its world over PostgreSQL is about.
type kept struct {
	seed  uint64
	theme string
}

func keptSeeds(t *testing.T) (all []kept) {
	t.Helper()
	text, err := os.ReadFile("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		world, _, ok := strings.Cut(line, "\t")
		if !ok {
			continue
		}
		number, theme, _ := strings.Cut(world, " ")
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil || theme == "" {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, kept{seed, theme})
	}
	return all
}

// warmUp runs a small world, once: what the program makes when it is first used throws the runtime's dice, too.
var warmUp sync.Once

// try runs one world, and shows how it came about when something is broken.
func (s *server) try(t *testing.T, p plan) outcome {
	t.Helper()
	out := simulate(t, s, p)
	t.Logf("seed %d: %+v: %s, trace %s", p.seed, p, out, out.trace)
	out.report(t, p.seed)
	if *wholeTrace || t.Failed() {
		t.Log("\n" + strings.Join(out.lines, "\n"))
	}
	return out
}

// report fails a test by what a run has broken.
func (o outcome) report(t *testing.T, seed uint64) {
	t.Helper()
	if o.err != nil {
		t.Errorf("seed %d: %v", seed, o.err)
	}
	for _, v := range o.violations {
		t.Errorf("seed %d: %s", seed, v)
	}
}

// String is a run in one line.
func (o outcome) String() string {
	return fmt.Sprintf("%d bought, %d calls, fates %v, %d deaths, %s", o.bought, o.granted, o.fates, o.crashes,
		o.lasted.Round(time.Second))
}

// TestSeedIsRepeatedExactly: a run is made by its seed alone, in memory always, over PostgreSQL nine times of ten. Each
// is one of a process of its own: what a process has done before throws the runtime's dice, too.
func TestSeedIsRepeatedExactly(t *testing.T) {
	if os.Getenv("ROAMCARD_TORTURE") == "" {
		t.Skip("worlds are repeated in torture; TestSameCallsMakeSameChain holds the chain's part")
	}
	if !canFix() || len(remembered) == 0 {
		t.Fatal("the runtime's dice, or what it remembers of types, are not where they were")
	}
	s := newServer(t)
	all := keptSeeds(t)
	if *firstSeed != 0 {
		all = []kept{{*firstSeed, cmp.Or(*about, themeOf(*firstSeed))}}
	}
	other := 0
	for _, k := range all {
		if !s.isRepeated(t, "TestSeedsInMemory", k) {
			t.Fail()
		}
		if !s.isRepeated(t, "TestSeeds", k) {
			other++
		}
	}
	// Over PostgreSQL the threads of the runtime meet each other at its locks, which costs throws of its dice.
	if other*10 > len(all) {
		t.Errorf("%d of %d worlds over PostgreSQL are not repeated", other, len(all))
	}
}

// isRepeated runs a world several times, and shows where it was another one.
func (s *server) isRepeated(t *testing.T, worlds string, of kept) bool {
	t.Helper()
	first, lines := s.runAlone(t, worlds, of)
	for range *repeats {
		again, others := s.runAlone(t, worlds, of)
		if again != first {
			t.Logf("%s, seed %d: the trace is %s, and then %s\n%s", worlds, of.seed, first, again, differ(lines, others))
			return false
		}
	}
	return true
}

// runAlone runs a world in a process of its own, which makes no database but its own. It returns the name of its trace,
// and its lines.
func (s *server) runAlone(t *testing.T, worlds string, of kept) (trace string, lines []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", worlds+"$", "-test.v", "-trace", "-seeds", "1",
		"-seed", strconv.FormatUint(of.seed, 10), "-about", of.theme,
		"-server", s.admin+" "+s.template)
	out, err := cmd.CombinedOutput()
	named := regexp.MustCompile(`, trace ([0-9a-f]+)`).FindSubmatch(out)
	if err != nil || named == nil {
		t.Fatalf("%s, seed %d: %v\n%.2000s", worlds, of.seed, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if happened.MatchString(line) {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return string(named[1]), happenings(lines)
}

// happened is a line of a trace.
var happened = regexp.MustCompile(`^ +\d+\.\d{6} `)

// differ shows two traces up to where they differ.
func differ(one, other []string) string {
	const around = 40
	// What is asked for in one moment may be noted in any order.
	if !*rawOrder {
		one, other = slices.Sorted(slices.Values(one)), slices.Sorted(slices.Values(other))
	}
	for n := range min(len(one), len(other)) {
		if one[n] != other[n] {
			from, to := max(0, n-around), n+3
			return strings.Join(one[from:min(to, len(one))], "\n") + "\n\n" +
				strings.Join(other[from:min(to, len(other))], "\n")
		}
	}
	return "one is the beginning of the other"
}
