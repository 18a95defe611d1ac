package settler_test

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/chain/settler"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/x402"
)

// contracts are both, by name.
func contracts() map[string]settler.Contract {
	return map[string]settler.Contract{"own": settler.Own(token), "multicall": settler.Multicall3(token)}
}

// anyMembers are members that no chain accepts, of one payee or of another.
func anyMembers(n int) []settler.Member {
	members := make([]settler.Member, n)
	for i := range members {
		m := &members[i]
		a := &m.Authorization
		signature := make([]byte, 65)
		for _, b := range [][]byte{a.From[:], a.Nonce[:], signature} {
			_, _ = rand.Read(b) // never fails
		}
		m.Signature = x402.Signature(signature)
		a.To[0] = byte(i / 3)
		a.Value, a.ValidAfter, a.ValidBefore = money.USDC(1+i), uint64(i)<<40, 1<<64-1-uint64(i)
	}
	return members
}

func TestCallsReadBack(t *testing.T) {
	for name, c := range contracts() {
		for _, n := range []int{0, 1, 2, 20, 100, 600} {
			want := anyMembers(n)
			if n == 600 {
				for i := range want { // more of one payee than a run takes
					want[i].Authorization.To = payee
				}
			}
			got, err := c.ParseCall(c.Call(want))
			if err != nil || len(got) != n || n > 0 && !cmp.Equal(got, want) {
				t.Errorf("%s: %d members read back as %d, %v", name, n, len(got), err)
			}
		}
	}
}

// FuzzParseCall holds that data has one reading, and members one call.
func FuzzParseCall(f *testing.F) {
	for _, n := range []int{0, 1, 2, 5} {
		for _, c := range contracts() {
			f.Add(c.IsOwn(), c.Call(anyMembers(n)))
		}
	}
	f.Fuzz(func(t *testing.T, own bool, data []byte) {
		c := settler.Multicall3(token)
		if own {
			c = settler.Own(token)
		}
		if members, err := c.ParseCall(data); err == nil && !bytes.Equal(c.Call(members), data) {
			t.Errorf("%x reads as %d members, which make another call", data, len(members))
		}
		if len(data) < 300 {
			return
		}
		var members []settler.Member
		for i := range 2 {
			b := data[i*149:]
			members = append(members, settler.Member{
				Authorization: x402.Authorization{
					From: x402.Address(b), To: x402.Address{b[140] % 2}, Value: money.USDC(binary.BigEndian.Uint64(b[20:]) >> 1),
					ValidAfter: binary.BigEndian.Uint64(b[28:]), ValidBefore: binary.BigEndian.Uint64(b[36:]),
					Nonce: x402.Hash(b[44:]),
				},
				Signature: x402.Signature(b[76:141]),
			})
		}
		got, err := c.ParseCall(c.Call(members))
		if err != nil || !cmp.Equal(got, members) {
			t.Errorf("%v read back as %v, %v", members, got, err)
		}
	})
}

func TestOnlyOwnCallsAreRead(t *testing.T) {
	for name, c := range contracts() {
		data := c.Call(anyMembers(3))
		if _, err := c.ParseCall(data); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		other, _ := settler.At(c.Address(), x402.Address{1})
		if _, err := other.ParseCall(data); !errors.Is(err, settler.ErrCall) {
			t.Errorf("%s: a call of another token: %v", name, err)
		}
		for _, wrong := range [][]byte{
			nil, data[:3], data[:50], data[:len(data)-1], append(bytes.Clone(data), 0), x402.BalanceCall(payee),
			append(bytes.Clone(data), make([]byte, 32)...),
		} {
			if _, err := c.ParseCall(wrong); !errors.Is(err, settler.ErrCall) {
				t.Errorf("%s: %d bytes are a call: %v", name, len(wrong), err)
			}
		}
		for i := range 100 {
			wrong := bytes.Clone(data)
			wrong[i] ^= 0x80
			if members, err := c.ParseCall(wrong); err == nil && !bytes.Equal(c.Call(members), wrong) {
				t.Errorf("%s: another byte %d is not noticed", name, i)
			}
		}
		large := anyMembers(1)
		large[0].Authorization.Value = -1
		if _, err := c.ParseCall(c.Call(large)); !errors.Is(err, settler.ErrCall) {
			t.Errorf("%s: a value that no USDC has: %v", name, err)
		}
	}
}

