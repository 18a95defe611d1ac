package hostile_test

import (
	"context"
	"math/big"
	"net/http"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/uuid"
)

// gates are attacks that make the books differ, so that the service closes its own sales.
func gates() []attack {
	return []attack{
		{
			name: "transfers-of-nothing", by: stranger, do: sendsNothing,
			held: "chain TestTransfersSurviveFloodOfEmptyTransfers",
			aim: "so many transfers of zero to our address that the chain's books cannot be read any more, and top-ups " +
				"close for good",
			defence: "books are read in ranges that are halved on error, zero values are ignored, and a watermark is kept",
		},
		{
			name: "transfers-of-dust", by: payer, do: sendsDust,
			held:    "store TestUnmatchedTransferIsPostedOnce",
			aim:     "top-ups close for everybody, because money arrived that nobody owes",
			defence: "unmatched transfers are posted, summed and resolved; they block nobody else",
		},
		{
			name: "nonce-used-for-one-unit", by: payer, do: usesNonceForOneUnit,
			aim:     "goods for a millionth of a dollar, or an alarm that closes the sale for everybody",
			defence: "only the exact transfer to us pays; what differs is resolved for its own wallet, and blocks nobody else",
		},
	}
}

// spray is code that makes n transfers of a value, both given, to our address.
func (r *trial) spray() common.Address {
	r.Helper()
	token, payee := common.HexToAddress(r.world.books.USDC), common.HexToAddress(r.world.books.PayTo)
	head := slices.Concat(
		[]byte{0x63}, selector("transfer(address,uint256)"), []byte{0x60, 0xe0, 0x1b, 0x60, 0x00, 0x52}, // the selector
		[]byte{0x73}, payee[:], []byte{0x60, 0x04, 0x52}, // to
		[]byte{0x60, 0x20, 0x35, 0x60, 0x24, 0x52}, // the value
		[]byte{0x60, 0x00, 0x35},                   // how often
	)
	loop := byte(len(head))
	code := slices.Concat(head, []byte{0x5b, 0x60, 0, 0x60, 0, 0x60, 0x44, 0x60, 0, 0x60, 0, 0x73}, token[:],
		[]byte{0x5a, 0xf1, 0x50, 0x60, 0x01, 0x90, 0x03, 0x80, 0x60, loop, 0x57, 0x00})
	_, at := newKey(r)
	r.rpc(nil, "anvil_setCode", at.Hex(), hexutil.Encode(code))
	r.fund(at, 1_000_000)
	return at
}

// sprays sends so many transfers of a value, some hundred in each transaction.
func (r *trial) sprays(n int, value int64) {
	r.Helper()
	const each = 1000
	from := r.spray()
	_, sender := newKey(r)
	for left := n; left > 0; left -= each {
		if _, worked := r.transact(sender, from.Hex(),
			append(number(uint64(min(left, each))), word(big.NewInt(value))...)); !worked {
			r.Fatal("the transfers failed")
		}
	}
	r.unmatched.Add(int64(n) * value)
}

func sendsNothing(r *trial) {
	owner := r.wallet(1000)
	owner.owns(r)
	r.sprays(sized(4_000, 64_000), 0)
	begin := time.Now()
	r.compared()
	if took := time.Since(begin); whole && took > 20*time.Second { // clock: what this torture is about
		r.Errorf("a comparison took %s", took)
	}
	owner.buys(r, topupPath)
	r.exactly(owner, 2)
	r.besiege(func(ctx context.Context) {
		for ctx.Err() == nil {
			r.sprays(1000, 0)
		}
	})
}

func sendsDust(r *trial) {
	owner := r.wallet(1000)
	owner.owns(r)
	r.sprays(sized(500, 40_000), 1)
	begin := time.Now()
	r.compared()
	if took := time.Since(begin); whole && took > 20*time.Second { // clock: what this torture is about
		r.Errorf("a comparison took %s", took)
	}
	if a := owner.send(r.Context(), http.MethodPost, topupPath, keyed("k")); a.status != http.StatusPaymentRequired {
		r.Fatalf("another's top-up: %d %.300s", a.status, a.body)
	}
	owner.buys(r, topupPath)
	r.exactly(owner, 2)
}

// usesNonceForOneUnit uses the nonce of a payment for a transfer of one unit, just before our transaction.
func usesNonceForOneUnit(r *trial) {
	owner := r.wallet(1000)
	owner.owns(r)
	p := r.wallet(1000)
	body := keyed(uuid.NewString())
	offered := p.terms(r, esimPath, body)
	m := p.pays(r, offered)
	one := p.pays(r, offered, func(o *payment) { o.Nonce, o.Value = m.Nonce, big.NewInt(1) })
	before := r.goods()
	r.proxy.once("eth_sendRawTransaction", p.address.Hex()[2:], func() { r.executes(one) })
	a := p.offers(r.Context(), esimPath, body, m.header(r))
	r.unmatched.Add(1)
	if a.status == http.StatusOK || !r.used(one.authorization) || p.moved() != 1 {
		r.Errorf("%d %.300s; %d units moved", a.status, a.body, p.moved())
	}
	r.compared()
	if now := r.goods(); now != before {
		r.Errorf("the providers made %+v, and had %+v", now, before)
	}
	owner.buys(r, topupPath)
	r.rest()
}

// compared makes the service compare its books.
func (r *trial) compared() {
	r.Helper()
	r.mine(5) // what happened is in safe and final blocks
	r.operate("POST", "/api/admin/reconcile", "", nil, nil)
}

// mine makes blocks.
func (w *world) mine(n int) {
	w.t.Helper()
	for range n {
		w.rpc(nil, "anvil_mine", "0x1")
	}
}
