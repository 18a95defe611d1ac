package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/x402"
)

// goods are what is kept of eSIMs and of the closings of cards.
type goods struct {
	esims interface {
		esim.Store
		esim.TopupStore
		esim.CancelStore
	}
	journal  esim.Journal
	closings interface {
		card.CloseJobs
		card.CloseStore
	}
}

const twinSupplier = "supplier"

func goodsOf(s checkouttest.Store) goods {
	if m := s.Memory; m != nil {
		return goods{m.Esims(), m.SupplierJournal(twinSupplier), struct {
			card.CloseJobs
			card.CloseStore
		}{m.Closings(), m.Cards()}}
	}
	p := s.Postgres
	return goods{p.Esims(), p.SupplierJournal(twinSupplier), struct {
		card.CloseJobs
		card.CloseStore
	}{p.Closings(), p.Cards()}}
}

// ask is call with the goods of a store.
func (w *twins) ask(what string, f func(i int, g goods) (any, error)) (any, error) {
	w.Helper()
	return w.call(what, func(i int, s checkouttest.Store) (any, error) { return f(i, goodsOf(s)) })
}

// act is an operator's, which is done once.
func (w *twins) act() order.OperatorContext {
	return order.OperatorContext{Operator: "ada", Key: fmt.Sprint("act ", w.calls), Reason: "twins"}
}

// catalogue changes a few plans of a supplier, whose list may come late.
func (w *twins) catalogue() {
	var plans []esim.Plan
	for code := range 4 {
		if w.IntN(3) == 0 {
			continue
		}
		p := esim.Plan{
			ID: esim.PlanID(fmt.Sprint("pln_", code, "_", w.IntN(2))), Name: fmt.Sprint("plan ", w.IntN(9)), Type: esim.Country,
			Countries: []string{"FR"}, DataMB: 1024 * w.IntN(3), ValidityDays: 7,
			Price: money.Cents(100 * (1 + w.IntN(3))), Provider: twinSupplier, Code: fmt.Sprint("code ", code),
			Cost: money.USDC(1000 * (1 + w.IntN(5))), Live: w.IntN(4) > 0,
		}
		p.Unlimited = p.DataMB == 0
		plans = append(plans, p)
	}
	at, act := w.now.Add(time.Duration(w.IntN(20)-10)*time.Second), w.IntN(3)
	w.ask(fmt.Sprint("catalogue ", act), func(_ int, g goods) (any, error) {
		switch {
		case act == 0:
			return g.esims.Learn(w.Context(), twinSupplier, plans)
		case act == 1 && len(plans) > 0:
			return nil, g.esims.Withdraw(w.Context(), plans[0].ID)
		}
		return nil, g.esims.Replace(w.Context(), twinSupplier, plans, at)
	})
	w.ask("plans", func(_ int, g goods) (any, error) {
		plans, times, err := g.esims.Plans(w.Context())
		return []any{plans, times}, err
	})
	w.ask("plan", func(_ int, g goods) (any, error) { return g.esims.Plan(w.Context(), "pln_1_0") })
	w.ask("names", func(_ int, g goods) (any, error) {
		return g.esims.PlanNames(w.Context(), "pln_1_0", "pln_2_1", "pln_none")
	})
}