const contractsABI = `[
{"type":"function","name":"settle","inputs":[{"name":"token","type":"address"},{"name":"batch","type":"bytes"}],
"outputs":[{"type":"bytes"}]},
{"type":"function","name":"aggregate3","inputs":[{"type":"tuple[]","components":[{"name":"target","type":"address"},
{"name":"allowFailure","type":"bool"},{"name":"callData","type":"bytes"}]}],
"outputs":[{"type":"tuple[]","components":[{"name":"success","type":"bool"},{"name":"returnData","type":"bytes"}]}]}]`

func parsedABI(t testing.TB) abi.ABI {
	t.Helper()
	parsed, err := abi.JSON(strings.NewReader(contractsABI))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// settleCall is a call of our Settler with any batch.
func settleCall(t testing.TB, token x402.Address, batch []byte) []byte {
	t.Helper()
	data, err := parsedABI(t).Pack("settle", common.Address(token), batch)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// batchOf is the batch in a call of our Settler.
func batchOf(call []byte) []byte {
	size := new(big.Int).SetBytes(call[68:100]).Int64()
	return call[100 : 100+size]
}

func TestCallsMatchTheABI(t *testing.T) {
	members := anyMembers(5)
	own := settler.Own(token).Call(members)
	if want := settleCall(t, token, batchOf(own)); !bytes.Equal(own, want) {
		t.Errorf("settle\n got %x\nwant %x", own, want)
	}
	type call3 struct {
		Target       common.Address
		AllowFailure bool
		CallData     []byte
	}
	var calls []call3
	for _, m := range members {
		calls = append(calls, call3{common.Address(token), true, x402.TransferCall(m.Authorization, m.Signature)})
	}
	want, err := parsedABI(t).Pack("aggregate3", calls)
	if err != nil {
		t.Fatal(err)
	}
	if got := settler.Multicall3(token).Call(members); !bytes.Equal(got, want) {
		t.Errorf("aggregate3\n got %x\nwant %x", got, want)
	}
}

func TestResultsAreReadOrRefused(t *testing.T) {
	type result struct {
		Success    bool
		ReturnData []byte
	}
	own, err := parsedABI(t).Methods["settle"].Outputs.Pack([]byte{1, 2, 0})
	if err != nil {
		t.Fatal(err)
	}
	multicall, err := parsedABI(t).Methods["aggregate3"].Outputs.Pack(
		[]result{{true, nil}, {false, make([]byte, 100)}, {true, make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string][]byte{"own": own, "multicall": multicall}
	wants := map[string][]settler.Outcome{
		"own":       {settler.Transferred, settler.Refused, settler.NotTried},
		"multicall": {settler.Transferred, settler.Refused, settler.Transferred},
	}
	for name, c := range contracts() {
		answer := answers[name]
		if got, err := c.Results(answer, 3); err != nil || !cmp.Equal(got, wants[name]) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, wants[name])
		}
		for members, wrong := range map[int][]byte{2: answer, 4: answer, 3: answer[:64], 0: nil, 1: {1}} {
			if got, err := c.Results(wrong, members); !errors.Is(err, settler.ErrAnswer) {
				t.Errorf("%s: %d bytes for %d members: %v, %v", name, len(wrong), members, got, err)
			}
		}
	}
	own[64] = 3
	if got, err := settler.Own(token).Results(own, 3); !errors.Is(err, settler.ErrAnswer) {
		t.Errorf("an outcome that does not exist: %v, %v", got, err)
	}
	for at := range len(multicall) {
		wrong := bytes.Clone(multicall)
		wrong[at] = 0xff
		_, _ = settler.Multicall3(token).Results(wrong, 3) // any bytes are read within bounds
	}
	if !bytes.Equal(multicall[32:64], common.LeftPadBytes([]byte{3}, 32)) {
		t.Fatal("the list is elsewhere")
	}
	multicall[32+64] = 0xff
	if got, err := settler.Multicall3(token).Results(multicall, 3); !errors.Is(err, settler.ErrAnswer) {
		t.Errorf("an offset beyond the answer: %v, %v", got, err)
	}
}

func TestBatchesStayBelowTheGasOfATransaction(t *testing.T) {
	for name, c := range contracts() {
		if gas := c.Gas(settler.MaxMembers); gas > 1<<24 {
			t.Errorf("%s: %d members take %d gas", name, settler.MaxMembers, gas)
		}
	}
}
