package store

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/internal/checkout"
	"github.com/roamcard/roamcard/internal/order"
)

// contended are the resources of which a batch has found too little to reserve in some shards only. The next one
// takes all shards at once.
type contended struct{ resources sync.Map }

func (c *contended) has(resource string) bool { _, ok := c.resources.Load(resource); return ok }

func (c *contended) set(resource string, contended bool) {
	if contended {
		c.resources.Store(resource, true)
	} else {
		c.resources.Delete(resource)
	}
}

// claimCounts is what limits the claims of a batch, as read under the locks of the batch.
type claimCounts struct {
	contended *contended
	// paused are the switches that are on, of products and of providers.
	paused map[order.Kind]bool
	// adopted are goods that a recovery has made an order for.
	adopted   map[uuid.UUID]bool
	undecided map[string]undecided
	// spent are the limits that one more request exceeds, or that a claim of the batch has counted in.
	spent  map[string]bool
	stocks map[string]*stock
	// unsettled is what an owner's unpaid orders reserve of a resource.
	unsettled map[share]int64
}

// share is what an owner has of a resource.
type share struct{ resource, owner string }

// undecided counts the payments of an owner that the chain has not decided, and sums what those of them take that have
// not arrived.
type undecided struct {
	all, inFlight int
	promised      int64
}

// stock is a resource of which claims of a batch reserve.
type stock struct {
	most int64
	// held is how many shards the batch has locked, and enough how many it needs: each has its uncommitted reservations
	// in shards of at most the resource's Most.
	held, enough int
	asOf         time.Time
	units        int64
	// reserved includes the claims of the batch so far.
	reserved int64
}

const (
	pausedSQL = `SELECT id FROM kill_switches WHERE id = ANY($1::varchar[]) AND paused`

	adoptedOfSQL = `SELECT adopted_reference FROM orders WHERE adopted_reference = ANY($1::uuid[])`

	undecidedSQL = `
		SELECT o.owner, p.n, p.in_flight, p.promised
		FROM unnest($1::varchar[], $2::timestamptz[]) AS o (owner, since), LATERAL (
			SELECT count(*) AS n, count(*) FILTER (WHERE created_at > o.since) AS in_flight,
				(coalesce(sum(value) FILTER (WHERE arrived_at IS NULL), 0))::bigint AS promised
			FROM payments WHERE status = 'claimed' AND owner = o.owner) AS p`

	overRateSQL = `
		SELECT t.id FROM unnest($1::varchar[], $2::interval[], $3::interval[]) AS t (id, each, most)
		WHERE greatest((SELECT resets_at FROM rate_limits WHERE id = t.id), now()) + t.each > now() + t.most`

	stocksSQL = `
		SELECT s.resource,
			(SELECT coalesce(sum(units), 0) FROM reservations WHERE resource = s.resource AND released_at IS NULL) +
			(SELECT coalesce(sum(units), 0) FROM reservations
				WHERE resource = s.resource AND released_at >= s.as_of AND suspended_at IS NULL)
		FROM unnest($1::varchar[], $2::timestamptz[]) AS s (resource, as_of)`

	sharesSQL = `
		SELECT r.resource, r.owner, sum(r.units)::bigint FROM payments p
		JOIN reservations r ON r.order_id = p.order_id AND r.owner = p.owner AND r.released_at IS NULL
		WHERE p.status = 'claimed' AND p.owner = ANY($1::varchar[]) AND r.settled_at IS NULL
		GROUP BY r.resource, r.owner`
)

// countClaims queues the locks of a batch of claims, and the statements that read its counts.
func (s *Store) countClaims(tx *ent.Tx, batch []*claimMember) *claimCounts {
	c := &claimCounts{contended: &s.contended, paused: map[order.Kind]bool{}, adopted: map[uuid.UUID]bool{},
		undecided: map[string]undecided{}, spent: map[string]bool{}, stocks: map[string]*stock{},
		unsettled: map[share]int64{}}
	var sales []order.Kind
	var locks, payers, bounded, hits []string
	var since []time.Time
	var goods []uuid.UUID
	var each, most []time.Duration
	for _, m := range batch {
		p := m.in
		sales = append(sales, switchesOf(p)...)
		payers, since = append(payers, claimKey(p)), append(since, p.InFlightSince)
		locks = append(locks, payerLock(p.Order.Owner))
		if p.Goods != uuid.Nil {
			goods = append(goods, p.Goods)
		}
		for _, t := range p.Hits {
			hits, each, most = append(hits, hitID(t)), append(each, t.Each()), append(most, spanOf(t))
		}
		for _, h := range p.Reservations {
			c.expect(h)
			if h.Unsettled > 0 {
				bounded = append(bounded, claimKey(p))
			}
		}
	}
	c.sale(tx, sales)
	lockAll(tx, append(locks, c.locks()...))
	readRows(tx, func(row pgx.CollectableRow) error {
		var owner string
		var n undecided
		err := row.Scan(&owner, &n.all, &n.inFlight, &n.promised)
		c.undecided[owner] = n
		return err
	}, undecidedSQL, payers, since)
	if len(goods) > 0 {
		readRows(tx, func(row pgx.CollectableRow) error {
			var of uuid.UUID
			err := row.Scan(&of)
			c.adopted[of] = true
			return err
		}, adoptedOfSQL, goods)
	}
	if len(bounded) > 0 {
		readRows(tx, func(row pgx.CollectableRow) error {
			var of share
			var units int64
			err := row.Scan(&of.resource, &of.owner, &units)
			c.unsettled[of] = units
			return err
		}, sharesSQL, bounded)
	}
	if len(hits) > 0 {
		readRows(tx, func(row pgx.CollectableRow) error {
			var id string
			err := row.Scan(&id)
			c.spent[id] = true
			return err
		}, overRateSQL, hits, each, most)
	}
	c.read(tx)
	return c
}

