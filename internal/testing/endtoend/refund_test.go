package endtoend_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/app"
	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

// newAdminWorld is a world with the operator ann, and with a treasury unless its balance is negative.
func newAdminWorld(t *testing.T, balance money.USDC, p plan) *world {
	t.Helper()
	key, change := newKey(t), p.change
	p.change = func(c *app.Config) {
		c.Operators = []auth.Operator{{Name: "ann", Hash: sha256.Sum256([]byte(operatorToken))}}
		if balance >= 0 {
			c.TreasuryKey = secret.New(hexutil.Encode(crypto.FromECDSA(key)))
		}
		if change != nil {
			change(c)
		}
	}
	w := newWorld(t, p)
	if balance >= 0 {
		w.treasury = addressOf(key)
		w.fund(w.treasury, balance)
	}
	return w
}

// operatorCall makes a call of the operator's; an empty key sends none.
func (w *world) operatorCall(method, path, body, key string) answer {
	return w.send(request{method: method, path: path, body: body}.asOperator(key))
}

// setSwitch pauses or resumes the sale of a product, as the operator.
func (w *world) setSwitch(product string, paused bool, key string) {
	w.t.Helper()
	body := fmt.Sprintf(`{"paused":%t,"reason":"drill"}`, paused)
	w.operatorCall("POST", "/api/admin/switches/"+product, body, key).into(w.t, 200, nil)
}

// decide decides an order in review, as the operator.
func (w *world) decide(order, action, reason, key string) answer {
	w.t.Helper()
	body := fmt.Sprintf(`{"action":%q,"reason":%q}`, action, reason)
	return w.operatorCall("POST", "/api/admin/orders/"+order+"/decide", body, key)
}

// orderView is the part of an order that tells of its refund.
type orderView struct {
	OrderID string `json:"orderId"`
	Status  string `json:"status"`
	Refund  *struct {
		Status      string `json:"status"`
		Amount      string `json:"amount"`
		To          string `json:"to"`
		Transaction string `json:"transaction"`
		RefundedAt  string `json:"refundedAt"`
	} `json:"refund"`
	Issuance struct {
		Status string `json:"status"`
	} `json:"issuance"`
	Topup struct {
		Status string `json:"status"`
	} `json:"topup"`
	Replayed bool `json:"replayed"`
}

// awaitStatus waits until a signed-in buyer's order has a status.
func (b *buyer) awaitStatus(id, status string) orderView {
	b.w.t.Helper()
	var o orderView
	eventually(b.w.t, func() (bool, string) {
		b.get("/api/orders/"+id).into(b.w.t, 200, &o)
		return o.Status == status, fmt.Sprintf("%+v, %+v", o, b.w.orders())
	})
	return o
}

// payouts are the treasury's transfers to a wallet, from the chain's own log.
func (w *world) payouts(to x402.Address) (transactions []string) {
	w.t.Helper()
	var logs []struct {
		Tx common.Hash `json:"transactionHash"`
	}
	w.rpc(&logs, "eth_getLogs", map[string]any{
		"fromBlock": hexutil.EncodeUint64(w.fromBlock),
		"toBlock":   "latest",
		"address":   usdc().String(),
		"topics":    []any{x402.TopicTransfer.String(), w.treasury.Word().String(), to.Word().String()},
	})
	for _, l := range logs {
		transactions = append(transactions, l.Tx.Hex())
	}
	return transactions
}

