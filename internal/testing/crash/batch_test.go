package crash_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// Buyers pay at the same time, and the program dies around one transaction for several of them, once or again
// while it recovers. Each ends with one card for one payment.
func TestKilledWithABatch(t *testing.T) {
	t.Parallel()
	tortures(t)
	type kills struct{ first, again string }
	for _, c := range []kills{
		{"batch.sent", ""}, {"batch.stored", ""}, {"batch.stored", "transaction.sent"},
		{"batch.sent", "settle.before_commit"},
		{"transaction.before_commit@2", ""}, // the first transaction is for one payment
	} {
		t.Run(strings.TrimSuffix(c.first+" "+c.again, " "), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			note := record{
				Flow: issue + ", of twelve buyers", Settler: relayer, Mode: "kill", First: c.first, Second: c.again, Failed: true,
			}
			defer func() { note.write(t) }()
			buyers, headers := w.killedWithABatch(t, c.first)
			if c.again != "" {
				w.start(t, relayer, fault(c.again, "kill")).awaitKill(t)
			}
			p := w.start(t, relayer, "")
			began := time.Now()
			w.eachEnds(t, buyers, headers, began)
			note.Recovery = time.Since(began).Seconds()
			p.stop(t)
			note.Violations = len(w.checkBooks(t))
			note.Failed = t.Failed()
		})
	}
}

// The contract reverts once a batch is stored, so it moves nothing, and the program dies when a block shows that. Each
// payment is settled after that, once.
func TestKilledWhenABatchHasReverted(t *testing.T) {
	t.Parallel()
	tortures(t)
	w := newWorld(t)
	note := record{Flow: issue + ", of twelve buyers, whose batch reverts", Settler: relayer, Mode: "kill",
		First: "batch.stored", Second: "transaction.reverted", Failed: true}
	defer func() { note.write(t) }()
	buyers, headers := w.killedWithABatch(t, "batch.stored")
	const reverts = "0x60006000fd"
	w.rpc(t, "anvil_setCode", settler.Address.String(), reverts)
	// What sends it does not look for the contract: it would not start over other code.
	w.start(t, relayer, fault("transaction.reverted", "kill"), "--set", "relayer.max_batch=1").awaitKill(t)
	w.rpc(t, "anvil_setCode", settler.Address.String(), hexutil.Encode(settler.Code()))
	p := w.start(t, relayer, "")
	began := time.Now()
	w.eachEnds(t, buyers, headers, began)
	note.Recovery = time.Since(began).Seconds()
	p.stop(t)
	note.Violations = len(w.checkBooks(t))
	note.Failed = t.Failed()
}

// One of those whose payment is in the stored transaction cancels it while the program is down. The others' payments
// move, that order is payable again, and only its second authorization pays.
func TestMemberOfABatchCancelsWhileTheProgramIsDown(t *testing.T) {
	t.Parallel()
	tortures(t)
	w := newWorld(t)
	note := record{Flow: issue + ", of twelve buyers, one cancels", Settler: relayer, Mode: "kill",
		First: "batch.stored", Failed: true}
	defer func() { note.write(t) }()
	buyers, headers := w.killedWithABatch(t, "batch.stored")
	var payer string
	w.query(t, `SELECT max(p.owner) FROM transaction_members m JOIN payments p ON p.id = m.payment_id
		WHERE m.transaction_id = (SELECT transaction_id FROM transaction_members GROUP BY 1 HAVING count(*) > 1 LIMIT 1)`,
		nil, &payer)
	i := slices.IndexFunc(buyers, func(b *buyer) bool { return strings.EqualFold(b.address.String(), payer) })
	if i < 0 {
		t.Fatalf("no buyer is %s", payer)
	}
	buyers[i].cancel(t, headers[i])
	p := w.start(t, relayer, "")
	began := time.Now()
	w.await(t, "the cancelled payment is refused", func() error {
		status, _, got, err := buyers[i].ask(t.Context(), headers[i])
		if err == nil && status != http.StatusPaymentRequired {
			err = fmt.Errorf("status %d, %+v", status, got)
		}
		return err
	})
	headers[i] = buyers[i].sign(t)
	w.eachEnds(t, buyers, headers, began)
	note.Recovery = time.Since(began).Seconds()
	p.stop(t)
	note.Violations = len(w.checkBooks(t))
	note.Failed = t.Failed()
}

// killedWithABatch has buyers, twelve at a time, pay until the program dies at a point of a batch.
// Each transaction is held for a while, so that what comes meanwhile goes together; where nothing came, more buyers do.
func (w *world) killedWithABatch(t *testing.T, point string) (buyers []*buyer, headers []string) {
	t.Helper()
	const all = 12 // more than share the room that a block has left, so that some of them go together
	p := w.start(t, relayer, "transaction.sent:sleep=2s@*,"+fault(point, "kill"))
	for ctx := apptest.Context(t); !p.Ended() && ctx.Err() == nil; {
		first := len(buyers)
		for range all {
			b := w.buyer(t)
			if err := b.challenge(t.Context()); err != nil {
				t.Fatal(err)
			}
			buyers, headers = append(buyers, b), append(headers, b.sign(t))
		}
		var pressing sync.WaitGroup
		for i, b := range buyers[first:] {
			pressing.Go(func() { b.press(t, p, headers[first+i], true) })
		}
		pressing.Wait()
	}
	p.awaitKill(t)
	if strings.HasSuffix(point, "before_commit@2") {
		return buyers, headers // it is not in the database
	}
	var most int
	w.query(t, "SELECT max(n) FROM (SELECT count(*) n FROM transaction_members GROUP BY transaction_id) AS t", nil, &most)
	if most < 2 {
		t.Fatal("no transaction is for several payments")
	}
	return buyers, headers
}

// eachEnds checks that each purchase succeeds in time, and that repeats change nothing.
func (w *world) eachEnds(t *testing.T, buyers []*buyer, headers []string, began time.Time) {
	t.Helper()
	for i, b := range buyers {
		w.ends(t, b, headers[i], began)
	}
}
