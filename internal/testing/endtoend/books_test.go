package endtoend_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/testing/invariants"
	"github.com/roamcard/roamcard/internal/x402"
)

// transfer is one arrival of USDC at the payee, from the chain's own log.
type transfer struct {
	from        x402.Address
	amount      money.USDC
	transaction string
	logIndex    uint64
}

// transfers are all arrivals since the world started, or was lent.
func (w *world) transfers() []transfer {
	w.t.Helper()
	var logs []struct {
		Topics []common.Hash  `json:"topics"`
		Data   hexutil.Bytes  `json:"data"`
		Tx     common.Hash    `json:"transactionHash"`
		Index  hexutil.Uint64 `json:"logIndex"`
	}
	w.rpc(&logs, "eth_getLogs", map[string]any{
		"fromBlock": hexutil.EncodeUint64(w.since),
		"toBlock":   "latest",
		"address":   usdc().String(),
		"topics":    []any{x402.TopicTransfer.String(), nil, w.payTo.Word().String()},
	})
	all := make([]transfer, len(logs))
	for i, l := range logs {
		all[i] = transfer{
			from: x402.Address(l.Topics[1][12:]), amount: money.USDC(bigInt(l.Data).Int64()),
			transaction: l.Tx.Hex(), logIndex: uint64(l.Index),
		}
	}
	return all
}

func bigInt(b []byte) *big.Int { return new(big.Int).SetBytes(b) }

// orderRow is an order with the payment that decides it and the card that came of it.
type orderRow struct {
	order, status, owner, key string
	paid                      bool
	transaction               string
	card, fee, reason         string
}

// orders are all orders in the database.
func (w *world) orders() []orderRow {
	w.t.Helper()
	rows, err := w.db.Query(context.WithoutCancel(w.t.Context()), `
		SELECT o.id, o.status, o.owner, o.idempotency_key, coalesce(p.status = 'paid', false), coalesce(p.transaction, ''),
			coalesce(c.status, ''), coalesce(f.status, ''),
			coalesce((SELECT reason FROM timeline WHERE order_id = o.id ORDER BY version DESC LIMIT 1), '')
		FROM orders o
		LEFT JOIN payments p ON p.order_id = o.id AND p.status <> 'dead'
		LEFT JOIN cards c ON c.order_id = o.id
		LEFT JOIN jobs f ON f.kind = 'card_issue_fee' AND f.unique_key = c.id::text
		ORDER BY o.id`)
	if err != nil {
		w.t.Fatalf("read the orders: %v", err)
	}
	defer rows.Close()
	var all []orderRow
	for rows.Next() {
		var e orderRow
		if err := rows.Scan(&e.order, &e.status, &e.owner, &e.key, &e.paid, &e.transaction, &e.card, &e.fee,
			&e.reason); err != nil {
			w.t.Fatalf("read the orders: %v", err)
		}
		all = append(all, e)
	}
	if err := rows.Err(); err != nil {
		w.t.Fatalf("read the orders: %v", err)
	}
	return all
}

// books are the three books of this world, and the answers that its buyers got.
func (w *world) books() invariants.Books {
	w.told.Lock()
	defer w.told.Unlock()
	treasury := ""
	if !w.treasury.IsZero() {
		treasury = w.treasury.String()
	}
	return invariants.Books{
		Treasury: treasury, DatabaseURL: w.databaseURL, RPCURL: w.rpcURL, USDC: usdc().String(), PayTo: w.payTo.String(),
		SecondAbove: int64(w.config.SecondOperator.Above),
		SandboxURL:  w.issuer.url, Issuers: named(w.issuerBooks), Suppliers: named(w.supplierBooks),
		FromBlock: w.fromBlock, Answers: slices.Clone(w.told.answers), Down: w.told.downSpans,
	}
}

// named is an address, where there is one.
func named(url string) []string {
	if url == "" {
		return nil
	}
	return []string{url}
}

// awaitSettled waits until nothing is under way.
func (w *world) awaitSettled() {
	w.t.Helper()
	ctx, cancel := waitContext(w.t)
	defer cancel()
	if err := invariants.Await(ctx, w.books()); err != nil {
		w.t.Fatalf("%v\n%+v", err, w.orders())
	}
}

