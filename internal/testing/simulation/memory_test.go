package simulation_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/availability"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/product/topup"
	"github.com/roamcard/roamcard/internal/provider"
	"github.com/roamcard/roamcard/internal/provider/esimaccess"
	"github.com/roamcard/roamcard/internal/provider/esimgo"
	"github.com/roamcard/roamcard/internal/provider/lithic"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/provider/sandbox/trigger"
	"github.com/roamcard/roamcard/internal/provider/stripe"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store/memory"
	"github.com/roamcard/roamcard/internal/testing/invariants"
	"github.com/roamcard/roamcard/internal/x402"
)

// inMemory are the records in memory, and over them the packages of the domain alone, for many purchases in little
// time: each call of the store is one of the bus, and the chain is asked at its ports.
type inMemory struct {
	*world
	disk     *memory.Disk
	settings app.Config
}

// keepInMemory gives a world an empty store.
func (w *world) keepInMemory() {
	w.token = newToken(w.chain)
	r := &inMemory{world: w, settings: w.config("postgres://nobody@nowhere/none", nil)}
	hook := r.call
	if w.plan.ported {
		hook = nil
	}
	r.disk = memory.NewDisk(time.Now, hook)
	w.records = r
}

// call is a call of the store.
func (r *inMemory) call(ctx context.Context, name, op string) (func(error) error, error) {
	p := r.named(name)
	if p == nil {
		return nil, errDead
	}
	g, err := r.bus.ask(p, "db "+op, ctx.Done())
	if err == nil {
		err = g.before(p)
	}
	if err != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	return func(err error) error {
		if lost := g.after(p, ctx.Done()); lost != nil {
			return errors.Join(lost, ctx.Err())
		}
		return err
	}, nil
}

// named is the running process of a name.
func (w *world) named(name string) *process {
	for _, s := range w.slots {
		if p := w.running(s); p != nil && p.name == name {
			return p
		}
	}
	return nil
}

// shop is the domain as one process runs it.
type shop struct {
	*checkout.Checkout
	queue  job.Queue
	runner *job.Runner
	starts []job.New
}

// open implements records.
func (r *inMemory) open(_ context.Context, p *process) (program, error) {
	kept := r.disk.Open(p.name, r.clockOf(p))
	s := stored{
		orders: kept.Orders(), cards: kept.Cards(), jobs: kept.Jobs(), esims: kept.Esims(),
		journal: func(supplier string) esim.Journal { return kept.SupplierJournal(supplier) },
	}
	if r.plan.ported {
		told := func() error { return nil }
		s = ported{process: p.name, hook: r.call, tell: told, randomize: r.bus.randomize}.over(s)
	}
	return r.shop(p, s)
}

