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
func headerCases(t *testing.T, b *buyer) (cases refusals) {
	for name, payment := range malformedHeaders(t, b) {
		cases.add("header: "+name, purchase("h", payment), 400, fault.PaymentMalformed)
	}
	altered := func(name string, change func(payment, authorization map[string]any)) {
		cases.add("header: "+name, purchase("h", b.altered(change)), 400, fault.PaymentMalformed)
	}
	for _, member := range []string{"from", "to", "value", "validAfter", "validBefore", "nonce"} {
		for name, v := range map[string]any{
			"absent":   nil,
			"number":   1,
			"null":     json.RawMessage("null"),
			"list":     []any{},
			"empty":    "",
			"negative": "-1",
		} {
			altered(member+" "+name, func(_, a map[string]any) { setOrDelete(a, member, v) })
		}
	}
	for _, number := range []string{"+25000000", "025000000", "25000000.0", "25.0", "0x17d7840", "2.5e7", "25_000_000",
		"٢٥", " 25000000", "25000000 ", "NaN", strings.Repeat("9", 79), strings.Repeat("9", 10_000)} {
		for _, member := range []string{"value", "validBefore"} {
			altered(member+" "+number[:min(12, len(number))], func(_, a map[string]any) { a[member] = number })
		}
	}
	nonce := strings.Repeat("ab", 32)
	for name, n := range map[string]string{
		"without 0x": nonce,
		"short":      "0x" + nonce[2:],
		"long":       "0x" + nonce + "00",
		"0X":         "0X" + nonce,
		"not hex":    "0x" + nonce[:62] + "zz",
	} {
		altered("nonce "+name, func(_, a map[string]any) { a["nonce"] = n })
	}
	for name, s := range map[string]any{
		"absent":     nil,
		"number":     7,
		"no hex":     "0xzz",
		"odd":        "0x123",
		"without 0x": strings.Repeat("11", 65),
	} {
		altered("signature "+name, func(p, _ map[string]any) { setOrDelete(object(p, "payload"), "signature", s) })
	}
	for name, v := range map[string]any{"text": "2", "absent": nil, "null": json.RawMessage("null"), "list": []any{2}} {
		altered("version "+name, func(p, _ map[string]any) { setOrDelete(p, "x402Version", v) })
	}
	altered("unknown member of the authorization", func(_, a map[string]any) { a["memo"] = "x" })
	altered("unknown member of accepted", func(p, _ map[string]any) { object(p, "accepted")["price"] = "1" })
	altered("unknown member of the payload", func(p, _ map[string]any) { object(p, "payload")["x"] = "1" })
	altered("timeout text", func(p, _ map[string]any) { object(p, "accepted")["maxTimeoutSeconds"] = "120" })
	altered("address of another checksum", func(_, a map[string]any) { a["from"] = swapCase(b.address.String()) })
	return cases
}

// malformedHeaders are no base64, or base64 of no payment.
func malformedHeaders(t *testing.T, b *buyer) map[string]string {
	good := header(t, b.payment())
	decoded, err := base64.StdEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	raw := string(decoded)
	deep := strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60)
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	return map[string]string{
		"no base64":             "!!!",
		"a word":                "payment",
		"JSON in the open":      raw,
		"one more letter":       good + "A",
		"cut":                   good[:len(good)-3],
		"cut in the middle":     good[:len(good)/2],
		"two joined by a comma": good + "," + good,
		"blank inside":          good[:40] + " " + good[40:],
		"too much padding":      strings.TrimRight(good, "=") + "====",
		"loose bits":            encode("{}")[:2] + "1=",
		"url alphabet":          "-_" + good,
		"gzip":                  base64.StdEncoding.EncodeToString([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}),
		"8 kB of nothing":       strings.Repeat("A", 8<<10),
		"more than 16 kB":       strings.Repeat("A", 16<<10+4),
		"null":                  encode("null"),
		"list":                  encode("[]"),
		"empty object":          encode("{}"),
		"trailing document":     encode(raw + "{}"),
		"byte order mark":       encode("\xef\xbb\xbf" + raw),
		"not UTF-8":             encode(strings.Replace(raw, "application/json", "\xff", 1) + "\xff"),
		"duplicate payload":     encode(`{"payload":{},` + raw[1:]),
		"duplicate accepted":    encode(`{"accepted":{},` + raw[1:]),
		"duplicate value":       encode(strings.Replace(raw, `"value":`, `"value":"1","value":`, 1)),
		"deep":                  encode(`{"x402Version":2,"extensions":` + deep + "}"),
		"deep lists":            encode(strings.Repeat("[", 4000) + strings.Repeat("]", 4000)),
	}
}

// object is a member of a payment's JSON that is an object itself.
func object(payment map[string]any, member string) map[string]any {
	return payment[member].(map[string]any)
}