// checkBooks compares the three books: our database, the chain's log and the issuer's own. It holds once
// nothing is under way, whatever happened before.
func (w *world) checkBooks() {
	w.t.Helper()
	w.awaitSettled()
	w.checkInvariants(0)
}

// checkInvariants checks every invariant, with so many units sent outside of any purchase.
func (w *world) checkInvariants(unmatched int64) {
	w.t.Helper()
	books := w.books()
	books.Unmatched = unmatched
	found, err := invariants.Check(context.WithoutCancel(w.t.Context()), books)
	if err != nil {
		w.t.Fatalf("read the books: %v", err)
	}
	for _, v := range found {
		w.t.Error(v)
	}
}

// recordAnswer remembers what a buyer was told of a purchase that was really the buyer's.
func (w *world) recordAnswer(r request, a answer, at time.Time) {
	pay, err := x402.DecodePayment(r.header[x402.HeaderSignature])
	if err != nil || a.err != nil {
		return
	}
	key := w.keyOf(r)
	if key == "" || curve.Verify(domain(), pay.Authorization, pay.Signature) != nil || pay.Authorization.To != w.payTo {
		return
	}
	told := invariants.Answer{Payer: pay.Authorization.From.String(), Key: key, Paid: true, Status: a.status, At: at}
	if a.status == http.StatusOK {
		var o paidOrder
		if json.Unmarshal(a.body, &o) != nil {
			return
		}
		told.OrderID, told.Transaction, told.Amount = o.OrderID, o.Payment.Transaction, o.Payment.Amount
	}
	w.told.Lock()
	defer w.told.Unlock()
	w.told.answers = append(w.told.answers, told)
}

// keyOf is the idempotency key of the purchase that a request pays, or of the order.
func (w *world) keyOf(r request) string {
	var body struct {
		Key string `json:"idempotencyKey"`
	}
	if r.path == purchasePath {
		if json.Unmarshal([]byte(r.body), &body) != nil {
			return ""
		}
		return body.Key
	}
	id := strings.TrimPrefix(strings.TrimPrefix(r.path, "/api/x402"), "/pay/")
	if id == strings.TrimPrefix(r.path, "/api/x402") {
		return ""
	}
	// Without a row there is no order to be told of.
	_ = w.db.QueryRow(context.WithoutCancel(w.t.Context()), "SELECT idempotency_key FROM orders WHERE id = $1",
		id).Scan(&body.Key)
	return body.Key
}

// rowCounts is how many rows each table of the purchase has, in one line. Locks of callers are pruned at any time.
func (w *world) rowCounts() string {
	w.t.Helper()
	var parts []string
	for _, table := range []string{"orders", "payments", "transactions", "cards", "reservations", "timeline",
		"locks WHERE id LIKE '%#%'"} {
		var n int
		if err := w.db.QueryRow(context.WithoutCancel(w.t.Context()), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
			w.t.Fatalf("count %s: %v", table, err)
		}
		parts = append(parts, fmt.Sprintf("%s %d", table, n))
	}
	return strings.Join(parts, ", ")
}

// footprint is everything that a refused request must leave as it was: rows, money, and what the issuer
// was asked to do. Looking at the stock, or at how a card stands, is not doing.
func (w *world) footprint() string {
	w.t.Helper()
	b := w.issuer.books()
	asked := 0
	for _, op := range []string{"open", "move", "moved", "balance", "sensitive"} {
		asked += b.Requests[op]
	}
	return fmt.Sprintf("%s; payee %s, %d transfers; issuer %s, %d cards, %d asked", w.rowCounts(), w.balance(w.payTo),
		len(w.transfers()),
		b.Float, len(b.Cards), asked)
}

// wantFootprint checks that something left the footprint as it was before.
func (w *world) wantFootprint(what, before string) {
	w.t.Helper()
	if after := w.footprint(); after != before {
		w.t.Errorf("%s:\n was %s\n now %s", what, before, after)
	}
}
