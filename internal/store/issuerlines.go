package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/table"
	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/reconcile"
)

// issuerKinds are the products whose provider is the card issuer.
func (s *Store) issuerKinds() (all []string) {
	for _, p := range s.products {
		if p.atIssuer {
			all = append(all, string(p.Kind))
		}
	}
	return all
}

// candidates bounds the orders that may explain some lines.
const candidates = 20_000

// The reference of a movement does not name its order, which is one of the card's owner.
const ordersOfLinesSQL = `
	SELECT order_id FROM issuer_lines WHERE id = ANY($1) AND order_id <> ''
	UNION
	SELECT c.order_id FROM issuer_lines l JOIN cards c ON c.reference = l.reference WHERE l.id = ANY($1)
	UNION
	SELECT o.id FROM issuer_lines l
		JOIN cards c ON c.account = l.account AND c.provider = l.provider AND c.account <> ''
		JOIN orders o ON o.owner = c.owner AND o.kind = ANY($3) AND o.status NOT IN ('payment_required', 'expired')
	WHERE l.id = ANY($1) AND l.order_id = ''
	LIMIT $2`

// OrdersOfLines implements reconcile.Books.
func (t Treasury) OrdersOfLines(ctx context.Context, lines []string) ([]order.ID, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := t.s.pool.Query(ctx, t.s.shards.read(ordersOfLinesSQL), lines, candidates, t.s.issuerKinds())
	if err != nil {
		return nil, mapError(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[order.ID])
	return found, mapError(err)
}

// enterSQL copies lines. An unchanged line is not compared again.
var enterSQL = table.Statement(`
	INSERT INTO issuer_lines ({issuer_lines}) SELECT {l.issuer_lines} FROM {l}
	ON CONFLICT (id) DO UPDATE SET epoch = greatest(issuer_lines.epoch, excluded.epoch), reference = excluded.reference,
		account = excluded.account, direction = excluded.direction, state = excluded.state,
		amount_usd_cents = excluded.amount_usd_cents, balance_usd_cents = excluded.balance_usd_cents,
		pending = issuer_lines.pending OR `+lineDiffers+`,
		changed_at = CASE WHEN `+lineDiffers+` THEN excluded.changed_at ELSE issuer_lines.changed_at END
	WHERE issuer_lines.epoch < excluded.epoch OR `+lineDiffers, table.Rows("l", ent.IssuerLineTable))

const lineDiffers = `(issuer_lines.reference, issuer_lines.account, issuer_lines.direction, issuer_lines.state,
		issuer_lines.amount_usd_cents, issuer_lines.balance_usd_cents)
	<> (excluded.reference, excluded.account, excluded.direction, excluded.state,
		excluded.amount_usd_cents, excluded.balance_usd_cents)`

// Enter implements reconcile.Books.
func (t Treasury) Enter(ctx context.Context, lines []card.Line, epoch int64) error {
	if len(lines) == 0 {
		return nil
	}
	var rows []*ent.IssuerLine
	now, at := t.s.stamp(), map[string]int{}
	for _, l := range lines {
		row := lineRow(l, epoch, now)
		if i, twice := at[l.ID]; twice { // the later one is current
			rows[i] = row
			continue
		}
		at[l.ID] = len(rows)
		rows = append(rows, row)
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	_, err := t.s.pool.Exec(ctx, enterSQL, ent.IssuerLineTable.Arrays(rows)...)
	return mapError(err)
}

// lineRow is the row of a line, which is not compared yet.
func lineRow(l card.Line, epoch int64, now time.Time) *ent.IssuerLine {
	row := &ent.IssuerLine{ID: l.ID, Provider: l.Provider, Epoch: epoch, Pending: true, ChangedAt: now}
	if c := l.Card; c != nil {
		row.Reference, row.Account, row.State = uuid.UUID(c.Ref), c.ID, string(c.State)
		row.AmountUsdCents, row.BalanceUsdCents = int64(c.Loaded), int64(c.Balance)
		return row
	}
	m := l.Movement
	row.Reference, row.Account, row.Direction = uuid.UUID(m.Ref), m.Account, string(m.Direction)
	row.State, row.AmountUsdCents = string(m.State), int64(m.Amount)
	return row
}

// explainSQL records the orders that explain lines, and that the lines are compared.
const explainSQL = `
	UPDATE issuer_lines l SET order_id = e.order_id, spent_usd_cents = e.spent, pending = false
	FROM unnest($1::varchar[], $2::varchar[], $3::bigint[]) AS e (id, order_id, spent)
	WHERE l.id = e.id AND (l.pending OR l.order_id <> e.order_id OR l.spent_usd_cents <> e.spent)`

const (
	onCardsSQL = `
		SELECT account, sum(amount)::bigint FROM ledger_entries
			WHERE account LIKE 'card:%' AND account = ANY($1) GROUP BY account`

	linesOfSQL = `
		SELECT l.id, l.reference, l.account, l.direction, l.state, l.amount_usd_cents, l.balance_usd_cents,
			l.order_id, l.epoch, l.provider,
			coalesce((SELECT owner FROM cards c
				WHERE c.account = l.account AND c.provider = l.provider AND c.account <> '' LIMIT 1), '')
		FROM (
			SELECT l.* FROM unnest($1::uuid[]) k, LATERAL (
				SELECT * FROM issuer_lines WHERE reference = k OFFSET 0) l
			UNION
			SELECT l.* FROM unnest($2::varchar[]) k, LATERAL (
				SELECT * FROM issuer_lines WHERE order_id = k AND order_id <> '' OFFSET 0) l
			UNION
			SELECT l.* FROM unnest($3::varchar[]) k, LATERAL (
				SELECT * FROM issuer_lines WHERE id = k OFFSET 0) l) l
		ORDER BY l.changed_at, l.id`
)

// issuerLines reads the issuer's lines of orders and the named ones, and the balances of their cards.
func (b booksReader) issuerLines(r *reconcile.Records, ids, lines []string) error {
	sales := map[order.ID]order.Sale{}
	for _, s := range r.Orders {
		sales[s.ID] = s
	}
	owners, cards, refs := map[string]bool{}, map[string]bool{}, []uuid.UUID{}
	for _, g := range r.Goods {
		for _, call := range g.Calls(r.Orders) {
			refs = append(refs, call.Reference)
			cards[string(ledger.Card(call.Card.String()))] = true
			if s, known := sales[call.Order]; known {
				owners[s.Owner.Lower()] = true
			}
		}
	}
	var name string
	var id uuid.UUID
	var amount int64
	var loaded *uuid.UUID
	r.Balances, r.Loading = map[uuid.UUID]money.USDC{}, map[uuid.UUID]money.Cents{}
	return b.all(
		b.each([]any{&name, &amount}, func() (err error) {
			id, err = uuid.Parse(name[len(ledger.Card("")):])
			r.Balances[id] = money.USDC(amount)
			return err
		}, onCardsSQL, names(cards)),
		b.each([]any{&loaded, &amount}, func() error {
			if loaded != nil {
				r.Loading[*loaded] = money.Cents(amount)
			}
			return nil
		}, loadingSQL, names(owners)),
		readAll(b, &r.Lines, scanLine, linesOfSQL, refs, ids, lines),
	)
}

// each reads rows about cards.
func (b booksReader) each(into []any, do func() error, sql string, args ...any) func() error {
	return func() error {
		rows, err := b.tx.Query(b.ctx, sql, args...)
		if err == nil {
			_, err = pgx.ForEachRow(rows, into, do)
		}
		if err != nil {
			return fmt.Errorf("read the balances of cards: %w", mapError(err))
		}
		return nil
	}
}

func names(set map[string]bool) []string {
	all := make([]string, 0, len(set))
	for name := range set {
		all = append(all, name)
	}
	return all
}

func scanLine(row pgx.CollectableRow) (l card.Line, err error) {
	var ref uuid.UUID
	var account, direction, state string
	var amount, balance int64
	err = row.Scan(&l.ID, &ref, &account, &direction, &state, &amount, &balance, &l.Order, &l.Epoch, &l.Provider, &l.Owner)
	if err != nil {
		return l, err
	}
	if direction == "" {
		l.Card = &card.StatedAccount{
			Account: card.Account{
				ID: account, Ref: fulfilment.Ref(ref), State: card.AccountState(state), Loaded: money.Cents(amount),
			},
			Balance: money.Cents(balance),
		}
		return l, nil
	}
	l.Movement = &card.MovementRecord{
		Ref: fulfilment.Ref(ref), Account: account, Direction: card.Direction(direction), Amount: money.Cents(amount),
		State: card.MovementState(state),
	}
	return l, nil
}
