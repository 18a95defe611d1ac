package endtoend_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// headerCases are payment headers that cannot be read, or that are payments of another kind.
func headerCases(t *testing.T, b *buyer) refusals {
	good := header(t, b.payment())
	raw, err := base64.StdEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	var cases refusals
	bad := func(name, payment string) {
		cases = append(cases, refusal{"header: " + name, purchase("h", payment), 400, fault.PaymentMalformed})
	}
	std := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	bad("no base64", "!!!")
	bad("a word", "payment")
	bad("JSON in the open", string(raw))
	bad("one more letter", good+"A")
	bad("cut", good[:len(good)-3])
	bad("cut in the middle", good[:len(good)/2])
	bad("two joined by a comma", good+","+good)
	bad("blank inside", good[:40]+" "+good[40:])
	bad("too much padding", strings.TrimRight(good, "=")+"====")
	bad("loose bits", std("{}")[:2]+"1=")
	bad("url alphabet", "-_"+good)
	bad("gzip", base64.StdEncoding.EncodeToString([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}))
	bad("8 kB of nothing", strings.Repeat("A", 8<<10))
	bad("more than 16 kB", strings.Repeat("A", 16<<10+4))
	bad("null", std("null"))
	bad("list", std("[]"))
	bad("empty object", std("{}"))
	bad("trailing document", std(string(raw)+"{}"))
	bad("byte order mark", std("\xef\xbb\xbf"+string(raw)))
	bad("not UTF-8", std(strings.Replace(string(raw), "application/json", "\xff", 1)+"\xff"))
	bad("duplicate payload", std(`{"payload":{},`+string(raw[1:])))
	bad("duplicate accepted", std(`{"accepted":{},`+string(raw[1:])))
	bad("duplicate value", std(strings.Replace(string(raw), `"value":`, `"value":"1","value":`, 1)))
	bad("deep", std(`{"x402Version":2,"extensions":`+strings.Repeat(`{"a":`, 60)+"1"+strings.Repeat("}", 60)+"}"))
	bad("deep lists", std(strings.Repeat("[", 4000)+strings.Repeat("]", 4000)))
	for _, member := range []string{"from", "to", "value", "validAfter", "validBefore", "nonce"} {
		for name, v := range map[string]any{
			"absent":   nil,
			"number":   1,
			"null":     json.RawMessage("null"),
			"list":     []any{},
			"empty":    "",
			"negative": "-1",
		} {
			bad(member+" "+name, spoiled(t, b, func(_, a map[string]any) { setOrDelete(a, member, v) }))
		}
	}
	for _, number := range []string{"+25000000", "025000000", "25000000.0", "25.0", "0x17d7840", "2.5e7", "25_000_000",
		"٢٥", " 25000000", "25000000 ", "NaN", strings.Repeat("9", 79), strings.Repeat("9", 10_000)} {
		bad("value "+number[:min(12, len(number))], spoiled(t, b, func(_, a map[string]any) { a["value"] = number }))
		bad("validBefore "+number[:min(12, len(number))],
			spoiled(t, b, func(_, a map[string]any) { a["validBefore"] = number }))
	}
	nonce := strings.Repeat("ab", 32)
	for name, n := range map[string]string{
		"without 0x": nonce,
		"short":      "0x" + nonce[2:],
		"long":       "0x" + nonce + "00",
		"0X":         "0X" + nonce,
		"not hex":    "0x" + nonce[:62] + "zz",
	} {
		bad("nonce "+name, spoiled(t, b, func(_, a map[string]any) { a["nonce"] = n }))
	}
	for name, s := range map[string]any{
		"absent":     nil,
		"number":     7,
		"no hex":     "0xzz",
		"odd":        "0x123",
		"without 0x": strings.Repeat("11", 65),
	} {
		bad("signature "+name,
			spoiled(t, b, func(m, _ map[string]any) { setOrDelete(m["payload"].(map[string]any), "signature", s) }))
	}
	for name, v := range map[string]any{"text": "2", "absent": nil, "null": json.RawMessage("null"), "list": []any{2}} {
		bad("version "+name, spoiled(t, b, func(m, _ map[string]any) { setOrDelete(m, "x402Version", v) }))
	}
	bad("unknown member of the authorization", spoiled(t, b, func(_, a map[string]any) { a["memo"] = "x" }))
	bad("unknown member of accepted",
		spoiled(t, b, func(m, _ map[string]any) { m["accepted"].(map[string]any)["price"] = "1" }))
	bad("unknown member of the payload",
		spoiled(t, b, func(m, _ map[string]any) { m["payload"].(map[string]any)["x"] = "1" }))
	bad("timeout text",
		spoiled(t, b, func(m, _ map[string]any) { m["accepted"].(map[string]any)["maxTimeoutSeconds"] = "120" }))
	bad("address of another checksum",
		spoiled(t, b, func(_, a map[string]any) { a["from"] = swapCase(b.address.String()) }))
	return cases
}

// spoiled is a good payment's header after a change to its JSON and to its authorization.
func spoiled(t *testing.T, b *buyer, change func(m, authorization map[string]any)) string {
	t.Helper()
	m := paymentJSON(t, b.payment())
	change(m, m["payload"].(map[string]any)["authorization"].(map[string]any))
	return encodeHeader(t, m)
}

