package simulation_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing/synctest"
	"time"
)

// bus lets the calls of all processes happen one at a time. Its order and what becomes of each call come from the seed.
type bus struct {
	seed uint64
	// weather says what may happen; calm once faults are off.
	weather weather

	mu      sync.Mutex
	pending []*call
	// turns counts how often a call of one name was asked for, by process and name.
	turns map[string]int
	asked chan struct{}
	// collect is when the garbage is collected next, in calls: never while something runs, which that would interrupt.
	collect int
	// dead are to be closed.
	dead []io.Closer
	// randomize begins the random numbers of all processes anew, and drawn says for which moment it was done last.
	randomize func(n uint64)
	drawn     uint64
	// deaths counts the processes that died.
	deaths int
	trace  trace
	// noted are the lines of what runs now. They have an order once nothing runs, that of their words: what runs at once
	// may come in any order.
	noted []string
	// granted counts calls, and fates what became of them.
	granted int
	fates   map[fate]int
}

// weather are the probabilities of a run, in millionths of the calls.
type weather struct {
	refused, lost, late, crash int
	// sends is how many times likelier it is that something goes wrong with a call that asks a provider for something or
	// stores what a worker has done; zero is once.
	sends int
	// latency is the longest of a call, as long as it is not late.
	latency time.Duration
}

// fate is what becomes of a call.
type fate int

// The fates.
const (
	// done: it happens and is answered.
	done fate = iota
	// refused: it does not happen, and the caller is told of an error.
	refused
	// lost: it happens, and the caller is told of an error.
	lost
	// late: it happens, and the answer takes long.
	late
	// crashBefore and crashAfter: the process dies before it happens, or before it learns of it.
	crashBefore
	crashAfter
)

func (f fate) String() string {
	return [...]string{"", " refused", " lost", " late", " crash before", " crash after"}[f]
}

// errDead is what a process that is dead gets for every call.
var errDead = errors.New("the process is dead")

// errGone is what a caller gets who gave up while the call had not happened.
var errGone = errors.New("the caller has gone")

// errBroken is an error of the way.
var errBroken error = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// call is one that waits for its turn.
type call struct {
	of   *process
	name string
	nth  int
	// silent ones come first, those of one process in the order in which they came.
	silent bool
	// place is its place among those that wait in the same moment.
	place uint64
	turn  chan grant
}

// grant is a call's turn.
type grant struct {
	fate fate
	// rounds is how many round trips of a transaction happen before its fate.
	rounds int
	// answer is how long the answer takes.
	answer time.Duration
	// delay is how long an order for goods is on its way whose answer is lost, or whose sender has died, in every second
	// case; zero in the others.
	delay time.Duration
	// dice are those of who goes on with the answer. How many were thrown before, by others, is not always the same.
	dice uint64
}

func newBus(seed uint64, randomize func(n uint64)) *bus {
	return &bus{
		seed: seed, randomize: randomize, drawn: math.MaxUint64, turns: map[string]int{}, asked: make(chan struct{}, 1),
		trace: newTrace(), fates: map[fate]int{}, collect: collectEvery,
	}
}

// ask waits for a call's turn. name is the same whenever the seed is, so it has nothing in it that another run of the
// seed would make anew. give ends the wait.
func (b *bus) ask(of *process, name string, give <-chan struct{}) (grant, error) {
	if of.isDead() {
		return grant{}, errDead
	}
	b.mu.Lock()
	key := of.name + " " + name
	b.turns[key]++
	c := &call{of: of, name: name, nth: b.turns[key], turn: make(chan grant, 1)}
	if *wholeTrace {
		b.trace.aside(b.trace.line("  %s asks %s (%d) %s", of.name, name, c.nth, caller()))
	}
	b.mu.Unlock()
	// The way there takes its own time, by what is asked for alone: callers that run at once may come in any order.
	if way := b.latency(c); !pause(way, of.dead, give) || !of.goOn(way, give) {
		return grant{}, b.over(of)
	}
	c.place = b.dice(c, "place").Uint64()
	return b.wait(c, give)
}

