package store

// A distributed database joins neither its shards with tables of the coordinator row by row, nor different shards with
// each other. These statements replace others there: each reads from the shards first what it then joins.
var shardedReads = map[string]string{
	unmatchedSQL:       shardedUnmatchedStart + unmatchedEnd,
	unmatchedExceptSQL: shardedUnmatchedStart + ` AND t.nonce <> ALL ($6)` + unmatchedEnd,

	unmatchedListSQL: shardedUnmatched + `SELECT ` + shardedUnmatchedColumns + ` AND (r.id IS NOT NULL) = $3
		AND ($4::bigint = 0 OR a.id < $4) ORDER BY a.id DESC LIMIT $5`,
	unmatchedTransferSQL: shardedUnmatched + `SELECT ` + shardedUnmatchedColumns +
		` AND a.transaction = $3 AND a.log_index = $4`,

	arrivedForSQL: `
		WITH p AS MATERIALIZED (SELECT owner, nonce, transaction, log_index FROM payments WHERE order_id = ANY($3))
		SELECT a.transaction, a.log_index, a.block, a.sender, a.value, a.nonce FROM p
			JOIN transfers a ON a.sender = p.owner AND a.nonce = p.nonce AND a.nonce <> ''
		WHERE a.asset = $1 AND a.pay_to = $2
		UNION
		SELECT a.transaction, a.log_index, a.block, a.sender, a.value, a.nonce FROM p
			JOIN transfers a ON a.transaction = p.transaction AND a.log_index = p.log_index
		WHERE a.asset = $1 AND a.pay_to = $2
		ORDER BY 3, 2`,

	postedForSQL: `SELECT ` + postingColumns + ` FROM ledger_postings p` + shardedEntries + `
		WHERE p.order_id = ANY($1::varchar[]) AND p.order_id <> '' ` + shardedPostings,
	postedAsSQL: `SELECT ` + postingColumns + ` FROM ledger_postings p` + shardedEntries + `
		WHERE p.id = ANY($1::varchar[]) ` + shardedPostings,

	paidWithSQL: `
		SELECT ` + paymentColumns + ` FROM payments p
			JOIN unnest($3::varchar[], $4::varchar[]) AS a (sender, nonce) ON p.owner = a.sender AND p.nonce = a.nonce
		WHERE p.network = $7 AND p.asset = $1
		UNION
		SELECT ` + paymentColumns + ` FROM payments p
			JOIN unnest($5::varchar[], $6::bigint[]) AS a (transaction, log_index)
				ON p.transaction = a.transaction AND p.log_index = a.log_index
		ORDER BY 1`,

	lostSQL: `
		WITH mine AS MATERIALIZED (
			SELECT id FROM payments WHERE network = $3 AND asset = $4 AND owner = $5 AND status <> 'paid')
		SELECT
			(SELECT count(*) FROM transaction_members
				WHERE payment_id = $1 AND created_at >= $2 AND status = 'reverted' AND lost_wei > 0),
			(SELECT least(coalesce(sum(m.lost_wei), 0), 9223372036854775807)::bigint
				FROM mine JOIN transaction_members m ON m.payment_id = mine.id
				WHERE m.created_at >= $6 AND m.status = 'reverted'),
			(SELECT least(coalesce(sum(lost_wei), 0), 9223372036854775807)::bigint FROM transaction_members
				WHERE status = 'reverted' AND created_at >= $6)`,

	ordersOfLinesSQL: `
		WITH l AS MATERIALIZED (SELECT order_id, reference, account, provider FROM issuer_lines WHERE id = ANY($1))
		SELECT order_id FROM l WHERE order_id <> ''
		UNION
		SELECT c.order_id FROM l JOIN cards c ON c.reference = l.reference
		UNION
		SELECT o.id FROM l
			JOIN cards c ON c.account = l.account AND c.provider = l.provider AND c.account <> ''
			JOIN orders o ON o.owner = c.owner AND o.kind = ANY($3) AND o.status NOT IN ('payment_required', 'expired')
		WHERE l.order_id = ''
		LIMIT $2`,

	linesOfSQL: `
		WITH l AS MATERIALIZED (SELECT * FROM issuer_lines
			WHERE reference = ANY($1::uuid[]) OR order_id = ANY($2::varchar[]) AND order_id <> '' OR id = ANY($3::varchar[])
		), c AS MATERIALIZED (SELECT owner, account, provider FROM cards
			WHERE account <> '' AND account IN (SELECT account FROM l))
		SELECT l.id, l.reference, l.account, l.direction, l.state, l.amount_usd_cents, l.balance_usd_cents,
			l.order_id, l.epoch, l.provider,
			coalesce((SELECT owner FROM c WHERE c.account = l.account AND c.provider = l.provider LIMIT 1), '')
		FROM l ORDER BY l.changed_at, l.id`,

	unclaimedSQL: `
		WITH p AS MATERIALIZED (SELECT asset, owner, nonce FROM payments WHERE network = $4 AND owner = ANY($3))
		SELECT a.transaction, a.log_index, a.block, a.sender, a.value, a.nonce FROM (
			SELECT asset, pay_to, transaction, log_index, block, sender, value, nonce FROM transfers WHERE nonce <> ''
			UNION
			SELECT asset, pay_to, transaction, log_index, block, payer, value, nonce FROM reported_transfers
			WHERE network = $4
		) a
		WHERE a.asset = $1 AND a.pay_to = $2 AND a.sender = ANY($3)
			AND NOT EXISTS (SELECT 1 FROM p WHERE p.asset = a.asset AND p.owner = a.sender AND p.nonce = a.nonce)
			AND NOT EXISTS (SELECT 1 FROM transfer_resolutions r WHERE r.id = a.transaction || '/' || a.log_index)
		ORDER BY a.block, a.log_index`,

	lostTransfersSQL: `
		WITH t AS MATERIALIZED (
			SELECT payer, value, nonce, valid_after, valid_before, transaction, log_index, block, 0 AS source
			FROM reported_transfers
			WHERE network = $1 AND asset = $2 AND pay_to = $3
			UNION ALL
			SELECT sender, value, nonce, 0, 0, transaction, log_index, block, 1 FROM transfers
			WHERE asset = $2 AND pay_to = $3 AND nonce <> ''
		), p AS MATERIALIZED (
			SELECT network, asset, owner, nonce, transaction, log_index FROM payments
			WHERE owner IN (SELECT payer FROM t) OR transaction IN (SELECT transaction FROM t)
		)
		SELECT * FROM (
			SELECT DISTINCT ON (payer, nonce) transaction, log_index, block, payer, value, nonce, valid_after,
				valid_before FROM t
			WHERE NOT EXISTS (SELECT 1 FROM p
					WHERE p.network = $1 AND p.asset = $2 AND p.owner = t.payer AND p.nonce = t.nonce)
				AND NOT EXISTS (SELECT 1 FROM p WHERE p.transaction = t.transaction AND p.log_index = t.log_index)
				AND NOT EXISTS (SELECT 1 FROM transfers a
					JOIN transfer_resolutions r ON r.id = a.transaction || '/' || a.log_index
					WHERE a.asset = $2 AND a.sender = t.payer AND a.nonce = t.nonce)
			ORDER BY payer, nonce, source
		) u ORDER BY block, log_index`,
}