// TestRefusedCardIsRefunded: the buyer of a card that the issuer refuses has the money again, sees it on
// the order, and can buy another.
func TestRefusedCardIsRefunded(t *testing.T) {
	t.Parallel()
	w := newAdminWorld(t, 100_000_000, plan{instances: 2})
	b := w.buyer()
	b.signIn()
	was := w.balance(b.address)
	pay := header(t, b.payment())
	var first orderView
	w.send(purchase("refused~002", pay)).into(t, 200, &first)
	o := b.awaitStatus(first.OrderID, "refunded")
	if o.Refund == nil || o.Refund.Status != "refunded" || o.Refund.Amount != "25000000" ||
		o.Refund.To != b.address.String() ||
		o.Refund.RefundedAt == "" || o.Issuance.Status != "refused" {
		t.Fatalf("order %+v, refund %+v", o, o.Refund)
	}
	if got := w.payouts(b.address); len(got) != 1 || got[0] != o.Refund.Transaction {
		t.Errorf("the treasury paid in %v, the order tells of %s", got, o.Refund.Transaction)
	}
	if now := w.balance(b.address); now != was {
		t.Errorf("the buyer has %s, had %s", now, was)
	}
	// A repeat, with the same payment or a new one, tells of the refund and starts nothing.
	for _, repeat := range []string{pay, header(t, b.payment())} {
		var again orderView
		w.send(purchase("refused~002", repeat)).into(t, 200, &again)
		if !again.Replayed || again.OrderID != o.OrderID || again.Refund == nil ||
			again.Refund.Transaction != o.Refund.Transaction {
			t.Errorf("again %+v", again)
		}
	}
	// The same over Connect.
	var rpc struct{ Order orderView }
	b.post("/roamcard.v1.OrderService/GetOrder", `{"orderId":`+jsonText(o.OrderID)+`}`).into(t, 200, &rpc)
	if rpc.Order.Refund == nil || *rpc.Order.Refund != *o.Refund {
		t.Errorf("over Connect %+v", rpc.Order.Refund)
	}
	b.buyCard("another")
	if got := w.payouts(b.address); len(got) != 1 {
		t.Errorf("the treasury paid in %v", got)
	}
	w.checkBooks()
	w.wantFindings("a refund")
}

func TestRefusedTopUpIsRefunded(t *testing.T) {
	onlyTorture(t, "settlement TestRefusedTopUpIsRefunded")
	t.Parallel()
	w := newAdminWorld(t, 100_000_000, plan{})
	b := w.buyer()
	b.buyCard("card")
	was := w.balance(b.address)
	pay := b.payment(func(p *x402.Payment) {
		p.Accepted.Amount, p.Authorization.Value, p.Resource.URL = "33330000", 33_330_000, origin+"/api/card/topup"
	})
	var o orderView
	topUp := post("/api/card/topup", `{"amountUsdCents":3333,"idempotencyKey":"more~002"}`)
	w.send(topUp.paying(header(t, pay))).into(t, 200, &o)
	o = b.awaitStatus(o.OrderID, "refunded")
	if o.Refund == nil || o.Refund.Amount != "33330000" || o.Topup.Status != "refused" {
		t.Errorf("order %+v, refund %+v", o, o.Refund)
	}
	if now := w.balance(b.address); now != was {
		t.Errorf("the buyer has %s, had %s", now, was)
	}
	w.checkBooks()
	w.wantFindings("a refunded top-up")
}

// TestConcurrentRefundsArePaidOnceEach: two processes bring back what a dozen orders paid, each once.
func TestConcurrentRefundsArePaidOnceEach(t *testing.T) {
	onlyTorture(t, "settlement TestChainFaultsLeaveOneRefund, store "+
		"TestOrdersPassTheKit/RefundIsRecordedOnceWithItsOrderAndItsWatchJob")
	t.Parallel()
	w := newAdminWorld(t, 1_000_000_000, plan{instances: 2})
	const n = 12
	buyers, requests := make([]*buyer, n), make([]request, n)
	for i := range buyers {
		buyers[i] = w.buyer()
		requests[i] = purchase(fmt.Sprintf("k%d~002", i), header(t, buyers[i].payment()))
		requests[i].at = w.instances[i%2]
	}
	for i, a := range w.race(requests) {
		if a.status != http.StatusOK {
			t.Fatalf("buyer %d: %d %s", i, a.status, a.body)
		}
	}
	w.awaitSettled()
	for i, b := range buyers {
		if got := w.payouts(b.address); len(got) != 1 || w.balance(b.address) != 1_000_000_000 {
			t.Errorf("buyer %d: paid back in %v, has %s", i, got, w.balance(b.address))
		}
	}
	if left := w.balance(w.treasury); left != 1_000_000_000-n*price() {
		t.Errorf("the treasury has %s", left)
	}
	w.checkBooks()
}