// profile takes a step of an eSIM of an order that is claimed.
func (w *twins) profile() {
	p, f, ok := w.claimed()
	if !ok {
		return
	}
	e := esim.Profile{
		ID: uuid.New(), Order: p.Order.ID, Plan: "pln_1", Provider: twinSupplier, Status: esim.Ordered,
		Ref: fulfilment.Ref(uuid.New()), CreatedAt: w.now, UpdatedAt: w.now,
	}
	if known, ok := pick(w, w.profiles); ok && w.IntN(3) > 0 {
		e = known
	}
	act := w.IntN(5)
	got, err := w.ask(fmt.Sprint("profile ", act), func(i int, g goods) (any, error) {
		switch act {
		case 0:
			return nil, g.esims.Fail(w.Context(), f[i], e.ID)
		case 1, 2:
			e.Status, e.Account, e.Cost = esim.Ready, "sup "+e.ID.String(), 4_000_000
			e.ActivationData = esim.Sealed{Key: "old", Box: []byte("box")}
			return nil, g.esims.Install(w.Context(), f[i], e, e.Postings())
		}
		return g.esims.Reserve(w.Context(), f[i], e)
	})
	if made, ok := got.(esim.Profile); ok && err == nil {
		w.profiles = append(w.profiles, made)
	}
	w.ask("profiles", func(_ int, g goods) (any, error) { return g.esims.Profiles(w.Context(), e.Order, "ord_none") })
}

// seal changes the key of activation data, and the token of an order.
func (w *twins) seal() {
	e, ok := pick(w, w.profiles)
	if !ok {
		return
	}
	was := esim.Sealed{Key: []string{"old", "new"}[w.IntN(2)], Box: []byte("box")}
	w.ask("reseal", func(_ int, g goods) (any, error) {
		return nil, g.esims.Reseal(w.Context(), e.ID, was, esim.Sealed{Key: "new", Box: []byte("box")})
	})
	w.ask("foreign", func(_ int, g goods) (any, error) {
		found, err := g.esims.Foreign(w.Context(), "new", 1000)
		slices.SortFunc(found, func(a, b esim.Profile) int { return bytes.Compare(a.ID[:], b.ID[:]) })
		return found, err
	})
	of := e.Order
	if w.IntN(5) == 0 {
		of = "ord_none"
	}
	w.ask("rotate", func(_ int, g goods) (any, error) { return g.esims.Rotate(w.Context(), of, w.now.Add(time.Hour)) })
	w.ask("token", func(_ int, g goods) (any, error) {
		v, found, err := g.esims.Token(w.Context(), of)
		return []any{v, found}, err
	})
}

// topup adds data to an eSIM.
func (w *twins) topup() {
	p, f, ok := w.claimed()
	e, bought := pick(w, w.profiles)
	if !ok || !bought {
		return
	}
	u := esim.Topup{
		ID: uuid.New(), Order: p.Order.ID, Profile: e.ID, Plan: "pln_1", Provider: twinSupplier, Status: esim.Ordered,
		Ref: fulfilment.Ref(uuid.New()), CreatedAt: w.now, UpdatedAt: w.now,
	}
	if known, ok := pick(w, w.topups); ok && w.IntN(2) == 0 {
		u = known
	}
	act := w.IntN(5)
	got, err := w.ask(fmt.Sprint("topup ", act), func(i int, g goods) (any, error) {
		switch act {
		case 0:
			u.Status, u.Account, u.Cost = esim.Ready, "top "+u.ID.String(), 1_000_000
			return nil, g.esims.CompleteTopup(w.Context(), f[i], u, u.Postings())
		case 1, 2:
			return nil, g.esims.FailTopup(w.Context(), f[i], u.ID)
		}
		return g.esims.ReserveTopup(w.Context(), f[i], u)
	})
	if made, ok := got.(esim.Topup); ok && err == nil {
		w.topups = append(w.topups, made)
	}
}

// leased lease the job of a kind and a key in both stores, where it is due.
func (w *twins) leased(kind job.Kind, class job.Class, key string) (fences [2]job.Fence, ok bool) {
	for i, s := range w.both {
		rows, err := s.Jobs.Claim(w.Context(), "w", class, []job.Kind{kind}, 100, time.Hour)
		if err != nil {
			w.Fatal(err)
		}
		for _, row := range rows {
			leases := w.leases[row.UniqueKey]
			leases[i] = row.Fence()
			w.leases[row.UniqueKey] = leases
		}
	}
	fences, ok = w.leases[key]
	return fences, ok
}