// sale queues the shared locks of the switches of a batch, and reads which of them are on, as selling does.
func (c *claimCounts) sale(tx *ent.Tx, switches []order.Kind) {
	lockSales(tx, switches)
	readRows(tx, func(row pgx.CollectableRow) error {
		var of order.Kind
		err := row.Scan(&of)
		c.paused[of] = true
		return err
	}, pausedSQL, switches)
}

// expect adds a reservation to what the batch needs of its resource.
func (c *claimCounts) expect(h order.Reservation) {
	s := c.stocks[h.Resource]
	if s == nil {
		s = &stock{most: h.Most, asOf: h.AsOf}
		c.stocks[h.Resource] = s
	}
	// The earliest reading counts the most of what was released since.
	if h.AsOf.Before(s.asOf) {
		s.asOf = h.AsOf
	}
	if s.shared(h) {
		s.units += h.Units
	}
}

// shared reports whether a reservation may be one of several: those that need all shards are made by themselves.
func (s *stock) shared(h order.Reservation) bool {
	return h.Most == s.most && (s.most == 0 || h.Units <= s.most)
}

// locks chooses the locks of the resources: the one of a resource, or as many shards as the units of the batch take up
// when each shard has at most the resource's Most.
func (c *claimCounts) locks() (names []string) {
	for resource, s := range c.stocks {
		if s.most == 0 {
			names = append(names, bucket(resource))
			continue
		}
		s.enough = int(min((s.units+s.most-1)/s.most, shards))
		if s.held = s.enough; c.contended.has(resource) {
			s.held = shards
		}
		for _, n := range rand.Perm(shards)[:s.held] {
			names = append(names, shard(resource, n))
		}
	}
	return names
}

// read queues the statement that reads what is reserved of the resources.
func (c *claimCounts) read(tx *ent.Tx) {
	if len(c.stocks) == 0 {
		return
	}
	var names []string
	var asOf []time.Time
	for resource, s := range c.stocks {
		names, asOf = append(names, resource), append(asOf, s.asOf)
	}
	readRows(tx, func(row pgx.CollectableRow) error {
		var resource string
		var reserved int64
		err := row.Scan(&resource, &reserved)
		if s := c.stocks[resource]; s != nil {
			s.reserved = reserved
		}
		return err
	}, stocksSQL, names, asOf)
}

// fits reports whether nothing is known against a claim of the batch, in addition to those added so far.
func (c *claimCounts) fits(p checkout.ClaimRequest) bool {
	payer := c.undecided[claimKey(p)]
	if p.MaxUndecided > 0 && payer.all >= p.MaxUndecided || p.MaxInFlight > 0 && payer.inFlight >= p.MaxInFlight {
		return false
	}
	if payer.promised > 0 && payer.promised+int64(p.Payment.Authorization.Value) > int64(p.Funds) {
		return false
	}
	if c.adopted[p.Goods] {
		return false
	}
	for _, of := range switchesOf(p) {
		if c.paused[of] {
			return false
		}
	}
	for _, t := range p.Hits {
		if c.spent[hitID(t)] {
			return false
		}
	}
	for _, h := range p.Reservations {
		if s := c.stocks[h.Resource]; !s.shared(h) || !s.fits(h, s.held) {
			return false
		}
		if h.Unsettled > 0 && c.unsettled[share{h.Resource, claimKey(p)}]+h.Units > h.Unsettled {
			return false
		}
	}
	return true
}

// fits reports whether a reservation fits when the batch has so many shards.
func (s *stock) fits(h order.Reservation, held int) bool {
	limit := h.Limit
	if s.most > 0 {
		limit = room(limit, s.most, held)
	}
	return s.reserved+h.Units <= limit
}

// add counts a claim that the batch stores.
func (c *claimCounts) add(p checkout.ClaimRequest) {
	for _, t := range p.Hits {
		c.spent[hitID(t)] = true
	}
	for _, h := range p.Reservations {
		s := c.stocks[h.Resource]
		s.reserved += h.Units
	}
}

// learn records of which resources the next batch takes all shards: of those of which one of these claims would not
// have fitted otherwise.
func (c *claimCounts) learn(batch []*claimMember) {
	contended := map[string]bool{}
	for _, m := range batch {
		for _, h := range m.in.Reservations {
			s := c.stocks[h.Resource]
			contended[h.Resource] = contended[h.Resource] || s.shared(h) && !s.fits(h, s.enough)
		}
	}
	for resource, s := range c.stocks {
		if s.most > 0 {
			c.contended.set(resource, contended[resource])
		}
	}
}

// readRows queues a statement whose rows are read one by one.
func readRows(tx *ent.Tx, read func(pgx.CollectableRow) error, sql string, args ...any) {
	pgxOf(tx).later(statement{sql: sql, args: args, read: func(answers pgx.BatchResults) error {
		rows, err := answers.Query()
		if err != nil {
			return err
		}
		_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, read(row) })
		return err
	}})
}
