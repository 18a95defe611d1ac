package roamcardtest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/clients/go/roamcard/roamcardtest"
)

// TestWhateverHappensNothingIsPaidTwice makes up stories of crashes, lies and lost answers, and checks after each event
// that no key has two live authorizations and that no day has more than its cap. ROAMCARD_SEED and ROAMCARD_RUNS repeat
// a story.
func TestWhateverHappensNothingIsPaidTwice(t *testing.T) {
	seed, runs := number(t, "ROAMCARD_SEED", time.Now().UnixNano()&0xffffffff), number(t, "ROAMCARD_RUNS", 150)
	t.Logf("seed %d, %d runs", seed, runs)
	var total, sent, taken int
	for i := range runs {
		var w *world
		synctest.Test(t, func(t *testing.T) {
			w = newWorld(t, seed+i)
			w.live()
		})
		if testing.Verbose() && runs == 1 {
			t.Log(strings.Join(w.story, "\n"))
		}
		total, sent, taken = total+len(w.story), sent+len(w.sent), taken+len(w.service.Token.Transfers())
		if len(w.wrong) > 0 {
			t.Fatalf("ROAMCARD_SEED=%d ROAMCARD_RUNS=1 repeats it:\n%s\nwrong: %s", seed+i, strings.Join(w.story, "\n"),
				strings.Join(w.wrong, "\nwrong: "))
		}
	}
	t.Logf("seed %d: %d runs, %d events, %d authorizations sent, %d transfers", seed, runs, total, sent, taken)
	// A network that lets nothing through proves nothing.
	if sent == 0 || taken == 0 {
		t.Errorf("%d authorizations were sent and %d taken", sent, taken)
	}
}

func number(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// world is what outlives a process: the service, the wallet, the journal on its disk, and who watches them.
type world struct {
	t       *testing.T
	service *roamcardtest.Service
	wallet  *roamcard.KeySigner
	disk    *roamcard.MemoryStore
	cap     roamcard.Cents

	// suspended is how long nothing ran and no timer went on, skew how far the machine's clock is ahead of the world's.
	suspended, skew atomic.Int64

	mu    sync.Mutex
	rng   *rand.Rand
	story []string
	wrong []string
	sent  []sent
	// dead counts how often the service called a payment of a key dead.
	dead map[string]int
}

const walletKey = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"

func newWorld(t *testing.T, seed int64) *world {
	t.Helper()
	wallet, err := roamcard.NewKeySigner(walletKey)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, wallet: wallet, disk: roamcard.NewMemoryStore(), rng: rand.New(rand.NewPCG(uint64(seed), 13)),
		dead: map[string]int{},
	}
	w.service = roamcardtest.New(roamcardtest.Config{Now: w.now})
	w.cap = []roamcard.Cents{100, 500, 3000, 6000}[w.rng.IntN(4)]
	return w
}

func (w *world) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, w.local().Format("02 15:04:05 ")+fmt.Sprintf(format, args...))
}

// now is the world's time, by which the chain goes, and local that of the machine.
func (w *world) now() time.Time   { return time.Now().Add(time.Duration(w.suspended.Load())) }
func (w *world) local() time.Time { return w.now().Add(time.Duration(w.skew.Load())) }

// skews are how far a clock may be ahead and still be let pass. far is further than that, and longer than a payment is
// good for.
var skews = []time.Duration{0, 55 * time.Second, -5 * time.Second, -55 * time.Second}

const far = 200 * time.Second

// jump sets the machine's clock forward or back, or lets a machine sleep past the end of its payments.
func (w *world) jump(to ...time.Duration) {
	if kind := w.draw(len(to) + 1); kind < len(to) {
		w.skew.Store(int64(to[kind]))
		w.tell("the clock is %s ahead", to[kind])
		return
	}
	w.suspended.Add(int64(far))
	w.tell("the machine was suspended")
}

// live makes up one story.
func (w *world) live() {
	w.tell("cap %s", w.cap)
	p := w.start()
	for range 10 + w.draw(15) {
		if p.isDead() || w.draw(12) == 0 {
			p = w.start()
		}
		p.plan(w.draw(3), w.draw(6))
		switch w.draw(11) {
		case 0:
			p = w.together(p)
		case 1:
			all, err := p.client.ResumeAll(context.Background())
			w.tell("resume all: %d, %v", len(all), err)
		case 2, 3:
			time.Sleep(time.Duration([]int{5, 60, 110, 181, 3600, 25 * 3600}[w.draw(6)]) * time.Second)
		case 4:
			w.steal()
		case 5:
			w.jump(append(skews, far)...)
		default:
			p.buy(max(0, w.draw(5)-2), w.draw(4))
		}
		w.look()
		if len(w.wrong) > 0 {
			return
		}
	}
}

// together makes calls of one key at the same time, in one process and in another one on the same disk.
func (w *world) together(p *process) *process {
	what, key := max(0, w.draw(5)-2), w.draw(3)
	other := w.start()
	other.plan(w.draw(3), w.draw(6))
	var calls sync.WaitGroup
	for i := range 2 + w.draw(2) {
		calls.Go(func() { []*process{p, other}[i%2].buy(what, key) })
	}
	calls.Wait()
	return other
}

