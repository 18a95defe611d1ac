package simulation_test

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/bits"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// The runtime throws dice of its own: which of several ready cases a select takes, which of several timers that end in
// the same moment of a bubble comes first, where the walk through a map begins. And it interrupts what runs for long by
// the clock of the machine. Both are words of the thread that runs, and fix sets them, so that the seed decides here,
// too, and nobody is interrupted. The functions are those that the runtime promises to keep for others that link to
// them; what they change shows where the words are.

//go:linkname cheaprand runtime.cheaprand
func cheaprand() uint32

//go:linkname chacharand runtime.rand
func chacharand() uint64

//go:linkname getm runtime.getm
func getm() uintptr

//go:linkname procPin runtime.procPin
func procPin() int

//go:linkname procUnpin runtime.procUnpin
func procUnpin()

// lastID is the time of the last id that was made, as google/uuid keeps it: the next one is never less.
//
//go:linkname lastID github.com/google/uuid.lastV7time
var lastID int64

// The runtime's cheap dice are one word. Before it are those of the other kind: numbers made ahead, what the next ones
// are made from, and two words that say how many of them were used, of how many.
const (
	// step is what a throw adds to the cheap dice.
	step  = 0xa0761d6478bd642f
	mask  = 0xe7037ed1a0b428db
	ahead = 32
	more  = 4
	whole = ahead + more + 2
)

// diceAt is the place of the cheap dice in a thread's own data, lasting that of the text that says why what runs may
// not be interrupted, and lines that of what the thread has last looked up of the program's code, all in words. They
// are negative where they were not found.
var diceAt, lasting, lines = findDice(), findLasting(), findLines()

// thread are the words of the running thread's own data.
func thread() *[240]uint64 {
	at := getm()
	return *(**[240]uint64)(unsafe.Pointer(&at))
}

func findDice() int {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	words := thread()
	before := *words
	cheaprand()
	after := *words
	found := -1
	for i := range before {
		if after[i]-before[i] == step {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	if found < whole {
		return -1
	}
	used := words[found-2]
	chacharand()
	if next := words[found-2]; next != used+1 && uint32(next) != 1 {
		return -1
	}
	return found
}

// findLasting looks for the two words of a text before the number of the locks that a thread holds.
func findLasting() int {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	words := thread()
	before := *words
	procPin()
	after := *words
	procUnpin()
	found := -1
	for i := 2; i < len(before); i++ {
		if after[i] == before[i]+1 && before[i-1] == 0 && before[i-2] == 0 {
			if found >= 0 {
				return -1
			}
			found = i - 2
		}
	}
	return found
}

// lineWords is how much a thread remembers of what it has looked up of the program's code, which it does when a stack
// grows: two times eight entries of three words. What it remembers anew costs a throw of the dice, and whether a stack
// grows depends on the memory that is left. It neither looks there nor remembers while the next word says that somebody
// else does.
const lineWords = 2 * 8 * 3

// findLines looks something up. The newest entry is the first one of its half.
func findLines() int {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	at := reflect.ValueOf(findLasting).Pointer()
	runtime.FuncForPC(at).FileLine(at)
	words := *thread()
	first := slices.Index(words[:], uint64(at))
	if first < 0 {
		return -1
	}
	return first - int(at/8%2)*lineWords/2
}

// remembered are the places where the runtime keeps the outcomes of type assertions, each with what it is at first.
// None are found on other systems, where a world is less exactly repeated in a process that has done something before.
var remembered = findRemembered()

// findRemembered looks for them in the data of the program: three words each, of which the first leads to a cache that
// is empty at first, one for all assertions and one for all switches. An assertion goes on with an interface's type and
// whether it may fail, a switch with how many cases it has and their types.
func findRemembered() map[*unsafe.Pointer]unsafe.Pointer {
	program, err := elf.Open("/proc/self/exe")
	if err != nil || program.Type != elf.ET_EXEC {
		return nil
	}
	defer program.Close()
	data, types, empty := program.Section(".data"), program.Section(".rodata"), program.Section(".noptrbss")
	if data == nil || types == nil || empty == nil {
		return nil
	}
	words, err := data.Data()
	if err != nil {
		return nil
	}
	in := func(s *elf.Section, at uint64) bool { return at >= s.Addr && at < s.Addr+s.Size }
	const most = 200
	assertions, switches := map[uint64][]uint64{}, map[uint64][]uint64{}
	for at := 0; at+24 <= len(words); at += 8 {
		first, second, third := binary.LittleEndian.Uint64(words[at:]), binary.LittleEndian.Uint64(words[at+8:]),
			binary.LittleEndian.Uint64(words[at+16:])
		switch {
		case !in(empty, first):
		case in(types, second) && third <= 1:
			assertions[first] = append(assertions[first], data.Addr+uint64(at))
		case second > 0 && second < most && in(types, third):
			switches[first] = append(switches[first], data.Addr+uint64(at))
		}
	}
	found := map[*unsafe.Pointer]unsafe.Pointer{}
	for _, all := range []map[uint64][]uint64{assertions, switches} {
		var cache uint64
		for to, places := range all {
			if len(places) > len(all[cache]) {
				cache = to
			}
		}
		if len(all[cache]) < most {
			return nil
		}
		for _, place := range all[cache] {
			found[*(**unsafe.Pointer)(unsafe.Pointer(&place))] = *(*unsafe.Pointer)(unsafe.Pointer(&cache))
		}
	}
	return found
}

// forget makes the runtime look all type assertions up again.
func forget() {
	for place, first := range remembered {
		atomic.StorePointer(place, first)
	}
}

// simulated is why a thread's work is not interrupted.
const simulated = "simulation"

// release lets threads be interrupted again.
func release() {
	for _, m := range threads {
		words := *(**[240]uint64)(unsafe.Pointer(&m))
		words[lasting], words[lasting+1] = 0, 0
		words[lines+lineWords] = 0
	}
}

// threads are those that may run something of a bubble. A thread that waits for the system may be replaced by another
// one at any time, so all of them have the same dice.
var threads []uintptr

// spareThreads is how many are made before the first world: the runtime makes none while it has one that does nothing,
// and one made in the middle of a world would go on with dice of its own until the next call.
const spareThreads = 8

// makeThreads makes threads, and knows them.
func makeThreads() {
	var all sync.WaitGroup
	made, end := make(chan uintptr), make(chan struct{})
	for range spareThreads {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			made <- getm()
			<-end
		})
	}
	for range spareThreads {
		threads = append(threads, <-made)
	}
	close(end)
	all.Wait()
}

