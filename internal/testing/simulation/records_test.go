package simulation_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/provider/sandbox"
	"github.com/roamcard/roamcard/internal/smartaccount"
	"github.com/roamcard/roamcard/internal/store/storetest"
	"github.com/roamcard/roamcard/internal/testing/invariants"
)

// records are what a world keeps, with the program over them.
type records interface {
	// open makes the program of a process.
	open(ctx context.Context, p *process) (program, error)
	// settled reports that no order is in progress, and every payment and refund in a block that stays.
	settled(ctx context.Context) (bool, error)
	// claimed reports whether a payment has what somebody else has sent, or that it was resolved.
	claimed(ctx context.Context, f foreign) (bool, error)
	// tell says where the records are read.
	tell(b *invariants.Books)
}

// inPostgres are the records in a database of PostgreSQL, and the whole program over them.
type inPostgres struct{ *world }

// keepInPostgres gives a world a database. drop removes it.
func (w *world) keepInPostgres(s *server) (drop func()) {
	w.t.Helper()
	address, remove, err := s.database(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.url, w.db, w.records = address, &database{url: address, now: time.Now, dial: dialSocket}, &inPostgres{w}
	return func() {
		w.db.close(context.Background())
		remove()
	}
}

func (r *inPostgres) open(ctx context.Context, p *process) (program, error) {
	return app.New(ctx, r.configOf(p), app.Options{Log: r.log.With("process", p.name), Listener: newNowhere()})
}

// configOf is the configuration of a process over the database.
func (w *world) configOf(p *process) app.Config {
	c := w.config(withClock(storetest.ServiceURL(w.url)), p.settings)
	c.Outside = app.Outside{Dial: w.db.dialer(p), HTTP: w.client(p), Now: w.clockOf(p)}
	return c
}

func (r *inPostgres) tell(b *invariants.Books) { b.DatabaseURL = r.url }

func (r *inPostgres) settled(ctx context.Context) (done bool, err error) {
	conn, err := r.db.look(ctx)
	if err != nil {
		return false, err
	}
	if done, err = invariants.Settled(ctx, conn); err != nil || !done {
		return false, err
	}
	return done, r.ask(ctx, &done, `SELECT NOT EXISTS (SELECT FROM jobs
		WHERE kind IN ('payment_confirm', 'refund_confirm') AND status IN ('queued', 'processing'))`)
}

func (r *inPostgres) claimed(ctx context.Context, f foreign) (is bool, err error) {
	// What was sent back, by a refund that a restore has lost, is resolved.
	return is, r.ask(ctx, &is, `SELECT EXISTS (SELECT FROM payments WHERE nonce = $1)
		OR EXISTS (SELECT FROM transfer_resolutions WHERE starts_with(id, $2))`,
		f.authorization.Nonce.String(), f.transaction.Hex())
}

// ask asks the database past the bus.
func (r *inPostgres) ask(ctx context.Context, into *bool, sql string, args ...any) error {
	conn, err := r.db.look(ctx)
	if err != nil {
		return err
	}
	return conn.QueryRow(ctx, sql, args...).Scan(into)
}

// walletOf is the first wallet of a role. Deriving it takes long.
func walletOf(r devnet.Role) devnet.Wallet { return wallets()[r] }

var wallets = sync.OnceValue(func() map[devnet.Role]devnet.Wallet {
	all := map[devnet.Role]devnet.Wallet{}
	for _, r := range []devnet.Role{devnet.RolePayee, devnet.RoleRelayer, devnet.RoleTreasury} {
		all[r] = devnet.WalletsOf(r)[0]
	}
	return all
})

// smartRelayer is the wallet that settles for smart accounts, of those of the relayer's role.
const smartRelayer = 2

// payableFor is how long an order of an owner can be paid.
const payableFor = time.Minute

// providerDeadline is how long a provider may leave undecided what owners buy, before an operator looks.
const providerDeadline = 90 * time.Second

// doubtDeadline is that where much is left undecided: longer than an order may be on its way to a provider.
const doubtDeadline = 45 * time.Second

// undecidedDeadline is that of vendors where nobody owns anything.
const undecidedDeadline = 5 * time.Minute

// config is what an operator would write, with the development chain's keys, and what they have changed since.
func (w *world) config(databaseURL string, changed map[string]string) app.Config {
	settings := map[string]string{
		"environment": app.Sandbox, "base_url": site, "database.url": databaseURL,
		"chain.rpc_url": w.nodes(), "payment.pay_to": walletOf(devnet.RolePayee).Address,
		"relayer.keys": walletOf(devnet.RoleRelayer).PrivateKey, "treasury.key": walletOf(devnet.RoleTreasury).PrivateKey,
		"issuer.provider": "sandbox", "issuer.url": providers, "issuer.key": sandbox.DevKey,
		"supplier.provider": "sandbox", "supplier.url": providers, "supplier.key": sandbox.DevKey,
		"esim.keys": sealingKey, "esim.token_key": tokenKey, "quote.key": quoteKey, "limits": "off",
		"payment.wait": waitFor.String(),
		// Who of several that are due in the same moment comes first is the database's to say, by where it has put them.
		"worker.slots": "64", "worker.settle_slots": "64", "worker.maintain_slots": "64",
		"contact.email": "operator@example.com", "operators": operators(),
	}
	if w.plan.smart {
		settings["payment.smart_accounts"] = smartaccount.All().String()
		settings["relayer.smart_account_keys"] = devnet.WalletsOf(devnet.RoleRelayer)[smartRelayer].PrivateKey
		settings["relayer.smart_account_gas"] = "1000000000" // fees rise, and whoever comes then is to be served
	}
	if w.plan.owners {
		settings["order.payable_for"] = payableFor.String()
		settings["issuer.deadline"], settings["supplier.deadline"] = providerDeadline.String(), providerDeadline.String()
	}
	if w.plan.doubt {
		settings["issuer.deadline"], settings["supplier.deadline"] = doubtDeadline.String(), doubtDeadline.String()
	}
	if w.plan.suppliedBy() != sandboxes && !w.plan.owners {
		// Whose one of two equal orders is, a supplier may never show: an operator looks then.
		settings["supplier.deadline"] = undecidedDeadline.String()
	}
	if w.plan.byHand {
		delete(settings, "treasury.key")
	}
	if w.plan.second {
		settings["operators.second_approver_above"] = fmt.Sprint(approvedAbove)
	}
	if w.plan.screens {
		settings["screening.url"], settings["screening.key"] = screeners, "a key"
	}
	w.plan.bounds(settings)
	if w.plan.settlers != "" {
		settings["settlement.order"] = w.plan.settlers
	}
	if strings.Contains(w.plan.settlers, "facilitator") {
		settings["facilitator.url"] = facilitators
	}
	for key, text := range changed {
		if !strings.HasPrefix(key, "issuer.") && !strings.HasPrefix(key, "supplier.") {
			settings[key] = text
		}
	}
	c, err := app.Load(settings, func(string) (string, bool) { return "", false },
		func(string) ([]byte, error) { return nil, os.ErrNotExist })
	if err == nil {
		err = w.plan.sell(&c, changed)
	}
	c.Screening.Strict = w.plan.screens // as in production
	if err != nil {                     // it is the same for all seeds of a kind
		release()
		panic(err)
	}
	return c
}