func setOrDelete(m map[string]any, name string, v any) {
	if v == nil {
		delete(m, name)
		return
	}
	m[name] = v
}

// swapCase turns one letter's case, which breaks an EIP-55 checksum.
func swapCase(address string) string {
	at := 2 + strings.IndexAny(address[2:], "abcdefABCDEF")
	c := address[at] ^ 0x20
	return address[:at] + string(c) + address[at+1:]
}

func TestUnreadablePaymentsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	w.wantRefusals(headerCases(t, w.buyer()))
}

// rejectedCases are payments that can be read and do not meet the terms: A4, A12 to A18, A26 to A28.
func rejectedCases(t *testing.T, b *buyer) refusals {
	var cases refusals
	no := func(name, payment string) {
		cases = append(cases, refusal{"payment: " + name, purchase("r", payment), 402, fault.PaymentRejected})
	}
	accepted := func(name, member string, v any) {
		no(name, spoiled(t, b, func(m, _ map[string]any) { m["accepted"].(map[string]any)[member] = v }))
	}
	signed := func(name string, change func(*x402.Authorization)) {
		no(name, header(t, b.payment(func(p *x402.Payment) { change(&p.Authorization) })))
	}
	for _, amount := range []string{"0", "1", "24999999", "25000001", "2500", "25", "25000000000000000000", "-25000000",
		"+25000000", "025000000",
		"25000000.0", "0x17d7840", "25e6", "٢٥٠٠٠٠٠٠", strings.Repeat("9", 78), strings.Repeat("9", 5000)} {
		accepted("amount "+amount[:min(len(amount), 22)], "amount", amount)
	}
	for name, value := range map[string]int64{
		"zero":     0,
		"one less": 24_999_999,
		"one more": 25_000_001,
		"cents":    2500,
		"double":   50_000_000,
	} {
		signed("signed value "+name, func(a *x402.Authorization) { a.Value = moneyOf(value) })
	}
	no("signed value 2^256-1", spoiled(t, b, func(_, a map[string]any) {
		a["value"] = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	}))
	for name, asset := range map[string]string{
		"USDbC":          "0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA",
		"Sepolia USDC":   "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
		"EURC":           "0x60a3e35cc302bfa44cb288bc5a4f316fdb1adb42",
		"lookalike":      "0x833589fcd6edb6e08f4c7c32d4f71b54bda02914",
		"zero":           "0x0000000000000000000000000000000000000000",
		"not an address": "USDC",
		"empty":          "",
	} {
		accepted("asset "+name, "asset", asset)
	}
	for _, network := range []string{"base", "eip155:84532", "eip155:1", "8453", "eip155:08453", "EIP155:8453",
		"eip155:8453 ", "solana:mainnet", ""} {
		accepted("network "+jsonText(network), "network", network)
	}
	stranger := b.w.unfundedBuyer().address
	accepted("accepted payee another's", "payTo", stranger.String())
	signed("signed payee another's", func(a *x402.Authorization) { a.To = stranger })
	signed("signed payee one nibble off", func(a *x402.Authorization) { a.To[19] ^= 1 })
	signed("signed payee zero", func(a *x402.Authorization) { a.To = x402.Address{} })
	for _, scheme := range []string{"upto", "Exact", "", "exact "} {
		accepted("scheme "+jsonText(scheme), "scheme", scheme)
	}
	for _, version := range []any{1, 3, 0, -2, json.Number("2.0"), json.Number("2e0")} {
		no(fmt.Sprintf("version %v", version), spoiled(t, b, func(m, _ map[string]any) { m["x402Version"] = version }))
	}
	for _, other := range []string{"permit2Authorization", "delegationManager", "permissionContext"} {
		no(other, spoiled(t, b,
			func(m, _ map[string]any) { m["payload"].(map[string]any)[other] = map[string]any{"spender": "0x0"} }))
	}
	now := uint64(time.Now().Unix())
	for name, before := range map[string]uint64{
		"past":    now - 60,
		"now":     now,
		"in 5 s":  now + 5,
		"in 15 s": now + 15,
		"in 26 h": now + 26*3600,
		"never":   1<<64 - 1,
		"zero":    0,
	} {
		signed("validBefore "+name, func(a *x402.Authorization) { a.ValidBefore = before })
	}
	for name, after := range map[string]uint64{"in an hour": now + 3600, "in ten minutes": now + 600, "never": 1<<64 - 1} {
		signed("validAfter "+name, func(a *x402.Authorization) { a.ValidAfter = after })
	}
	no("validBefore 2^256-1", spoiled(t, b, func(_, a map[string]any) {
		a["validBefore"] = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	}))
	return append(cases, signatureCases(t, b)...)
}