const (
	shardedUnmatchedStart = `
		WITH mine AS MATERIALIZED (
			SELECT network, asset, nonce, transaction, log_index FROM payments WHERE owner = $4)
		SELECT nonce, valid_after, valid_before, transaction, log_index, block, block_hash, settled_at FROM (
			SELECT nonce, valid_after, valid_before, transaction, log_index, block, block_hash, settled_at
			FROM reported_transfers
			WHERE network = $1 AND asset = $2 AND pay_to = $3 AND payer = $4 AND value = $5
			UNION ALL
			SELECT nonce, 0, 0, transaction, log_index, block, '', NULL FROM transfers
			WHERE asset = $2 AND pay_to = $3 AND sender = $4 AND value = $5 AND nonce <> ''
		) t
		WHERE NOT EXISTS (SELECT 1 FROM mine p WHERE p.network = $1 AND p.asset = $2 AND p.nonce = t.nonce)
			AND NOT EXISTS (SELECT 1 FROM mine p WHERE p.transaction = t.transaction AND p.log_index = t.log_index)
			AND NOT EXISTS (` + resolvedAuthorizationSQL + ` AND a.nonce = t.nonce)`

	shardedUnmatched = `
		WITH posted AS MATERIALIZED (SELECT id FROM ledger_postings WHERE id LIKE 'unmatched/%'),
		matched AS MATERIALIZED (SELECT id FROM ledger_postings WHERE id LIKE 'matched/%') `

	shardedUnmatchedColumns = `a.id, a.transaction, a.log_index, a.block, a.sender, a.value, a.nonce, a.seen_at,
		r.resolution, r.reason, r.actor, r.at
		FROM transfers a JOIN posted p ON p.id = 'unmatched/' || a.transaction || '/' || a.log_index
			LEFT JOIN transfer_resolutions r ON r.id = a.transaction || '/' || a.log_index
		WHERE a.asset = $1 AND a.pay_to = $2 AND NOT EXISTS (SELECT 1 FROM matched m WHERE m.id = 'matched/' ||
			a.transaction || '/' || a.log_index)`

	shardedEntries = ` LEFT JOIN ledger_entries e ON e.posting_id = p.id AND e.owner = p.owner`

	shardedPostings = `GROUP BY p.id, p.order_id, p.kind, p.at, p.owner ORDER BY p.id`
)

// read is a statement as the database reads it.
func (s *ownerShards) read(sql string) string {
	if s == nil {
		return sql
	}
	if other, ok := shardedReads[sql]; ok {
		return other
	}
	return sql
}

// either is the statement of two that the database reads.
func (s *ownerShards) either(plain, spread string) string {
	if s == nil {
		return plain
	}
	return spread
}
