package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
)

const (
	// restartAfter is how long a service manager waits before it starts a process again that has died: RestartSec of the
	// units in packaging/systemd.
	restartAfter = 2 * time.Second
	// lossTimeout bounds what has to happen after one loss.
	lossTimeout = 3 * time.Minute
)

// loss is one process that dies.
type loss struct {
	what string
	// strike kills it, and again starts it again.
	strike, again func(context.Context) error
	// alone says that there is no other of its kind: it is started again after restartAfter, as a service manager does.
	// Otherwise it stays away until purchases went on without it.
	alone bool
	// notes, if set, waits for and tells what happens besides purchases.
	notes func(context.Context) (string, error)
}

// losses are all, in the order in which they are tried.
func (c *cluster) losses() []loss {
	var all []loss
	for _, p := range slices.Concat(c.servers, c.workers) {
		all = append(all, c.lossOf(p, false))
	}
	return append(all, c.lossOf(c.pgbouncer, true), c.primaryCrashes(), c.machineDies(roleLeader),
		c.machineDies(roleStandby), c.etcdLeaderDies(), c.lossOf(c.haproxy, true))
}

// lossOf is that of one process.
func (c *cluster) lossOf(p *process, alone bool) loss {
	return loss{
		what: p.name + " killed", alone: alone,
		strike: func(context.Context) error { return p.kill() },
		again:  func(context.Context) error { return p.start() },
	}
}

// primaryCrashes kills the primary's PostgreSQL; its Patroni lives and lets the standby take over.
func (c *cluster) primaryCrashes() loss {
	before := 0
	var at time.Time
	return loss{
		what: "PostgreSQL of the primary killed",
		strike: func(ctx context.Context) (err error) {
			if before, err = c.has(ctx, roleLeader); err != nil {
				return err
			}
			at = time.Now()
			return c.killDatabase(before)
		},
		notes: func(ctx context.Context) (string, error) { return c.tellPromotion(ctx, before, at) },
		again: func(context.Context) error { return nil }, // its Patroni brings it back
	}
}

// machineDies kills a Patroni together with its PostgreSQL.
func (c *cluster) machineDies(role string) loss {
	which := 0
	var at time.Time
	l := loss{
		what: "machine of the standby lost",
		strike: func(ctx context.Context) (err error) {
			if which, err = c.has(ctx, role); err != nil {
				return err
			}
			at = time.Now()
			return c.killMachine(which)
		},
		again: func(context.Context) error { return c.patroni[which].start() },
	}
	if role == roleLeader {
		l.what = "machine of the primary lost"
		l.notes = func(ctx context.Context) (string, error) { return c.tellPromotion(ctx, which, at) }
	}
	return l
}

func (c *cluster) tellPromotion(ctx context.Context, before int, at time.Time) (string, error) {
	now, err := c.promoted(ctx, before)
	if err != nil {
		return "", fmt.Errorf("wait for the promotion: %w", err)
	}
	return fmt.Sprintf("%s is the primary after %s; ", c.Nodes[now].Name, seconds(time.Since(at))), nil
}

func (c *cluster) etcdLeaderDies() loss {
	which := 0
	return loss{
		what: "leader of etcd killed",
		strike: func(ctx context.Context) (err error) {
			if which, err = c.etcdLeader(ctx); err != nil {
				return err
			}
			return c.etcd[which].kill()
		},
		again: func(context.Context) error { return c.etcd[which].start() },
	}
}

// walk takes one process after the other away, and buys.
type walk struct {
	*cluster
	shop   shopper
	bought []bought

	passed, failed int
}

// tell prints how one step went, and counts it.
func (w *walk) tell(what, how string, err error) {
	if err != nil {
		w.failed++
		w.say("FAILED  %-33s %v", what, err)
		return
	}
	w.passed++
	w.say("ok      %-33s %s", what, how)
}