// finish ends what is leased: it waits for an operator, or is done.
func (w *twins) finish(key string, fences [2]job.Fence) {
	done := job.Review("see for yourself")
	if w.IntN(3) == 0 {
		done = job.Done()
	}
	w.call("finish", func(i int, s checkouttest.Store) (any, error) {
		return nil, s.Jobs.Finish(w.Context(), fences[i], done)
	})
	delete(w.leases, key)
}

// cancel takes a step of giving an eSIM back.
func (w *twins) cancel() {
	e, ok := pick(w, w.profiles)
	if !ok {
		return
	}
	a := esim.CancelArgs{Order: e.Order, Profile: e.ID, Stage: esim.StageCancelling, Since: w.now}
	key := string(e.Order)
	switch w.IntN(6) {
	case 0, 1:
		w.ask("begin to cancel", func(_ int, g goods) (any, error) { return g.esims.BeginCancel(w.Context(), a) })
	case 2, 3:
		fences, ok := w.leased(esim.CancelJob, job.Deliver, key)
		if !ok {
			return
		}
		a.Stage = []esim.CancelStage{esim.StageKept, esim.StageRefunding, esim.StageRefunding}[w.IntN(3)]
		if a.Stage == esim.StageRefunding {
			a.Credit, a.Refund = 2_000_000, 1_000_000
		}
		w.ask("save "+string(a.Stage), func(i int, g goods) (any, error) {
			return nil, g.esims.SaveCancel(w.Context(), fences[i], a, a.Postings()...)
		})
		w.finish(key, fences)
	case 4:
		act := w.act()
		w.ask("retry", func(_ int, g goods) (any, error) {
			return g.esims.RetryCancel(w.Context(), e.Order, w.now, act)
		})
	case 5:
		act, by := w.act(), x402.Hash{31: byte(w.IntN(3))}
		w.ask("conclude", func(_ int, g goods) (any, error) {
			return g.esims.ConcludeCancel(w.Context(), e.Order, by, w.now, act)
		})
	}
	w.ask("cancellation", func(_ int, g goods) (any, error) { return g.esims.Cancellation(w.Context(), e.Order) })
	w.ask("refunding", func(_ int, g goods) (any, error) {
		c, owner, signed, err := g.esims.CancelRefunding(w.Context(), e.Order)
		return []any{c, owner, signed}, err
	})
	w.list("cancellations", func(g goods, q job.Query) ([]job.Row, error) {
		return g.esims.Cancellations(w.Context(), q, order.OperatorContext{Operator: "ada"})
	})
}

// list compares what operators see of jobs.
func (w *twins) list(what string, read func(g goods, q job.Query) ([]job.Row, error)) {
	q := job.Query{Limit: 1 + w.IntN(5)}
	if w.IntN(2) == 0 {
		all := []job.Status{job.Queued, job.Processing, job.Succeeded, job.OperatorReview}
		q.Status = all[w.IntN(len(all))]
	}
	w.ask(what, func(_ int, g goods) (any, error) {
		rows, err := read(g, q)
		return rowsTold(rows...), err
	})
}

// rowsTold is what both stores say alike of jobs.
func rowsTold(rows ...job.Row) (all []string) {
	for _, r := range rows {
		var payload map[string]any
		_ = json.Unmarshal(r.Payload, &payload) // then it shows
		text, _ := json.Marshal(payload)        // in the order of its keys
		all = append(all, fmt.Sprint(r.Kind, r.UniqueKey, r.Of, r.Status, r.Attempt, r.Version, r.Step, r.LastError,
			r.FinishedAt == nil, string(text)))
	}
	return all
}