// altered is a good payment's header after a change to its JSON and to the authorization in it.
func (b *buyer) altered(change func(payment, authorization map[string]any)) string {
	b.w.t.Helper()
	return alteredHeader(b.w.t, b.payment(), change)
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
	w := borrowWorld(t, 1)
	w.wantRefusals(headerCases(t, w.buyer()))
}

// rejectedCases are payments that can be read and do not match the terms: attacks A4, A12 to A18 and A26 to A28.
func rejectedCases(t *testing.T, b *buyer) refusals {
	c := rejections{t: t, b: b}
	c.addTimes() // first: what is about to expire is sent before it has
	c.addAmounts()
	c.addTerms()
	c.addKinds()
	return append(c.all, signatureCases(t, b)...)
}

// rejections collects payments of one buyer that must be refused with payment_rejected.
type rejections struct {
	t   *testing.T
	b   *buyer
	all refusals
}

func (c *rejections) add(name, payment string) {
	c.all.add("payment: "+name, purchase("r", payment), 402, fault.PaymentRejected)
}

// accepted adds a payment that names other terms than those that it signs.
func (c *rejections) accepted(name, member string, v any) {
	c.add(name, c.b.altered(func(p, _ map[string]any) { object(p, "accepted")[member] = v }))
}

// signed adds a payment that signs something else.
func (c *rejections) signed(name string, change func(*x402.Authorization)) {
	c.add(name, header(c.t, c.b.payment(func(p *x402.Payment) { change(&p.Authorization) })))
}

const maxUint256 = "115792089237316195423570985008687907853269984665640564039457584007913129639935"

func (c *rejections) addAmounts() {
	for _, amount := range []string{"0", "1", "24999999", "25000001", "2500", "25", "25000000000000000000", "-25000000",
		"+25000000", "025000000", "25000000.0", "0x17d7840", "25e6", "٢٥٠٠٠٠٠٠", strings.Repeat("9", 78),
		strings.Repeat("9", 5000)} {
		c.accepted("amount "+amount[:min(len(amount), 22)], "amount", amount)
	}
	for name, value := range map[string]int64{
		"zero":     0,
		"one less": 24_999_999,
		"one more": 25_000_001,
		"cents":    2500,
		"double":   50_000_000,
	} {
		c.signed("signed value "+name, func(a *x402.Authorization) { a.Value = moneyOf(value) })
	}
	c.add("signed value 2^256-1", c.b.altered(func(_, a map[string]any) { a["value"] = maxUint256 }))
}

// addTerms adds other assets, networks, payees and schemes.
func (c *rejections) addTerms() {
	for name, asset := range map[string]string{
		"USDbC":          "0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA",
		"Sepolia USDC":   "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
		"EURC":           "0x60a3e35cc302bfa44cb288bc5a4f316fdb1adb42",
		"lookalike":      "0x833589fcd6edb6e08f4c7c32d4f71b54bda02914",
		"zero":           "0x0000000000000000000000000000000000000000",
		"not an address": "USDC",
		"empty":          "",
	} {
		c.accepted("asset "+name, "asset", asset)
	}
	for _, network := range []string{"base", "eip155:84532", "eip155:1", "8453", "eip155:08453", "EIP155:8453",
		"eip155:8453 ", "solana:mainnet", ""} {
		c.accepted("network "+jsonText(network), "network", network)
	}
	stranger := c.b.w.unfundedBuyer().address
	c.accepted("accepted payee another's", "payTo", stranger.String())
	c.signed("signed payee another's", func(a *x402.Authorization) { a.To = stranger })
	c.signed("signed payee one nibble off", func(a *x402.Authorization) { a.To[19] ^= 1 })
	c.signed("signed payee zero", func(a *x402.Authorization) { a.To = x402.Address{} })
	for _, scheme := range []string{"upto", "Exact", "", "exact "} {
		c.accepted("scheme "+jsonText(scheme), "scheme", scheme)
	}
}

// addKinds adds other versions of x402 and other ways to pay.
func (c *rejections) addKinds() {
	for _, version := range []any{1, 3, 0, -2, json.Number("2.0"), json.Number("2e0")} {
		payment := c.b.altered(func(p, _ map[string]any) { p["x402Version"] = version })
		c.add(fmt.Sprintf("version %v", version), payment)
	}
	for _, other := range []string{"permit2Authorization", "delegationManager", "permissionContext"} {
		spender := map[string]any{"spender": "0x0"}
		c.add(other, c.b.altered(func(p, _ map[string]any) { object(p, "payload")[other] = spender }))
	}
}

// addTimes adds authorizations that are over, not yet valid, or valid for too long.
func (c *rejections) addTimes() {
	now := uint64(time.Now().Unix())
	for name, before := range map[string]uint64{
		"past":    now - 60,
		"now":     now,
		"in 15 s": now + 15,
		"in 26 h": now + 26*3600,
		"never":   1<<64 - 1,
		"zero":    0,
	} {
		c.signed("validBefore "+name, func(a *x402.Authorization) { a.ValidBefore = before })
	}
	for name, after := range map[string]uint64{"in an hour": now + 3600, "in ten minutes": now + 600, "never": 1<<64 - 1} {
		c.signed("validAfter "+name, func(a *x402.Authorization) { a.ValidAfter = after })
	}
	c.add("validBefore 2^256-1", c.b.altered(func(_, a map[string]any) { a["validBefore"] = maxUint256 }))
}

