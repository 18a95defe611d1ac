package crash_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The chain makes no block, so the fee is raised. The program dies with the replacement stored and not sent. The next
// run sends those bytes, for the same nonce.
func TestKilledBetweenAHigherFeeAndItsSending(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits until a fee is raised")
	}
	note := record{
		Flow: issue + ", while no block is made", Settler: relayer, Mode: "kill", First: "bump.stored", Failed: true,
	}
	defer func() { note.write(t) }()
	w := newWorld(t)
	b := w.buyer(t)
	p := w.start(t, relayer, fault("bump.stored", "kill"))
	if err := b.challenge(t.Context()); err != nil {
		t.Fatal(err)
	}
	header := b.sign(t)
	w.stopBlocks(t)
	b.press(t, p, header, false)
	p.awaitKill(t)
	nonces, hashes := w.transactions(t)
	if len(nonces) != 1 || len(hashes) != 2 {
		t.Fatalf("transactions with the nonces %v and the hashes %v, want one with two", nonces, hashes)
	}
	if w.inPool(t, hashes[1]) {
		t.Fatal("the replacement is sent before the program died")
	}
	p = w.startUnready(t, relayer)
	began := time.Now()
	// By then the fee may be raised once more.
	w.await(t, "a replacement is sent", func() error {
		if _, hashes = w.transactions(t); !w.inPool(t, hashes[len(hashes)-1]) {
			return fmt.Errorf("%s is not known to the chain", hashes[len(hashes)-1])
		}
		return nil
	})
	stored := hashes[:2]
	if w.inPool(t, hashes[0]) {
		t.Error("the replaced transaction still waits after its replacement")
	}
	w.rpc(t, "evm_setIntervalMining", 1)
	w.ends(t, b, header, began)
	note.Recovery = time.Since(began).Seconds()
	p.stop(t)
	if again, all := w.transactions(t); !slices.Equal(again, nonces) || !slices.Equal(all[:2], stored) {
		t.Errorf("transactions with the nonces %v and the hashes %v, before the death %v and %v", again, all, nonces,
			stored)
	}
	note.Violations = len(w.checkBooks(t))
	note.Failed = t.Failed()
}

// stopBlocks ends the making of blocks, for transactions and at intervals.
func (w *world) stopBlocks(t *testing.T) {
	t.Helper()
	w.rpc(t, "evm_setAutomine", false)
	w.rpc(t, "evm_setIntervalMining", 0)
}

// transactions is what the database has of settlement transactions: the nonces of all transactions, and all hashes.
func (w *world) transactions(t *testing.T) (nonces []int64, hashes []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.books.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	err = conn.QueryRow(t.Context(),
		`SELECT array_agg(nonce), (SELECT array_agg(v->>'hash') FROM transactions, jsonb_array_elements(variants) v)
		FROM transactions`).Scan(&nonces, &hashes)
	if err != nil {
		t.Fatal(err)
	}
	return nonces, hashes
}

// inPool reports whether the chain knows a transaction.
func (w *world) inPool(t *testing.T, hash string) bool {
	t.Helper()
	var tx *struct{ Hash string }
	if err := json.Unmarshal(w.rpc(t, "eth_getTransactionByHash", hash), &tx); err != nil {
		t.Fatal(err)
	}
	return tx != nil
}
