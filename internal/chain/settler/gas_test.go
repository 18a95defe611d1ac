package settler_test

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/x402"
)

// burner uses up all gas, whatever it is called with.
const burner = "0x5b5f56"

// yes accepts any signature.
const yes = "631626ba7e60e01b5f5260205ff3"

// TestPayerWithCodeCostsOnlyItself holds for our Settler whatever a payer's code does when the token asks it.
func TestPayerWithCodeCostsOnlyItself(t *testing.T) {
	b := newBench(t)
	c := settler.Own(token)
	// callsBack settles another member of the same batch, and then accepts the signature.
	callsBack := func(inner []byte) string {
		const size = 53
		head := fmt.Sprintf("61%04x61%04x5f39"+"5f5f61%04x5f5f73%s5af150", len(inner), size+1, len(inner),
			settler.Address.Lower()[2:])
		code := head + yes + "00"
		code += hex.EncodeToString(inner)
		if at := (len(head) + len(yes)) / 2; at != size {
			b.Fatalf("the code before the data has %d bytes", at)
		}
		return "0x" + code
	}
	callsBackWithLast := func(others []settler.Member) string { return callsBack(c.Call(others[19:])) }
	for name, tt := range map[string]struct {
		code func(others []settler.Member) string
		want settler.Outcome
	}{
		"burns all gas": {func([]settler.Member) string { return burner }, settler.Refused},
		"reverts":       {func([]settler.Member) string { return "0x5f5ffd" }, settler.Refused},
		"returns much":  {func([]settler.Member) string { return "0x6175305ffd" }, settler.Refused},
		"answers much":  {func([]settler.Member) string { return "0x6175305ff3" }, settler.Refused},
		"accepts":       {func([]settler.Member) string { return "0x" + yes }, settler.Transferred},
		"calls back":    {callsBackWithLast, settler.Transferred},
	} {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			members := b.sound(20)
			members[7] = b.withCode(tt.code(members))
			moved := 19
			if tt.want == settler.Transferred {
				moved++
			}
			want := all(settler.Transferred, 20)
			want[7] = tt.want
			b.wantMoved(moved, func() {
				got, _ := b.settle(c, members, c.Gas(20))
				b.wantOutcomes(got, want)
			})
		})
	}
}

// TestGasLimitIsEnoughForEveryMember holds when all but the last use up what they may, each for a payee of its own.
func TestGasLimitIsEnoughForEveryMember(t *testing.T) {
	b := newBench(t)
	c := settler.Own(token)
	for _, n := range []int{1, 2, 20, settler.MaxMembers} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b := b.in(t)
			var members []settler.Member
			for range n - 1 {
				m := b.withCode(burner)
				// Call data of the greatest cost: hardly a zero byte in it. The payer's code does not look at it.
				a := &m.Authorization
				a.To, a.Value, a.ValidBefore = x402.Address(crypto.Keccak256(a.Nonce[:])), math.MaxInt64, math.MaxUint64
				members = append(members, m)
			}
			members = append(members, b.sound(1)...)
			b.wantMoved(1, func() {
				got, r := b.settle(c, members, c.Gas(n))
				b.wantOutcomes(got, append(all(settler.Refused, n-1), settler.Transferred))
				t.Logf("%d gas of %d", r.GasUsed, c.Gas(n))
			})
		})
	}
}

func TestMulticallLosesBatchToPayerThatBurnsGas(t *testing.T) {
	b := newBench(t)
	c := settler.Multicall3(token)
	members := append([]settler.Member{b.withCode(burner)}, b.sound(19)...)
	b.wantMoved(0, func() {
		r := b.send(c.Address(), c.Call(members), c.Gas(20), 0)
		if r.ok() || uint64(r.GasUsed) != c.Gas(20) {
			t.Errorf("status %d with %d gas, which is better than documented", r.Status, r.GasUsed)
		}
	})
}

// TestBatchStopsWhenGasIsShort: what moved has moved, and what is left is not tried.
func TestBatchStopsWhenGasIsShort(t *testing.T) {
	b := newBench(t)
	c := settler.Own(token)
	members := b.sound(20)
	members[10] = b.withCode(burner)
	seen := map[int]bool{}
	for gas := uint64(140_000); gas < 1_400_000; gas += 41_000 {
		var snapshot string
		if err := b.node.CallContext(t.Context(), &snapshot, "evm_snapshot"); err != nil {
			t.Fatal(err)
		}
		got, r := b.settle(c, members, gas)
		tried := slices.Index(got, settler.NotTried)
		if tried < 0 {
			tried = len(got)
		}
		want := append(all(settler.Transferred, tried), all(settler.NotTried, 20-tried)...)
		if tried > 10 {
			want[10] = settler.Refused
		}
		b.wantOutcomes(got, want)
		// A payer's balance that ends at zero refunds 4,800 gas.
		if tried < 20 && gas-uint64(r.GasUsed) > 108_000+4_800*uint64(tried) {
			t.Errorf("%d of %d gas used, and %d members not tried", r.GasUsed, gas, 20-tried)
		}
		seen[tried] = true
		b.control("evm_revert", snapshot)
	}
	if len(seen) < 12 || !seen[0] || !seen[20] {
		t.Errorf("stopped after %v members", seen)
	}
}

// choosy accepts any signature if it gets so much gas, and refuses otherwise.
func choosy(gas int) string { return fmt.Sprintf("0x62%06x5a10601757%s5b5f5ffd", gas, yes) }

// TestMemberThatIsTriedGetsItsGas holds at the border between tried and not tried: a member gets all of its bound
// there, and one that uses it up leaves enough to answer.
func TestMemberThatIsTriedGetsItsGas(t *testing.T) {
	b := newBench(t)
	c := settler.Own(token)
	m := b.withCode(burner)
	outcome := func(gas uint64) settler.Outcome {
		answer, err := b.call(c.Address(), c.Call([]settler.Member{m}), gas)
		if err != nil {
			t.Fatalf("with %d gas: %v", gas, err)
		}
		got, err := c.Results(answer, 1)
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
	become := func(code string) { b.control("anvil_setCode", m.Authorization.From.String(), code) }
	// The most that the payer's code gets, when gas is not short, is what is left of the bound.
	least, most := 0, 1<<20
	for most-least > 1 {
		half := (least + most) / 2
		if become(choosy(half)); outcome(1_000_000) == settler.Transferred {
			least = half
		} else {
			most = half
		}
	}
	if least < 50_000 || least > 100_000 {
		t.Fatalf("a payer's code gets %d gas", least)
	}
	for name, tt := range map[string]struct {
		code string
		want settler.Outcome
	}{"needs all": {choosy(least), settler.Transferred}, "burns all": {burner, settler.Refused}} {
		become(tt.code)
		untried, tried := uint64(100_000), uint64(200_000)
		if low, high := outcome(untried), outcome(tried); low != settler.NotTried || high != tt.want {
			t.Fatalf("%s: %s with %d gas, %s with %d", name, low, untried, high, tried)
		}
		for tried-untried > 1 {
			if half := (untried + tried) / 2; outcome(half) == settler.NotTried {
				untried = half
			} else {
				tried = half
			}
		}
		for gas := tried; gas < tried+4_000; gas += 50 {
			if got := outcome(gas); got != tt.want {
				t.Fatalf("%s: %s with %d gas, want %s", name, got, gas, tt.want)
			}
		}
	}
}