// shop wires the domain over a store.
func (r *inMemory) shop(p *process, kept stored) (program, error) {
	now := r.clockOf(p)
	s := &shop{queue: kept.jobs}
	log := r.log.With("process", p.name)
	live := availability.Workers(kept.jobs, now)
	c := r.settings
	working := func() time.Time { return s.runner.Working() }
	cards, err := r.cards(p, c, kept, live(settlement.Fulfilling, card.FeeJob), working)
	if err != nil {
		return nil, err
	}
	esims, err := r.esims(p, c, kept, live(settlement.Fulfilling, esim.Syncing), working)
	if err != nil {
		return nil, err
	}
	sold := []trigger.Product{{Inner: cards}, {Inner: topup.Topups{Cards: cards}}, {Inner: esims}}
	head, final := atPort{r.token, p, r.bus, 0}, atPort{r.token, p, r.bus, finalAfter}
	refunds, collect, err := r.treasury(head, now, log)
	if err != nil {
		return nil, err
	}
	settles := settlement.New(settlement.Config{
		Store: kept.orders, Products: as[settlement.Product](sold), Chain: head, Final: final, FinalTime: final.Time,
		Collect: collect, Refunds: refunds, Log: log, Now: now, Working: working, HeadTime: head.Time,
		Float: func(ctx context.Context, resource string, units int64) (order.Reservation, error) {
			if of, ok, err := cards.FloatOf(ctx, resource, units); ok || err != nil {
				return of, err
			}
			of, _, err := esims.FloatOf(ctx, resource, units)
			return of, err
		},
	})
	s.runner = job.NewRunner(job.Config{
		Queue: s.queue, Log: log, Now: now, Slots: 64,
		OnParked: func(ctx context.Context, l *job.Lease, reason string) error {
			if l.Row().Kind != settlement.Fulfilling {
				return nil
			}
			return settles.Park(ctx, l, reason)
		},
	})
	s.runner.Register(settlement.Fulfilling, settles.Fulfill)
	s.runner.Register(settlement.Confirming, settles.Confirm)
	s.runner.Register(settlement.RefundConfirming, settles.ConfirmRefund)
	closings := &card.Closings{Cards: cards, Store: kept.cards, Refunds: settles}
	for _, w := range append(append(cards.Jobs(), esims.Jobs()...), closings.Jobs()...) {
		s.runner.Add(w)
		if w.Start != nil {
			s.starts = append(s.starts, *w.Start)
		}
	}
	s.Checkout = checkout.New(checkout.Config{
		Store: kept.orders, Products: as[checkout.Product](sold), Terms: r.terms(), Chain: head,
		Settlement: trigger.Settlement{Settler: settles, Wait: waitFor}, Runner: s.runner, Recovered: kept.orders,
		Log: log, Now: now, QuoteKey: make([]byte, 32), Wait: waitFor,
	})
	return s, nil
}

// waitFor is how long a purchase waits for its settlement. No two of its timers end in the same moment, of which the
// runtime would choose one.
const waitFor = 19987 * time.Millisecond

func as[T any](sold []trigger.Product) (all []T) {
	for _, p := range sold {
		all = append(all, any(p).(T))
	}
	return all
}

func (r *inMemory) terms() payment.Terms {
	to, err := x402.ParseAddress(walletOf(devnet.RolePayee).Address)
	if err != nil {
		panic(err)
	}
	return payment.Terms{
		Network: x402.NetworkID, Asset: domain().Contract, PayTo: to, Domain: domain(), MaxTimeout: 2 * time.Minute,
		Margin: payment.MinMargin, MaxValidity: 25 * time.Hour,
	}
}

// treasury is who refunds, and how payments are collected.
func (r *inMemory) treasury(head atPort, now func() time.Time, log *slog.Logger) (
	settlement.Refunds, *payment.Collector, error,
) {
	key, err := crypto.HexToECDSA(strings.TrimPrefix(walletOf(devnet.RoleTreasury).PrivateKey, "0x"))
	if err != nil {
		return settlement.Refunds{}, nil, err
	}
	collect := payment.NewCollector(payment.CollectorConfig{
		Chain: head, Settler: head, Timeout: callTimeout, Log: log,
	})
	return settlement.Refunds{
		Deadline: 24 * time.Hour, Collect: collect,
		Treasury: payment.NewTreasury(payment.TreasuryConfig{
			Signer: curve.NewLocalSigner(key), Domain: domain(), Window: time.Hour, Now: now,
		}),
	}, collect, nil
}

// callTimeout bounds calls of the chain and the providers.
const callTimeout = 5 * time.Second

// undecidedFor is how long a provider may leave undecided what it was asked for, until an operator looks. Vendors may
// for ever, and worlds end. The sandbox always says what it did, so it has the time that a deployment gives it.
func undecidedFor(provider string, deployed time.Duration) time.Duration {
	if provider == sandboxes {
		return deployed
	}
	return 5 * time.Minute
}