func (b *bus) wait(c *call, give <-chan struct{}) (grant, error) {
	of := c.of
	if of.isDead() {
		return grant{}, errDead
	}
	b.mu.Lock()
	b.pending = append(b.pending, c)
	b.mu.Unlock()
	b.wake()
	select {
	case g := <-c.turn:
		return g, nil
	case <-of.dead:
	case <-give:
	}
	b.mu.Lock()
	b.pending = slices.DeleteFunc(b.pending, func(p *call) bool { return p == c })
	b.mu.Unlock()
	select {
	case g := <-c.turn: // it came in the same moment
		if !of.isDead() {
			return g, nil
		}
	default:
	}
	return grant{}, b.over(of)
}

// bury closes something once nothing else runs. A thread that does it may be replaced, with its dice.
func (b *bus) bury(c io.Closer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = append(b.dead, c)
}

func (b *bus) closeAll() {
	b.mu.Lock()
	all := b.dead
	b.dead = nil
	b.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// collectEvery is after how many calls garbage is collected.
const collectEvery = 10_000

// note puts a line into the trace.
func (b *bus) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noted = append(b.noted, b.trace.line(format, args...))
}

// order puts what has been noted into the trace.
func (b *bus) order() {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.noted)
	for _, line := range b.noted {
		b.trace.put(line)
	}
	b.noted = b.noted[:0]
}

// quiet waits for a turn of something that belongs to no call: it takes no time, has no fate, and is not seen. So it is
// not seen either which connection of a pool somebody got, one on which a statement is prepared or another one.
func (b *bus) quiet(of *process, give <-chan struct{}) error {
	c := &call{of: of, silent: true, turn: make(chan grant, 1)}
	_, err := b.wait(c, give)
	return err
}

func (b *bus) over(of *process) error {
	if of.isDead() {
		return errDead
	}
	return errGone
}

// dice are those of one call. They depend on the seed and on the call alone, so that what happens to one call changes
// nothing of what happens to another.
func (b *bus) dice(c *call, of string) *rand.Rand {
	h := sha256.New()
	var n [16]byte
	binary.LittleEndian.PutUint64(n[:], b.seed)
	binary.LittleEndian.PutUint64(n[8:], uint64(c.nth))
	h.Write(n[:])
	h.Write([]byte(of + " " + c.of.name + " " + c.name))
	sum := h.Sum(nil)
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:])))
}

// latency is how long a call takes to the other side.
func (b *bus) latency(c *call) time.Duration {
	return 1 + jitterOf(b.dice(c, "way"), b.weather.latency)
}

func jitterOf(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(cmp.Or(most, time.Millisecond))))
}

// run lets calls happen until stop is closed. It is the root of the bubble.
func (b *bus) run(stop <-chan struct{}) {
	for {
		synctest.Wait()
		b.order()
		// Its time slice begins anew, while nothing else can run: within one that lasts for 10 ms the runtime interrupts
		// what runs, wherever that is.
		runtime.Gosched()
		b.closeAll()
		if b.granted >= b.collect {
			b.collect = b.granted + collectEvery
			release()
			collectGarbage()
		}
		b.begin()
		if b.grantOne() {
			continue
		}
		select {
		case <-b.asked: // time passes until there is one
		case <-stop:
			b.closeAll()
			return
		}
	}
}

// begin throws new dice for what comes next. They are other ones after each call and after each death: how many a
// process has thrown while it died depends on what of it ended first, and is nothing to the others.
func (b *bus) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := uint64(b.granted)<<16 + uint64(b.deaths)
	fix(b.seed, "turn", int(now))
	if now != b.drawn {
		b.drawn = now
		b.randomize(now)
	}
}

// died says that a process has died.
func (b *bus) died() {
	b.mu.Lock()
	b.deaths++
	b.mu.Unlock()
	b.wake()
}

// wake lets the root look again.
func (b *bus) wake() {
	select {
	case b.asked <- struct{}{}:
	default:
	}
}

