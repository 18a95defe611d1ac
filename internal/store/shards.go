package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
)

// ownerShards is where a database distributed by owner (citus.sql) keeps the rows of each owner. In a database
// that is not distributed it is nil, which has one shard.
//
// A transaction of a sale changes rows of one owner, which are in one shard. What is counted over owners, such as what
// is reserved of a float, has the key of their shard: a text that is kept in the same shard as the rows of its owners.
type ownerShards struct {
	// least are the least hashes of the shards, in order.
	least []int32
	keys  []string
}

const (
	mayBeShardedSQL = `SELECT to_regclass('pg_catalog.pg_dist_shard') IS NOT NULL AND to_regclass('orders') IS NOT NULL`

	shardsSQL = `SELECT shardminvalue::int FROM pg_dist_shard WHERE logicalrelid = 'orders'::regclass ORDER BY 1`
)

// readShards is nil when the database is not distributed.
func readShards(ctx context.Context, on conns) (*ownerShards, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	var may bool
	// Nothing is prepared: the doctor opens a store behind a pooler whose query mode is wrong, to say so.
	if err := on.QueryRow(ctx, mayBeShardedSQL, pgx.QueryExecModeExec).Scan(&may); err != nil || !may {
		return nil, mapError(err)
	}
	rows, err := on.Query(ctx, shardsSQL, pgx.QueryExecModeExec)
	if err != nil {
		return nil, mapError(err)
	}
	least, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil || len(least) == 0 {
		return nil, mapError(err)
	}
	return newShards(least), nil
}

// newShards looks for a key of each shard.
func newShards(least []int32) *ownerShards {
	s := &ownerShards{least: least, keys: make([]string, len(least))}
	for n, left := 0, len(least); left > 0; n++ {
		key := strconv.Itoa(n)
		if of := s.of(key); s.keys[of] == "" {
			s.keys[of] = key
			left--
		}
	}
	return s
}

// of is the number of the shard of an owner.
func (s *ownerShards) of(owner string) int {
	if s == nil {
		return 0
	}
	after, found := slices.BinarySearch(s.least, hashText(owner))
	if found {
		return after
	}
	return max(0, after-1)
}

// key is the key of the shard of an owner; empty in a database that is not distributed, as the column's default is.
func (s *ownerShards) key(owner string) string {
	if s == nil {
		return ""
	}
	return s.keys[s.of(owner)]
}

// groups divides owners by their shards, each owner once.
func (s *ownerShards) groups(owners []string) [][]string {
	all := map[int][]string{}
	slices.Sort(owners)
	for _, owner := range slices.Compact(owners) {
		of := s.of(owner)
		all[of] = append(all[of], owner)
	}
	groups := make([][]string, 0, len(all))
	for _, of := range all {
		groups = append(groups, of)
	}
	return groups
}

// shardsOf are the shards of the database of a transaction.
func shardsOf(tx *ent.Tx) *ownerShards { return pgxOf(tx).shards }

// asOfStatement replaces the time at which a statement looks at a row by that at which it began: what changes rows of
// a distributed table may not call a volatile function. The difference is the wait for the row's lock, and whoever held
// it has left a row that does not fit any more, or belongs to the same claim.
func (s *ownerShards) asOfStatement(sql string) string {
	if s == nil {
		return sql
	}
	return strings.ReplaceAll(sql, "clock_timestamp()", "statement_timestamp()")
}

// hashText is PostgreSQL's hashtext, by which Citus distributes rows: Bob Jenkins' lookup3.
func hashText(text string) int32 {
	k := []byte(text)
	a := uint32(0x9e3779b9) + uint32(len(k)) + 3923095
	b, c := a, a
	for ; len(k) >= 12; k = k[12:] {
		a += binary.LittleEndian.Uint32(k)
		b += binary.LittleEndian.Uint32(k[4:])
		c += binary.LittleEndian.Uint32(k[8:])
		a, b, c = mixHash(a, b, c)
	}
	// The lowest byte of c is that of the length.
	var last [16]byte
	copy(last[:8], k)
	if len(k) > 8 {
		copy(last[9:], k[8:])
	}
	a += binary.LittleEndian.Uint32(last[:])
	b += binary.LittleEndian.Uint32(last[4:])
	c += binary.LittleEndian.Uint32(last[8:])
	return int32(endHash(a, b, c))
}

func mixHash(a, b, c uint32) (uint32, uint32, uint32) {
	for _, turn := range [][3]int{{4, 6, 8}, {16, 19, 4}} {
		a = (a - c) ^ bits.RotateLeft32(c, turn[0])
		c += b
		b = (b - a) ^ bits.RotateLeft32(a, turn[1])
		a += c
		c = (c - b) ^ bits.RotateLeft32(b, turn[2])
		b += a
	}
	return a, b, c
}

func endHash(a, b, c uint32) uint32 {
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	return (c ^ b) - bits.RotateLeft32(b, 24)
}

// inShard is a statement on rows that have the key of an owner's shard: %s is where the condition on it belongs.
func (s *ownerShards) inShard(owner, sql string, args ...any) statement {
	if s == nil {
		return statement{sql: everywhere(sql), args: args}
	}
	args = append(slices.Clip(args), s.key(owner))
	return statement{sql: strings.ReplaceAll(sql, "%s", fmt.Sprintf("shard = $%d", len(args))), args: args}
}

// sweep runs a statement of maintenance. In a distributed database it finds the owners of the rows first, by a read of
// all shards, and then runs the statement for those of each shard, in a transaction of each: %s is where the condition
// on the owner belongs. The last argument of both is the limit.
func (s *Store) sweep(ctx context.Context, find, sql string, args ...any) (n int, err error) {
	if s.shards == nil {
		return s.pruneRows(ctx, everywhere(sql), args...)
	}
	groups, err := s.dueOwners(ctx, find, args...)
	if err != nil {
		return 0, err
	}
	for _, owners := range groups {
		some, err := s.pruneRows(ctx, ofOwners(sql, len(args)+1), append(slices.Clone(args), owners)...)
		if n += some; err != nil {
			return n, err
		}
	}
	return n, nil
}

// dueOwners reads the owners that a statement finds, by their shards.
func (s *Store) dueOwners(ctx context.Context, find string, args ...any) ([][]string, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	rows, err := s.pool.Query(ctx, find, append([]any{plannedAnew}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("find owners: %w", mapError(err))
	}
	owners, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find owners: %w", mapError(err))
	}
	return s.shards.groups(owners), nil
}

// everywhere is a statement of maintenance without a condition on the owner.
func everywhere(sql string) string {
	if known, ok := everywheres.Load(sql); ok {
		return known.(string)
	}
	plain := placeCondition.ReplaceAllString(sql, "")
	everywheres.Store(sql, plain)
	return plain
}

var (
	placeCondition = regexp.MustCompile(` AND (\w+\.)?%s`)
	everywheres    sync.Map
)

// ofOwners is a statement of maintenance for the owners in its nth argument, which have to be of one shard.
func ofOwners(sql string, n int) string {
	return strings.ReplaceAll(sql, "%s", fmt.Sprintf("owner = ANY($%d::varchar[])", n))
}