// made are the providers that a world may have.
var (
	madeIssuers   = []provider.Issuer{sandbox.AsIssuer(), lithic.AsIssuer(), stripe.AsIssuer()}
	madeSuppliers = []provider.Supplier{sandbox.AsSupplier(), esimaccess.AsSupplier(), esimgo.AsSupplier()}
)

func (r *inMemory) cards(
	p *process, c app.Config, kept stored, live availability.Check, working func() time.Time,
) (*card.Cards, error) {
	at := slices.IndexFunc(madeIssuers, func(i provider.Issuer) bool { return i.Name == c.IssuerProvider })
	of, err := madeIssuers[at].Dial(provider.Config{
		URL: c.IssuerURL, Key: c.IssuerKey, CallTimeout: callTimeout, VisibilityDelay: c.IssuerVisibilityDelay, Own: c.Own,
		HTTP: r.client(p), Log: r.log,
	})
	if err != nil {
		return nil, err
	}
	sold := card.Provider{
		Name: c.IssuerProvider, Programme: c.Own.Text(madeIssuers[at].ProgrammeKey), Issuer: of, Vault: of, Stock: of,
		Lister: of, Traits: of.Traits(), Capabilities: of.Capabilities(),
	}
	// What an issuer does not offer stays nil.
	sold.Controls, _ = of.(card.Controls)
	sold.Closer, _ = of.(card.Closer)
	sold.Embed, _ = of.(card.Embed)
	return card.New(card.Config{
		Store: kept.cards, Now: r.clockOf(p), Workers: live, Poll: c.IssuerPoll, CallTimeout: callTimeout,
		Deadline: undecidedFor(c.IssuerProvider, c.IssuerDeadline), Working: working, Providers: []card.Provider{sold},
		Log: r.log,
	}), nil
}

func (r *inMemory) esims(
	p *process, c app.Config, kept stored, live availability.Check, working func() time.Time,
) (*esim.Esims, error) {
	name := c.Esim.Provider
	at := slices.IndexFunc(madeSuppliers, func(s provider.Supplier) bool { return s.Name == name })
	of, err := madeSuppliers[at].Dial(provider.Config{
		URL: c.Esim.URL, Key: c.Esim.Key, CallTimeout: callTimeout, VisibilityDelay: visibilityDelay, Own: c.Own,
		HTTP: r.client(p), Journal: kept.journal(name), Log: r.log,
	})
	if err != nil {
		return nil, err
	}
	sold := esim.Provider{
		Name: name, Supplier: of, Traits: of.Traits(), Capabilities: of.Capabilities(), CallTimeout: callTimeout,
	}
	sold.Controls, _ = of.(esim.Controls)
	sold.Canceller, _ = of.(esim.Canceller)
	sold.Topper, _ = of.(esim.Topper)
	keys, err := esim.ParseKeyring(c.Esim.Keys)
	if err != nil {
		return nil, err
	}
	return esim.New(esim.Config{
		Store: kept.esims, Now: r.clockOf(p), Workers: live, Keys: keys, TokenKey: make([]byte, 32),
		MarginBPS: c.Esim.MarginBPS, StaleAfter: c.Esim.StaleAfter, SyncEvery: c.Esim.SyncEvery, Poll: c.Esim.Poll,
		CallTimeout: callTimeout, Deadline: undecidedFor(name, c.Esim.Deadline), Working: working, Waiters: c.Esim.Waiters,
		Log: r.log, Providers: []esim.Provider{sold},
	}), nil
}

// Run implements program.
func (s *shop) Run(ctx context.Context) error {
	for _, n := range s.starts {
		if _, err := s.queue.Enqueue(ctx, n); err != nil {
			return err
		}
	}
	return s.runner.Run(ctx)
}

// Close implements program.
func (*shop) Close() error { return nil }

// Handler implements program: the purchases of the REST layer, with what a buyer reads of an answer.
func (s *shop) Handler() http.Handler { return http.HandlerFunc(s.serve) }