func signatureCases(t *testing.T, b *buyer) refusals {
	var cases refusals
	no := func(name string, signature string) {
		payment := spoiled(t, b, func(m, _ map[string]any) { m["payload"].(map[string]any)["signature"] = signature })
		cases = append(cases, refusal{"signature: " + name, purchase("s", payment), 402, fault.PaymentRejected})
	}
	p := b.payment()
	s := p.Signature
	good := s.Hex()
	high := p
	high.Signature = withHighS(s)
	cases = append(cases, refusal{"signature: high s", purchase("s", header(t, high)), 402, fault.PaymentRejected})
	other := b.w.buyer().payment(func(q *x402.Payment) { q.Authorization = p.Authorization })
	cases = append(cases,
		refusal{"signature: another wallet's", purchase("s", header(t, other)), 402, fault.PaymentRejected})
	for _, d := range []x402.Domain{
		{Name: "USDC", Version: "2", ChainID: 8453, Contract: usdc()},
		{Name: "USD Coin", Version: "1", ChainID: 8453, Contract: usdc()},
		{Name: "USD Coin", Version: "2", ChainID: 84532, Contract: usdc()},
		{Name: "USD Coin", Version: "2", ChainID: 8453, Contract: b.address},
	} {
		q := b.payment()
		var err error
		if q.Signature, err = curve.Sign(d, q.Authorization, b.key); err != nil {
			t.Fatal(err)
		}
		cases = append(cases,
			refusal{fmt.Sprintf("signature: domain %s %s %d", d.Name, d.Version, d.ChainID), purchase("s", header(t, q)), 402,
				fault.PaymentRejected})
	}
	no("v 26", good[:len(good)-2]+"1a")
	no("v 29", good[:len(good)-2]+"1d")
	no("v 2", good[:len(good)-2]+"02")
	no("r zero", "0x"+strings.Repeat("00", 32)+good[66:])
	no("s zero", good[:66]+strings.Repeat("00", 32)+good[130:])
	no("r the order", "0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"+good[66:])
	no("all zero", "0x"+strings.Repeat("00", 65))
	no("all ff", "0x"+strings.Repeat("ff", 65))
	no("empty", "0x")
	no("compact", good[:130])
	no("short", good[:120])
	no("66 bytes", good+"00")
	no("ERC-1271 blob", "0x"+strings.Repeat("ab", 96))
	no("two signatures", good+good[2:])
	no("ERC-6492", "0x"+hex.EncodeToString(make([]byte, 128))+strings.Repeat("6492", 16))
	for name, from := range map[string]string{
		"zero address": "0x0000000000000000000000000000000000000000",
		"precompile":   "0x0000000000000000000000000000000000000001",
		"the token":    usdc().String(),
		"the payee":    b.w.payTo.String(),
	} {
		payment := spoiled(t, b, func(_, a map[string]any) { a["from"] = from })
		cases = append(cases, refusal{"payer " + name, purchase("s", payment), 402, fault.PaymentRejected})
	}
	return cases
}

func TestPaymentsNotMatchingTheTermsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	b := w.buyer()
	cases := rejectedCases(t, b)
	poor := w.unfundedBuyer()
	cases = append(cases,
		refusal{"payer without money", purchase("r", header(t, poor.payment())), 402, fault.PaymentRejected})
	short := w.unfundedBuyer()
	w.fund(short.address, price()-1)
	cases = append(cases,
		refusal{"payer a millionth short", purchase("r", header(t, short.payment())), 402, fault.PaymentRejected})
	w.wantRefusals(cases)
	// The harness can also succeed: the same wallet's good payment is taken.
	b.buyCard("good")
	w.checkBooks()
}

// TestEquivalentPaymentEncodingsAreAccepted is the other side of the tables above: what must not be refused.
func TestEquivalentPaymentEncodingsAreAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{})
	for name, change := range map[string]func(m, a map[string]any){
		"as made":             func(_, _ map[string]any) {},
		"asset in lower case": func(m, _ map[string]any) { m["accepted"].(map[string]any)["asset"] = usdc().Lower() },
		"payer in lower case": func(_, a map[string]any) { a["from"] = strings.ToLower(a["from"].(string)) },
		"nonce in upper case": func(_, a map[string]any) { a["nonce"] = "0x" + strings.ToUpper(a["nonce"].(string)[2:]) },
		"v 0 or 1": func(m, _ map[string]any) {
			payload := m["payload"].(map[string]any)
			s := payload["signature"].(string)
			v, _ := strconv.ParseUint(s[len(s)-2:], 16, 8)
			payload["signature"] = fmt.Sprintf("%s%02x", s[:len(s)-2], v-27)
		},
		"unknown members of resource and extensions": func(m, _ map[string]any) {
			m["extensions"] = map[string]any{"bazaar": map[string]any{"info": 1}}
			m["accepted"].(map[string]any)["extra"].(map[string]any)["paymentFlow"] = "upfront"
		},
	} {
		b := w.buyer()
		m := paymentJSON(t, b.payment())
		change(m, m["payload"].(map[string]any)["authorization"].(map[string]any))
		wantStatus(t, name, w.send(purchase("k", encodeHeader(t, m))), 200)
	}
	b := w.buyer()
	wantStatus(t, "without padding", w.send(purchase("k", strings.TrimRight(header(t, b.payment()), "="))), 200)
	w.awaitSettled(30 * time.Second)
	w.checkBooks()
}
