package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
)

// lookup is a read of one row by the values of some columns. Callers that look up at the same time share a round trip,
// and those of the same lookup a statement.
type lookup struct {
	// one reads the row of one caller; all those of several, each after the number of its caller.
	one, all string
	columns  int
	scan     func(pgx.Row) (any, error)
}

// newLookup makes a lookup of a statement that returns one row or none. Its $1, $2 and so on are of the types given;
// their values are given as text.
func newLookup[T any](scan func(pgx.Row) (T, error), sql string, types ...string) *lookup {
	var arrays, names, values, given []string
	for i, of := range types {
		n := i + 1
		arrays, names = append(arrays, fmt.Sprintf("$%d::text[]", n)), append(names, fmt.Sprintf("c%d", n))
		given = append(given, fmt.Sprintf("$%d", n), fmt.Sprintf("m.c%d::%s", n, of))
		values = append(values, fmt.Sprintf("$%d", n), fmt.Sprintf("$%d::text::%s", n, of))
	}
	return &lookup{
		one: strings.NewReplacer(values...).Replace(sql),
		all: "SELECT m.n, found.* FROM unnest(" + strings.Join(arrays, ", ") + ") WITH ORDINALITY AS m (" +
			strings.Join(names, ", ") + ", n) CROSS JOIN LATERAL (" + strings.NewReplacer(given...).Replace(sql) + ") AS found",
		columns: len(types),
		scan:    func(row pgx.Row) (any, error) { return scan(row) },
	}
}

// lookUpRequest is a lookup with its values.
type lookUpRequest struct {
	of     *lookup
	values []string
}

type lookUpMember = member[lookUpRequest, any]

// lookUp reads the row that a lookup finds; pgx.ErrNoRows when there is none.
func lookUp[T any](ctx context.Context, s *Store, of *lookup, values ...string) (found T, err error) {
	alone := func() (any, error) {
		args := make([]any, len(values))
		for i, value := range values {
			args[i] = value
		}
		return of.scan(s.pool.QueryRow(ctx, of.one, args...))
	}
	var got any
	if s.shards != nil {
		got, err = alone()
	} else {
		got, err = s.lookups.do(ctx, lookUpRequest{of, values}, alone)
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return found, err
	case errors.Is(err, ErrUnknownCommit):
		return found, down(fmt.Errorf("read: %v", err))
	case err != nil:
		return found, mapError(err)
	}
	return got.(T), nil
}

// lookUpTogether reads the rows of a batch, in one round trip.
func (s *Store) lookUpTogether(ctx context.Context, batch []*lookUpMember) {
	var kinds []*lookup
	members := map[*lookup][]*lookUpMember{}
	for _, m := range batch {
		if members[m.in.of] == nil {
			kinds = append(kinds, m.in.of)
		}
		members[m.in.of] = append(members[m.in.of], m)
	}
	found := map[*lookUpMember]lookedUp{}
	err := mapError(s.txOnce(ctx, func(_ context.Context, tx *ent.Tx) error {
		pgxOf(tx).batch = true
		for _, of := range kinds {
			of.queue(tx, members[of], found)
		}
		return nil
	}))
	if isMemberError(err) {
		return
	}
	for _, m := range batch {
		got, ok := found[m]
		switch {
		case err != nil:
			m.answer(nil, err)
		case !ok:
			m.answer(nil, pgx.ErrNoRows)
		default:
			m.answer(got.row, got.err)
		}
	}
}

// lookedUp is a row that was found, or why it cannot be read.
type lookedUp struct {
	row any
	err error
}

// queue queues the statement of several callers.
func (l *lookup) queue(tx *ent.Tx, members []*lookUpMember, found map[*lookUpMember]lookedUp) {
	args := make([]any, l.columns)
	for i := range args {
		column := make([]string, len(members))
		for j, m := range members {
			column[j] = m.in.values[i]
		}
		args[i] = column
	}
	readRows(tx, func(row pgx.CollectableRow) error {
		var n int
		got, err := l.scan(numbered{row, &n})
		if n < 1 || n > len(members) {
			return errors.Join(errors.New("a row of nobody"), err)
		}
		found[members[n-1]] = lookedUp{got, err}
		return nil
	}, l.all, args...)
}

// numbered is a row after the number of its caller.
type numbered struct {
	row pgx.CollectableRow
	n   *int
}

// Scan implements pgx.Row.
func (r numbered) Scan(into ...any) error { return r.row.Scan(append([]any{r.n}, into...)...) }