func (s *shop) serve(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		IdempotencyKey string
		AmountUsdCents money.Cents
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p := checkout.Purchase{
		Key: asked.IdempotencyKey, Request: json.RawMessage(`{}`), Payment: r.Header.Get(x402.HeaderSignature),
		Resource: x402.Resource{URL: site + r.URL.Path},
	}
	switch r.URL.Path {
	case "/api/card/purchase":
		p.Kind = card.Kind
	case "/api/card/topup":
		p.Kind = topup.Kind
		p.Request, _ = json.Marshal(topup.Request{Gross: asked.AmountUsdCents})
	case "/api/esim/purchase":
		p.Kind = esim.Kind
	}
	sold, err := s.Buy(r.Context(), p)
	answer, status := map[string]any{}, http.StatusOK
	if err == nil {
		receipt := checkout.Receipt(sold.Payment)
		answer["orderId"], answer["status"] = sold.Order.ID, sold.Order.Status
		answer["payment"] = map[string]any{"transaction": receipt.Transaction, "amount": receipt.Amount}
	} else {
		status = http.StatusInternalServerError
		if f, ok := fault.As(err); ok {
			status = f.Status
			answer["code"], answer["safeToPayAgain"], answer["status"] = f.Code, f.SafeToPayAgain, f.Status
		}
		if challenge, ok := errors.AsType[*checkout.Challenge](err); ok {
			for name, values := range challenge.Headers() {
				w.Header()[name] = values
			}
		}
	}
	text, _ := json.Marshal(answer)
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// settled implements records.
func (r *inMemory) settled(context.Context) (bool, error) {
	rows := r.disk.Rows()
	for _, o := range rows.Orders {
		switch o.Status {
		case order.Settling, order.Settled, order.Provisioning, order.RefundPending:
			return false, nil
		}
	}
	for _, j := range rows.Jobs {
		open := j.Status == job.Queued || j.Status == job.Processing
		switch j.Kind {
		case settlement.Fulfilling, settlement.Confirming, settlement.RefundConfirming, card.FeeJob, card.CloseJob:
			if open {
				return false, nil
			}
		}
	}
	return true, nil
}

// claimed implements records.
func (r *inMemory) claimed(_ context.Context, f foreign) (bool, error) {
	for _, p := range r.disk.Rows().Payments {
		if p.Authorization.Nonce == f.authorization.Nonce {
			return true, nil
		}
	}
	return false, nil
}

// tell implements records.
func (r *inMemory) tell(b *invariants.Books) { b.Tables = tablesOf(r.disk.Rows()) }

// tablesOf are the rows with the values of the database's columns.
func tablesOf(rows memory.Rows) *invariants.Tables {
	t := &invariants.Tables{}
	for _, o := range rows.Orders {
		t.Orders = append(t.Orders, invariants.OrderRow{
			ID: string(o.ID), Kind: string(o.Kind), Status: string(o.Status), Owner: o.Owner.Lower(), Key: o.Key,
			PriceCents: int64(o.Price), Version: int64(o.Version), Card: textIn(o.Item, "card"),
		})
	}
	for _, e := range rows.Timeline {
		t.Moves = append(t.Moves, invariants.MoveRow{
			Order: string(e.Order), Version: int64(e.Version), From: string(e.From), To: string(e.To), Actor: e.Actor,
		})
	}
	for _, p := range rows.Payments {
		transaction, index := placeOf(p.Receipt)
		t.Payments = append(t.Payments, invariants.PaymentRow{
			ID: p.ID.String(), Order: string(p.Order), Status: string(p.Status), Asset: p.Asset.Lower(),
			Payer: p.Authorization.From.Lower(), PayTo: p.Authorization.To.Lower(), Value: int64(p.Authorization.Value),
			Nonce: p.Authorization.Nonce.String(), Transaction: transaction, LogIndex: index, CreatedAt: p.CreatedAt,
		})
	}
	for _, f := range rows.Refunds {
		transaction, index := placeOf(f.Receipt)
		t.Refunds = append(t.Refunds, invariants.RefundRow{
			ID: f.ID.String(), Order: string(f.Order), Status: string(f.Status), Asset: f.Asset.Lower(),
			Treasury: f.Authorization.From.Lower(), Recipient: f.Authorization.To.Lower(),
			Value: int64(f.Authorization.Value), Nonce: f.Authorization.Nonce.String(), Transaction: transaction,
			LogIndex: index,
		})
	}
	for _, c := range rows.Cards {
		t.Cards = append(t.Cards, invariants.CardRow{
			ID: c.ID.String(), Order: string(c.Order), Owner: c.Owner.Lower(), Status: string(c.Status),
			Reference: uuid.UUID(c.Ref).String(), Account: c.Account, LoadCents: int64(c.Load),
		})
	}
	for _, p := range rows.Profiles {
		t.Profiles = append(t.Profiles, invariants.ProfileRow{
			ID: p.ID.String(), Order: string(p.Order), Status: string(p.Status), Reference: uuid.UUID(p.Ref).String(),
			Account: p.Account,
		})
	}
	for _, s := range rows.Sent {
		t.Journal = append(t.Journal, invariants.JournalRow{
			Reference: uuid.UUID(s.Ref).String(), Code: s.Code, Account: s.Account,
		})
	}
	for _, h := range rows.Reservations {
		t.Reservations = append(t.Reservations, invariants.ReservationRow{
			Order: string(h.Order), Resource: h.Resource, Units: h.Units, Released: h.Released && !h.Suspended,
		})
	}
	for _, p := range rows.Postings {
		t.Postings = append(t.Postings, invariants.PostingRow{ID: string(p.ID), Order: p.Order, Kind: string(p.Kind)})
		for _, e := range p.Entries {
			t.Entries = append(t.Entries, invariants.EntryRow{
				Posting: string(p.ID), Account: string(e.Account), Amount: int64(e.Amount),
			})
		}
	}
	for _, j := range rows.Jobs {
		addJob(t, j)
	}
	return t
}

// addJob adds a job, and what is particular to its kind.
func addJob(t *invariants.Tables, j job.Row) {
	version := int64(1)
	var of struct {
		Order                  string
		Version                *int64
		Kept, Owed, WrittenOff bool
		RemainderUsdCents      int64
		Card, Stage, Reference string
		ByHand                 string
	}
	_ = json.Unmarshal(j.Payload, &of) // what is missing stays empty
	if of.Version != nil {
		version = *of.Version
	}
	t.Jobs = append(t.Jobs, invariants.JobRow{
		ID: j.ID.String(), Kind: string(j.Kind), UniqueKey: j.UniqueKey, Order: of.Order, Status: string(j.Status),
		Retry: version, Attempt: int64(j.Attempt), Leased: j.LeaseOwner != "",
	})
	switch j.Kind {
	case card.FeeJob:
		t.Fees = append(t.Fees, invariants.FeeRow{
			Job: j.ID.String(), Kept: of.Kept, Owed: of.Owed, WrittenOff: of.WrittenOff,
		})
	case card.CloseJob:
		t.Closings = append(t.Closings, invariants.ClosingRow{
			Job: j.ID.String(), Card: j.UniqueKey, Order: of.Order, Status: string(j.Status), Stage: of.Stage,
			LeftCents: of.RemainderUsdCents, Reference: of.Reference, ByHand: of.ByHand,
		})
	}
}

func placeOf(r *payment.Receipt) (transaction *string, index *int64) {
	if r == nil {
		return nil, nil
	}
	hash, at := r.Transaction.String(), int64(r.LogIndex)
	return &hash, &at
}

// textIn is a string of a JSON object, or empty.
func textIn(object json.RawMessage, name string) string {
	var all map[string]any
	_ = json.Unmarshal(object, &all) // then it has none
	text, _ := all[name].(string)
	return text
}