// calm are places of the cheap dice from which they do not fall so for a long while that the runtime remembers the
// outcome of a type assertion. It does that once in forgets throws, and throws no more for what it remembers: when a
// world is repeated, that would be another number of throws. After a longer while it is made to forget.
var calm = func() (all [256]uint64) {
	place := uint64(1)
	for i := range all {
		for place = next(place, longWhile); !isCalm(place); place++ {
		}
		all[i] = place
	}
	return all
}()

const (
	forgets   = 1024
	longWhile = 5000
	// unstep times step is one: a distance times it is how many throws it is.
	unstep = 0x939c72e4af1e62cf
)

// placed is where fix has put the dice last.
var placed uint64

// next is the place after so many throws.
func next(place, throws uint64) uint64 { return place + throws*step }

func isCalm(place uint64) bool {
	for range longWhile {
		place = next(place, 1)
		hi, lo := bits.Mul64(place, place^mask)
		if uint32(hi^lo)%forgets == 0 {
			return false
		}
	}
	return true
}

func canFix() bool {
	return diceAt >= 0 && lasting >= 0 && lines >= 0 && lines+lineWords < diceAt-whole
}

// fix sets the dice of all threads.
func fix(seed uint64, what string, nth int) {
	if !canFix() {
		return
	}
	if m := getm(); !slices.Contains(threads, m) {
		threads = append(threads, m)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %d", seed, what, nth))
	var dice [whole + 1]uint64
	for i := range dice {
		dice[i] = binary.LittleEndian.Uint64(sum[i%24:]) + uint64(i)*step
	}
	dice[ahead+more], dice[ahead+more+1] = ahead<<32, 0
	dice[whole] = calm[dice[whole]%uint64(len(calm))]
	remembers := false
	for _, m := range threads {
		words := *(**[240]uint64)(unsafe.Pointer(&m))
		remembers = remembers || (words[diceAt]-placed)*unstep >= longWhile
		copy(words[diceAt-whole:diceAt+1], dice[:])
		words[lines+lineWords] = 1
		words[lasting] = uint64(uintptr(unsafe.Pointer(unsafe.StringData(simulated))))
		words[lasting+1] = uint64(len(simulated))
	}
	placed = dice[whole]
	if remembers {
		forget()
	}
}

// collectGarbage collects it, and waits until what is done at the end of things was done: nothing of it runs later,
// between what the bus lets happen.
func collectGarbage() {
	runtime.GC()
	var finalized, cleaned atomic.Bool
	end := func() {
		a, b := new([64]byte), new([64]byte)
		runtime.SetFinalizer(a, func(*[64]byte) { finalized.Store(true) })
		runtime.AddCleanup(b, func(done *atomic.Bool) { done.Store(true) }, &cleaned)
	}
	end()
	for !finalized.Load() || !cleaned.Load() {
		runtime.GC()
		runtime.Gosched()
	}
}
