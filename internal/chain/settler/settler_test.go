package settler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/x402"
)

func TestBatchTransfersEveryMember(t *testing.T) {
	b := newBench(t)
	for name, c := range contracts() {
		for _, n := range []int{1, 20, 100} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				b := b.in(t)
				members := b.sound(n)
				b.wantMoved(n, func() {
					got, r := b.settle(c, members, c.Gas(n))
					b.wantOutcomes(got, all(settler.Transferred, n))
					t.Logf("%d gas each", int(r.GasUsed)/n)
				})
			})
		}
	}
}

func TestBadMembersCostOnlyThemselves(t *testing.T) {
	b := newBench(t)
	for name, c := range contracts() {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			used, poor, blocked, twice := b.pays(b.newPayer()), b.newPayer(), b.newPayer(), b.pays(b.newPayer())
			b.settle(c, []settler.Member{used}, c.Gas(1))
			b.write(balances, poor.address, int64(price)-1)
			b.write(blacklist, blocked.address, 1)
			forged := b.pays(b.newPayer())
			forged.Signature = b.pays(b.newPayer()).Signature
			garbage := b.pays(b.newPayer())
			garbage.Signature = x402.KeySignature(make([]byte, 64), 0xff-27)
			members := []settler.Member{
				used, b.pays(poor), b.pays(blocked), forged, garbage,
				b.pays(b.newPayer(), func(a *x402.Authorization) { a.ValidBefore = uint64(time.Now().Unix()) - 3600 }),
				b.pays(b.newPayer(), func(a *x402.Authorization) { a.ValidAfter = a.ValidBefore - 1 }),
				b.pays(b.newPayer(), func(a *x402.Authorization) { a.To = token }),
				twice, twice,
			}
			want := all(settler.Refused, len(members))
			want[8] = settler.Transferred
			for i, good := range b.sound(len(members) + 1) { // before, between and behind the others
				members = slices.Insert(members, 2*i, good)
				want = slices.Insert(want, 2*i, settler.Transferred)
			}
			b.wantMoved(12, func() {
				got, _ := b.settle(c, members, c.Gas(len(members)))
				b.wantOutcomes(got, want)
			})
		})
	}
}

func TestBatchPaysSeveralPayees(t *testing.T) {
	b := newBench(t)
	other := x402.Address{1, 2, 3}
	toOther := func(a *x402.Authorization) { a.To = other }
	for name, c := range contracts() {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			members := b.sound(2)
			members = append(members, b.pays(b.newPayer(), toOther))
			members = append(members, b.sound(1)...)
			before := b.balance(other)
			b.wantMoved(3, func() {
				got, _ := b.settle(c, members, c.Gas(4))
				b.wantOutcomes(got, all(settler.Transferred, 4))
			})
			if got := b.balance(other) - before; got != price {
				t.Errorf("%s moved to the other payee, want %s", got, price)
			}
		})
	}
}

func TestMalformedCallReverts(t *testing.T) {
	b := newBench(t)
	c := settler.Own(token)
	members := b.sound(3)
	batch := batchOf(c.Call(members))
	changed := func(at int, to byte) []byte {
		other := slices.Clone(batch)
		other[at] = to
		return other
	}
	if got, err := b.call(c.Address(), settleCall(t, token, nil), c.Gas(3)); err != nil || len(got) != 64 {
		t.Fatalf("an empty batch: %x, %v", got, err)
	}
	for name, data := range map[string][]byte{
		"no data":              nil,
		"another function":     x402.BalanceCall(payee),
		"half a call":          c.Call(members)[:100],
		"a byte short":         settleCall(t, token, batch[:len(batch)-1]),
		"a member short":       settleCall(t, token, batch[:len(batch)-141]),
		"a byte more":          settleCall(t, token, append(slices.Clone(batch), 0)),
		"half a head more":     settleCall(t, token, append(slices.Clone(batch), batch[:20]...)),
		"a run of none":        settleCall(t, token, append(slices.Clone(batch), make([]byte, 21)...)),
		"only a run of none":   settleCall(t, token, make([]byte, 21)),
		"a run too long":       settleCall(t, token, changed(20, 4)),
		"a run too short":      settleCall(t, token, changed(20, 2)),
		"a token without code": settleCall(t, payee, batch),
	} {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			if _, err := b.call(c.Address(), data, c.Gas(3)); err == nil {
				t.Error("the simulation succeeds")
			}
			if r := b.send(c.Address(), data, c.Gas(3), 0); r.ok() || len(r.Logs) > 0 {
				t.Errorf("status %d, %d events", r.Status, len(r.Logs))
			}
		})
	}
}

func TestEtherIsRefused(t *testing.T) {
	b := newBench(t)
	c := settler.Own(token)
	for name, data := range map[string][]byte{"alone": nil, "with a batch": c.Call(b.sound(1))} {
		if r := b.send(c.Address(), data, c.Gas(1), 1); r.ok() {
			t.Errorf("%s: status %d", name, r.Status)
		}
	}
	var wei hexutil.Big
	err := b.node.CallContext(t.Context(), &wei, "eth_getBalance", c.Address().String(), "latest")
	if err != nil || wei.ToInt().Sign() != 0 {
		t.Errorf("the contract holds %s wei, %v", wei.String(), err)
	}
}