// close takes a step of the closing of a card.
func (w *twins) close() {
	c, ok := pick(w, w.cards)
	if !ok {
		return
	}
	args := card.CloseArgs{Card: c.ID, Order: string(c.Order), Stage: card.StageLocking, Since: w.now, Remainder: 500}
	next := func(was job.Row) (card.CloseArgs, error) {
		a, err := job.Decode[card.CloseArgs](was)
		if a.Stage != card.StageRefunding && w.calls%2 == 0 {
			return a, errNotNow
		}
		a.Since = w.now
		return a, err
	}
	key, act := c.ID.String(), w.act()
	ids := [2]uuid.UUID{}
	for i, s := range w.both {
		row, _, err := s.Jobs.Find(w.Context(), card.CloseJob, key)
		if err != nil {
			w.Fatal(err)
		}
		ids[i] = row.ID
	}
	if w.IntN(3) == 0 {
		act.Version = 1 + w.IntN(6)
	}
	switch w.IntN(6) {
	case 0, 1:
		w.ask("close", func(_ int, g goods) (any, error) {
			row, err := g.closings.OrderClosing(w.Context(), c.ID, func(f card.ClosingFacts) (card.CloseArgs, error) {
				if f.Order != order.Fulfilled && len(f.Order)%2 == 0 {
					return args, errNotNow
				}
				return args, nil
			}, act)
			return rowsTold(row), err
		})
	case 2, 3:
		fences, ok := w.leased(card.CloseJob, job.Deliver, key)
		if !ok {
			return
		}
		args.Stage = []card.Stage{card.StageWithdrawing, card.StageRefunding, card.StageEnding}[w.IntN(3)]
		w.ask("save "+string(args.Stage), func(i int, g goods) (any, error) {
			return nil, g.closings.SaveClosing(w.Context(), fences[i], args, args.Postings()...)
		})
		w.finish(key, fences)
	case 4:
		w.ask("retry", func(i int, g goods) (any, error) {
			row, err := g.closings.RetryClosing(w.Context(), ids[i], next, act)
			return rowsTold(row), err
		})
	case 5:
		by := x402.Hash{31: byte(w.IntN(3))}.String()
		w.ask("conclude", func(i int, g goods) (any, error) {
			row, err := g.closings.ConcludeRefund(w.Context(), ids[i], func(was job.Row) (card.CloseArgs, error) {
				a, err := next(was)
				a.Stage, a.ByHand = card.StageEnding, by
				return a, err
			}, act)
			return rowsTold(row), err
		})
	}
	w.ask("refunding", func(i int, g goods) (any, error) {
		row, owner, signed, err := g.closings.Refunding(w.Context(), ids[i])
		return []any{rowsTold(row), owner, signed}, err
	})
	w.ask("inspect", func(_ int, g goods) (any, error) {
		seen, err := g.closings.Inspect(w.Context(), c.ID, act)
		return []any{seen.Card.Owner, seen.Card.Status, seen.Loaded}, err
	})
	w.list("closings", func(g goods, q job.Query) ([]job.Row, error) {
		return g.closings.Closings(w.Context(), q, order.OperatorContext{Operator: "ada"})
	})
}

var errNotNow = errors.New("not now")

// journal keeps what was sent to a supplier.
func (w *twins) journal() {
	ref, account := fulfilment.Ref{15: byte(w.IntN(8))}, strings.Repeat("a", w.IntN(4))
	s := esim.Sent{Ref: ref, Code: fmt.Sprint("code ", w.IntN(2)), Cost: 1000, At: w.now}
	act := w.IntN(4)
	w.ask(fmt.Sprint("journal ", act), func(_ int, g goods) (any, error) {
		switch act {
		case 0, 1:
			return nil, g.journal.Begin(w.Context(), s)
		case 2:
			return nil, g.journal.Name(w.Context(), ref, account)
		}
		return g.journal.Sent(w.Context(), ref)
	})
	w.ask("sent between", func(_ int, g goods) (any, error) {
		return g.journal.SentBetween(w.Context(), s.Code, w.now.Add(-time.Minute), w.now)
	})
	w.ask("named", func(_ int, g goods) (any, error) { return g.journal.Named(w.Context(), []string{"a", "aa", account}) })
}