// signatureCases are signatures by somebody else, of something else, or in another form.
func signatureCases(t *testing.T, b *buyer) (cases refusals) {
	add := func(name, payment string) { cases.add(name, purchase("s", payment), 402, fault.PaymentRejected) }
	p := b.payment()
	high := p
	high.Signature = withHighS(p.Signature)
	add("signature: high s", header(t, high))
	other := b.w.buyer().payment(func(q *x402.Payment) { q.Authorization = p.Authorization })
	add("signature: another wallet's", header(t, other))
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
		add(fmt.Sprintf("signature: domain %s %s %d", d.Name, d.Version, d.ChainID), header(t, q))
	}
	for name, signature := range otherSignatures(p.Signature.Hex()) {
		payment := b.altered(func(p, _ map[string]any) { object(p, "payload")["signature"] = signature })
		if len(signature) > len(p.Signature.Hex()) { // a contract's: another one would be refused, too
			cases.add("signature: "+name, purchase("r", payment), 403, fault.PayerKindNotAccepted)
			continue
		}
		add("signature: "+name, payment)
	}
	for name, from := range map[string]string{
		"zero address": "0x0000000000000000000000000000000000000000",
		"precompile":   "0x0000000000000000000000000000000000000001",
		"the token":    usdc().String(),
		"the payee":    b.w.payTo.String(),
	} {
		add("payer "+name, b.altered(func(_, a map[string]any) { a["from"] = from }))
	}
	return cases
}

// otherSignatures are made of a good one of another payment, 65 bytes in hex.
func otherSignatures(good string) map[string]string {
	return map[string]string{
		"v 26":           good[:len(good)-2] + "1a",
		"v 29":           good[:len(good)-2] + "1d",
		"v 2":            good[:len(good)-2] + "02",
		"r zero":         "0x" + strings.Repeat("00", 32) + good[66:],
		"s zero":         good[:66] + strings.Repeat("00", 32) + good[130:],
		"r the order":    "0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141" + good[66:],
		"all zero":       "0x" + strings.Repeat("00", 65),
		"all ff":         "0x" + strings.Repeat("ff", 65),
		"empty":          "0x",
		"compact":        good[:130],
		"short":          good[:120],
		"66 bytes":       good + "00",
		"ERC-1271 blob":  "0x" + strings.Repeat("ab", 96),
		"two signatures": good + good[2:],
		"ERC-6492":       "0x" + hex.EncodeToString(make([]byte, 128)) + strings.Repeat("6492", 16),
	}
}

func TestPaymentsNotMatchingTheTermsAreRefused(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b, penniless, short := w.buyer(), w.unfundedBuyer(), w.unfundedBuyer()
	w.fund(short.address, price()-1)
	cases := rejectedCases(t, b)
	for name, payer := range map[string]*buyer{"payer without money": penniless, "payer a millionth short": short} {
		cases.add(name, purchase("r", header(t, payer.payment())), 402, fault.PaymentRejected)
	}
	w.wantRefusals(cases)
	// The same wallet's good payment is accepted, so the refusals above are not about the setup.
	b.buyCard("good")
	w.checkBooks()
}

// TestEquivalentPaymentEncodingsAreAccepted: what means the same as the terms must not be refused.
func TestEquivalentPaymentEncodingsAreAccepted(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	for name, change := range map[string]func(m, a map[string]any){
		"as made":             func(_, _ map[string]any) {},
		"asset in lower case": func(m, _ map[string]any) { object(m, "accepted")["asset"] = usdc().Lower() },
		"payer in lower case": func(_, a map[string]any) { a["from"] = strings.ToLower(a["from"].(string)) },
		"nonce in upper case": func(_, a map[string]any) { a["nonce"] = "0x" + strings.ToUpper(a["nonce"].(string)[2:]) },
		"v 0 or 1": func(m, _ map[string]any) {
			payload := object(m, "payload")
			s := payload["signature"].(string)
			v, _ := strconv.ParseUint(s[len(s)-2:], 16, 8)
			payload["signature"] = fmt.Sprintf("%s%02x", s[:len(s)-2], v-27)
		},
		"unknown members of resource and extensions": func(m, _ map[string]any) {
			m["extensions"] = map[string]any{"bazaar": map[string]any{"info": 1}}
			object(m, "accepted")["extra"].(map[string]any)["paymentFlow"] = "upfront"
		},
	} {
		b := w.buyer()
		wantStatus(t, name, w.send(purchase("k", b.altered(change))), 200)
	}
	b := w.buyer()
	wantStatus(t, "without padding", w.send(purchase("k", strings.TrimRight(header(t, b.payment()), "="))), 200)
	w.awaitSettled()
	w.checkBooks()
}