// TestRefundWaitsForTreasuryFunds: the refund waits, and goes out once when the money is there.
func TestRefundWaitsForTreasuryFunds(t *testing.T) {
	onlyTorture(t, "settlement TestRefundWaitsForTheTreasuryAndIsSignedAgainWithItsNonce")
	t.Parallel()
	w := newAdminWorld(t, price()-1, plan{})
	b := w.buyer()
	b.signIn()
	var o orderView
	b.buySettled("short~002").into(t, 200, &o)
	o = b.awaitStatus(o.OrderID, "refund_pending")
	if o.Refund == nil || o.Refund.Status != "pending" || o.Refund.Transaction != "" || o.Refund.Amount != "25000000" {
		t.Errorf("refund %+v", o.Refund)
	}
	eventually(t, func() (bool, string) {
		var n int
		err := w.db.QueryRow(context.WithoutCancel(t.Context()),
			"SELECT count(*) FROM refunds WHERE status = 'signed'").Scan(&n)
		return err == nil && n == 1, fmt.Sprint(n, err)
	})
	w.fund(w.treasury, price())
	b.awaitStatus(o.OrderID, "refunded")
	if w.balance(b.address) != 1_000_000_000 || w.balance(w.treasury) != 0 || len(w.payouts(b.address)) != 1 {
		t.Errorf("the buyer has %s, the treasury %s", w.balance(b.address), w.balance(w.treasury))
	}
	w.checkBooks()
}

// TestExpiredRefundIsLeftToOperator: the order comes to review only when its authorization is
// dead, and the operator's decision makes one refund of it.
func TestExpiredRefundIsLeftToOperator(t *testing.T) {
	onlyTorture(t, "settlement TestLateRefundGoesToAnOperatorOnceItIsDead, and "+
		"TestRefundOfTwoOperatorsEndsOnChain here")
	t.Parallel()
	w := newAdminWorld(t, 0,
		plan{chain: ownChain(t), change: func(c *app.Config) { c.TreasuryDeadline = 15 * time.Second }})
	b := w.buyer()
	b.signIn()
	var o orderView
	b.buySettled("never~002").into(t, 200, &o)
	b.awaitStatus(o.OrderID, "refund_pending")
	// The safe block of this chain is far behind: it has to pass the authorization's time.
	w.mine(128)
	b.awaitStatus(o.OrderID, "operator_review")
	w.fund(w.treasury, 2*price())
	decide := "/api/admin/orders/" + o.OrderID + "/decide"
	for range 2 {
		w.operatorCall("POST", decide, `{"action":"refund","reason":"the treasury has money again"}`, "d1").into(t, 200, nil)
	}
	b.awaitStatus(o.OrderID, "refunded")
	if w.balance(w.treasury) != price() || len(w.payouts(b.address)) != 1 {
		t.Errorf("the treasury has %s", w.balance(w.treasury))
	}
	w.checkBooks()
}

// TestRefundWithoutRelayerIsLeftToOperator: without a relayer the order goes to a person, who reads why.
func TestRefundWithoutRelayerIsLeftToOperator(t *testing.T) {
	onlyTorture(t, "settlement TestRefundWithoutASettlerGoesToAnOperatorUnsigned")
	t.Parallel()
	treasury := newKey(t)
	w, _ := newFacilitatorWorld(t, "facilitator", func(c *app.Config) {
		c.TreasuryKey = secret.New(hexutil.Encode(crypto.FromECDSA(treasury)))
	})
	b := w.buyer()
	b.buySettled("k~002").into(t, 200, nil)
	w.awaitSettled()
	var why string
	err := w.db.QueryRow(t.Context(),
		"SELECT evidence->>'not_refunded' FROM timeline WHERE to_status = 'operator_review'").Scan(&why)
	if err != nil || !strings.Contains(why, "no relayer") {
		t.Errorf("evidence %q, %v", why, err)
	}
	w.checkBooks()
}