// run goes through all losses and compares the books afterwards. Its error says that it did not get that far.
func (w *walk) run(ctx context.Context) error {
	how, err := w.calm(ctx)
	w.tell("all is running", how, err)
	for i, l := range w.losses() {
		how, err := w.lose(ctx, l, i)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.tell(l.what, how, err)
		if err := w.restore(ctx); err != nil {
			return fmt.Errorf("%s: what was lost does not come back: %w", l.what, err)
		}
	}
	for _, check := range w.checks() {
		how, err := check.look(ctx)
		w.tell(check.what, how, err)
	}
	return ctx.Err()
}

// calm buys while nothing is lost.
func (w *walk) calm(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lossTimeout)
	defer cancel()
	began := time.Now()
	one := w.shop.begin(ctx, w.buyer(firstESIMBuyer), anESIM)
	if err := w.collect([]*purchase{one}); err != nil {
		return "", err
	}
	return "an eSIM is delivered after " + seconds(one.bought.At.Sub(began)), nil
}

// firstESIMBuyer is the first wallet that buys eSIMs. Those before it buy a card each, as a wallet owns one.
const firstESIMBuyer = 12

func (w *walk) buyer(i int) devnet.Wallet { return devnet.WalletsOf(devnet.RoleBuyer)[i] }

// lose begins four purchases, takes something away when their payments are signed, and lets more buyers come.
func (w *walk) lose(ctx context.Context, l loss, number int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lossTimeout)
	defer cancel()
	under := []*purchase{w.shop.begin(ctx, w.buyer(number), aCard)}
	for i := range 3 {
		under = append(under, w.shop.begin(ctx, w.buyer(firstESIMBuyer+i), anESIM))
	}
	for _, p := range under {
		select {
		case <-p.signed:
		case <-p.ended:
		}
	}
	at := time.Now()
	if err := l.strike(ctx); err != nil {
		return "", errors.Join(err, w.collect(under))
	}
	restarted := make(chan error, 1)
	if l.alone {
		time.AfterFunc(restartAfter, func() { restarted <- l.again(ctx) })
	}
	told := make(chan error, 1)
	notes := ""
	go func() {
		var err error
		if l.notes != nil {
			notes, err = l.notes(ctx)
		}
		told <- err
	}()
	later := w.come(ctx)
	err := errors.Join(<-told, w.collect(append(later, under...)))
	if l.alone {
		err = errors.Join(err, <-restarted)
		notes += "started again after " + seconds(restartAfter) + "; "
	} else {
		err = errors.Join(err, l.again(ctx))
	}
	if err != nil {
		return "", err
	}
	first := slices.MinFunc(later, func(a, b *purchase) int { return a.bought.At.Compare(b.bought.At) })
	last := slices.MaxFunc(under, func(a, b *purchase) int { return a.bought.At.Compare(b.bought.At) })
	return fmt.Sprintf("%sthe next purchase is delivered after %s, the last of 4 under way after %s", notes,
		seconds(first.bought.At.Sub(at)), seconds(last.bought.At.Sub(at))), nil
}

// mostBuyers bounds how many come after one loss: those of half a minute.
const mostBuyers = 30

// come begins a purchase every second, until one of them has ended.
func (w *walk) come(ctx context.Context) (all []*purchase) {
	each := time.NewTicker(time.Second)
	defer each.Stop()
	one := make(chan struct{})
	ended := sync.OnceFunc(func() { close(one) })
	for len(all) < mostBuyers {
		p := w.shop.begin(ctx, w.buyer(firstESIMBuyer+3+len(all)%5), anESIM)
		go func() { <-p.ended; ended() }()
		all = append(all, p)
		select {
		case <-one:
			return all
		case <-each.C:
		}
	}
	return all
}

// collect waits for purchases and keeps what was bought. Its error is that of the first which failed.
func (w *walk) collect(all []*purchase) error {
	var first error
	failed := 0
	for _, p := range all {
		<-p.ended
		if p.err == nil {
			w.bought = append(w.bought, p.bought)
			continue
		}
		failed++
		first = cmp.Or(first, p.err)
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("%d of %d purchases failed; the first: %w", failed, len(all), first)
}

// restore waits until what was lost is back.
func (w *walk) restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lossTimeout)
	defer cancel()
	return w.whole(ctx)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