// grantOne lets one of the pending calls happen; false when there is none.
func (b *bus) grantOne() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) == 0 {
		return false
	}
	c := slices.MinFunc(b.pending, func(x, y *call) int {
		return cmp.Or(cmp.Compare(x.place, y.place), cmp.Compare(x.of.name, y.of.name), cmp.Compare(x.name, y.name),
			cmp.Compare(x.nth, y.nth))
	})
	b.pending = slices.DeleteFunc(b.pending, func(p *call) bool { return p == c })
	if c.silent {
		c.turn <- grant{}
		return true
	}
	g := b.draw(c)
	b.granted++
	b.fates[g.fate]++
	b.trace.put(b.trace.line("%s %s%s", c.of.name, c.name, g.fate))
	c.turn <- g
	return true
}

// draw is what becomes of a call.
func (b *bus) draw(c *call) grant {
	const all = 1_000_000
	w, rng := b.weather, b.dice(c, "fate")
	if w.sends > 1 && changes(c.name) {
		for _, odds := range []*int{&w.refused, &w.lost, &w.late, &w.crash} {
			*odds = min(*odds*w.sends, all/5)
		}
	}
	n := rng.IntN(all)
	g := grant{fate: done, answer: 1 + jitterOf(rng, w.latency), rounds: rng.IntN(4), dice: rng.Uint64()}
	if c.of.immortal {
		return g
	}
	for _, f := range []struct {
		fate fate
		of   int
	}{{refused, w.refused}, {lost, w.lost}, {late, w.late}, {crashBefore, w.crash / 2}, {crashAfter, w.crash / 2}} {
		if n < f.of {
			g.fate = f.fate
			break
		}
		n -= f.of
	}
	switch g.fate {
	case late:
		g.answer = jitterOf(rng, 40*time.Second)
	case lost, crashAfter:
		if rng.IntN(2) == 0 {
			g.delay = jitterOf(rng, longestDelay)
		}
	case done, refused, crashBefore:
	}
	return g
}

// changes reports whether a call asks a provider for something, or stores what a worker has done.
func changes(call string) bool {
	return strings.Contains(call, " POST ") || strings.Contains(call, " WITH touched ") ||
		strings.Contains(call, " UPDATE jobs ")
}

// longestDelay is how long an order for goods may be on its way after who sent it has given up or died. It is less than
// a provider is waited for until it is taken not to know a reference.
const longestDelay = 20 * time.Second

// pause sleeps for a while; false when it was ended before.
func pause(d time.Duration, ends ...<-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	var first, second <-chan struct{}
	if len(ends) > 0 {
		first = ends[0]
	}
	if len(ends) > 1 {
		second = ends[1]
	}
	select {
	case <-t.C:
	case <-first:
	case <-second:
	}
	select { // what has ended by then counts, also where it did in the same moment
	case <-first:
	case <-second:
	default:
		return true
	}
	return false
}

// trace is what happened, in its order.
type trace struct {
	sum   hash.Hash
	lines []string
	began time.Time
	keep  int
}

// keptLines is how much of a trace a failure shows.
const keptLines = 400

func newTrace() trace {
	t := trace{sum: sha256.New(), began: time.Now(), keep: keptLines}
	if *wholeTrace {
		t.keep = 1 << 30
	}
	return t
}

func (t *trace) line(format string, args ...any) string {
	return fmt.Sprintf("%12.6f ", time.Since(t.began).Seconds()) + fmt.Sprintf(format, args...)
}

func (t *trace) put(line string) {
	io.WriteString(t.sum, line+"\n")
	t.aside(line)
}

// aside adds a line for people alone.
func (t *trace) aside(line string) {
	t.lines = append(t.lines, line)
	if len(t.lines) > 2*t.keep {
		t.lines = slices.Clone(t.lines[t.keep:])
	}
}

// hash names a trace.
func (t *trace) hash() string { return fmt.Sprintf("%x", t.sum.Sum(nil)[:8]) }

// caller names who asks, for people: the program's functions that led to a call, the last ones first.
func caller() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var names []string
	for {
		f, more := frames.Next()
		if _, name, ok := strings.Cut(f.Function, "roamcard/internal/"); ok && !strings.HasPrefix(name, "testing") &&
			!strings.HasPrefix(name, "store.") {
			names = append(names, name)
		}
		if !more || len(names) == 4 {
			return strings.Join(names, " < ")
		}
	}
}