// steal takes a payment that came before.
func (w *world) steal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sent) > 0 {
		one := w.sent[w.rng.IntN(len(w.sent))]
		w.story = append(w.story, fmt.Sprintf("the payment of %s is taken: %q", one.key, w.service.Token.Take(one.header)))
	}
}

// process is a program that buys, until it crashes.
type process struct {
	world  *world
	client *roamcard.Client

	mu      sync.Mutex
	crashed bool
	// crashIn counts the steps to the crash, jumpIn those to a jump of the clock, fullIn the writes to a disk that is
	// full; zero is never.
	crashIn, jumpIn, fullIn int
	// mood is how the service and the network behave: 0 well, 1 badly, 2 as a thief.
	mood int
}

func (w *world) start() *process {
	p := &process{world: w}
	replays := 2
	client, err := roamcard.New(roamcard.Config{
		BaseURL: w.service.URL(), Signer: signer{w.wallet, p}, Store: store{w.disk, p}, HTTP: network{p},
		MaxReplays: &replays, Now: w.local,
		Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 2500, MaxPerDay: w.cap},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	p.client = client
	return p
}

// plan says what is to go wrong next.
func (p *process) plan(mood, accident int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mood, p.crashIn, p.jumpIn, p.fullIn = mood, 0, 0, 0
	switch accident {
	case 0:
		p.crashIn = 1 + p.world.draw(30)
	case 1:
		p.fullIn = 1 + p.world.draw(5)
	case 2:
		p.jumpIn = 1 + p.world.draw(20)
	}
	p.world.tell("mood %d, crash in %d, full in %d, jump in %d", mood, p.crashIn, p.fullIn, p.jumpIn)
}

var errCrash = errors.New("the process has crashed")

// step is where a process may crash; from then on it does nothing.
func (p *process) step(at string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.crashed {
		return errCrash
	}
	if p.jumpIn--; p.jumpIn == 0 {
		p.world.jump(skews...)
	}
	if p.crashIn--; p.crashIn == 0 {
		p.crashed = true
		p.world.tell("crash: %s", at)
		return errCrash
	}
	return nil
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.crashed
}

// buy buys under one of three keys, or under none.
func (p *process) buy(what, k int) {
	ctx, w := context.Background(), p.world
	operations := []string{"esim", "card", "topup"}
	key := ""
	if k < 3 {
		key = operations[what] + "-" + strconv.Itoa(k)
	}
	before, earlier := w.sentCount(key)
	var bought *roamcard.Purchase
	var err error
	switch operations[what] {
	case "card":
		bought, err = p.client.Cards.Purchase(ctx, key)
	case "topup":
		bought, err = p.client.Cards.TopUp(ctx, 2500, key)
	default:
		var esim *roamcard.BoughtESIM
		if esim, err = p.client.ESIM.Purchase(ctx, "", key); err == nil {
			bought = &esim.Purchase
		}
	}
	if err != nil {
		w.tell("buy %s %q: %v", operations[what], key, err)
		// Under a key that others use at the same time, what was sent before this call.
		after, _ := w.sentCount("")
		if sent := earlier || key == "" && after > before; sent && keyOf(err) == "" && !p.isDead() {
			w.fail("an authorization was sent under a key that is not told: %v", err)
		}
		return
	}
	w.tell("buy %s %q: %s", operations[what], key, bought.Order.GetOrderId())
}

// keyOf is what an error says to call again with.
func keyOf(err error) string {
	if e, ok := errors.AsType[*roamcard.AmbiguousPaymentError](err); ok {
		return e.IdempotencyKey
	}
	if e, ok := errors.AsType[*roamcard.PaymentError](err); ok {
		return e.IdempotencyKey
	}
	if e, ok := errors.AsType[*roamcard.JournalError](err); ok {
		return e.IdempotencyKey
	}
	if e, ok := errors.AsType[*roamcard.APIError](err); ok {
		return e.IdempotencyKey
	}
	return ""
}

// signer is the wallet as a process reaches it.
type signer struct {
	*roamcard.KeySigner
	process *process
}

func (s signer) SignTypedData(ctx context.Context, doc roamcard.TypedData) ([]byte, error) {
	if err := s.process.step("before it signs"); err != nil {
		return nil, err
	}
	signature, err := s.KeySigner.SignTypedData(ctx, doc)
	return signature, errors.Join(err, s.process.step("after it signed"))
}

// store is the disk as a process reaches it.
type store struct {
	*roamcard.MemoryStore
	process *process
}

func (s store) Read(ctx context.Context) (roamcard.Book, error) {
	if err := s.process.step("before it reads the journal"); err != nil {
		return roamcard.Book{}, err
	}
	return s.MemoryStore.Read(ctx)
}

func (s store) Update(ctx context.Context, change func(*roamcard.Book) error) error {
	if err := s.process.step("before it writes the journal"); err != nil {
		return err
	}
	s.process.mu.Lock()
	s.process.fullIn--
	full := s.process.fullIn == 0
	s.process.mu.Unlock()
	if full {
		s.process.world.tell("the disk is full")
		return &roamcard.JournalError{File: "journal.json", Reason: roamcard.JournalFull, Err: errors.New("no space left")}
	}
	if err := s.MemoryStore.Update(ctx, change); err != nil {
		return err
	}
	return s.process.step("after it wrote the journal")
}
