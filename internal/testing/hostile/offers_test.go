package hostile_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"
)

// offeredPayments are attacks with payments that are not what was asked for.
func offeredPayments() []attack {
	return []attack{
		{
			name: "other-payee-asset-or-network", ref: "A14–A17", by: payer, do: otherTerms,
			aim:     "goods for money that goes elsewhere, or is no money",
			defence: "every member of the terms is compared with our own, never with what the payment says of itself",
		},
		{
			name: "other-amounts", ref: "A12, A13", by: payer, do: otherAmounts,
			aim:     "goods below their price",
			defence: "integers of the smallest unit, equal to the price; one way to write each",
		},
		{
			name: "price-of-another-quote", ref: "A11", by: payer, do: otherQuotes,
			aim:     "goods below their price, by a quote of our own that was changed",
			defence: "quotes are signed and bound to operation, amount and body",
		},
		{
			name: "validity-in-the-past-or-future", ref: "A18", by: payer, do: otherTimes,
			aim:     "an order whose payment never settles, or reserves scarce things for long",
			defence: "a payment must be valid now, for at least some seconds and at most a bounded time",
		},
		{
			name: "signatures-of-smart-accounts", ref: "A26, A28", by: payer, do: otherSignatures,
			aim:     "the service runs the payer's code, or takes one payment for two by another spelling of its signature",
			defence: "65 bytes, low s, the key of the payer; no factory is ever called, and identity is payer and nonce",
		},
		{
			name: "members-twice", ref: "A31", by: payer, do: membersTwice,
			aim:     "the part that verifies reads another amount than the part that settles",
			defence: "each text is parsed once, and members that occur twice are refused",
		},
		{
			name: "spelling-of-the-nonce", ref: "A27", by: payer, do: otherNonces,
			aim:     "two orders for one payment by writing its nonce in another way",
			defence: "a nonce is 32 bytes before anything looks at it",
		},
	}
}

// refused sends a payment that must not be claimed.
func (r *trial) refused(p *wallet, name string, m payment) {
	r.Helper()
	a := p.send(r.Context(), http.MethodPost, esimPath, keyed(uuid.NewString()), headerPayment, m.header(r))
	want := []int{http.StatusPaymentRequired, http.StatusBadRequest}
	if len(m.Signature) > crypto.SignatureLength { // a contract's
		want = []int{http.StatusForbidden}
	}
	if !slices.Contains(want, a.status) || a.header.Get(headerPaid) != "" {
		r.Errorf("%s: %d %.300s %v", name, a.status, a.body, a.err)
	}
}

// offer is a wallet with money, and the terms of an eSIM.
func (r *trial) offer() (*wallet, terms) {
	r.Helper()
	p := r.wallet(1000)
	return p, p.terms(r, esimPath, keyed(uuid.NewString()))
}

func otherTerms(r *trial) {
	before := r.goods()
	var all []*wallet
	try := func(name string, change func(*wallet) func(*payment)) {
		p, offered := r.offer()
		all = append(all, p)
		r.refused(p, name, p.pays(r, offered, change(p)))
	}
	for member, values := range map[string][]any{
		"asset": {
			"0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA", "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "USDC", "", nil,
		},
		"network": {"base", "eip155:84532", "eip155:1", "8453", "eip155:08453", "EIP155:8453", ""},
		"scheme":  {"upto", "Exact", "", 1},
		"payTo":   {"0x0000000000000000000000000000000000000001", ""},
	} {
		for _, v := range values {
			try(fmt.Sprint(member, " ", v), func(*wallet) func(*payment) { return func(m *payment) { m.Accepted[member] = v } })
		}
	}
	try("signed for oneself", func(p *wallet) func(*payment) { return func(m *payment) { m.To = p.address } })
	try("one nibble off", func(*wallet) func(*payment) { return func(m *payment) { m.To[19] ^= 1 } })
	for name, d := range map[string][32]byte{
		"another name":    domain("USDC", "2", 8453, r.books.USDC),
		"another version": domain("USD Coin", "1", 8453, r.books.USDC),
		"another chain":   domain("USD Coin", "2", 84532, r.books.USDC),
		"another token":   domain("USD Coin", "2", 8453, r.books.PayTo),
	} {
		try(name, func(*wallet) func(*payment) { return func(m *payment) { m.Domain = d } })
	}
	for _, version := range []any{1, 3, 0, "2", nil} {
		try(fmt.Sprint("version ", version), func(*wallet) func(*payment) { return func(m *payment) { m.Version = version } })
	}
	r.nothing(before, all...)
	r.wallet(100).buys(r, esimPath) // what is refused above is refused for what is wrong with it
}

func otherAmounts(r *trial) {
	before := r.goods()
	var all []*wallet
	for _, value := range []string{
		"0", "1", "489999", "490001", "115792089237316195423570985008687907853269984665640564039457584007913129639935",
	} {
		p, offered := r.offer()
		all = append(all, p)
		n, _ := new(big.Int).SetString(value, 10)
		r.refused(p, "signed "+value, p.pays(r, offered, func(m *payment) { m.Value = n }))
	}
	for _, text := range []any{
		"+490000", "0490000", "490000.0", "0x77a10", "49e4", "-1", "٤٩٠٠٠٠", strings.Repeat("9", 10_000), 490000, nil,
	} {
		p, offered := r.offer()
		all = append(all, p)
		r.refused(p, fmt.Sprintf("written %.20v", text), p.pays(r, offered, func(m *payment) {
			m.change = func(_, a map[string]any) { a["value"] = text }
		}))
	}
	r.nothing(before, all...)
}

func otherQuotes(r *trial) {
	before := r.goods()
	p := r.wallet(1000)
	cheap := p.terms(r, esimPath, keyed("a"))
	costly := p.terms(r, cardPath, keyed("a"))
	for name, quote := range map[string]any{
		"the eSIM's": cheap.Accepts[0]["extra"], "none": nil, "a number": map[string]any{"quoteId": 5},
		"long": map[string]any{"quoteId": strings.Repeat("A", 4000)},
	} {
		m := p.pays(r, costly, func(m *payment) {
			m.Accepted["extra"], m.Accepted["amount"], m.Value = quote, cheap.Accepts[0]["amount"], big.NewInt(490_000)
		})
		a := p.send(r.Context(), http.MethodPost, cardPath, keyed("a"), headerPayment, m.header(r))
		if a.status != http.StatusPaymentRequired && a.status != http.StatusBadRequest && a.status != http.StatusConflict {
			r.Errorf("quote %s: %d %.300s", name, a.status, a.body)
		}
	}
	r.nothing(before, p)
}

func otherTimes(r *trial) {
	before := r.goods()
	now := uint64(time.Now().Unix())
	var all []*wallet
	for name, span := range map[string][2]uint64{
		"past": {0, now - 60}, "now": {0, now}, "in 5 s": {0, now + 5}, "in 26 h": {0, now + 26*3600},
		"never": {0, 1<<63 - 1},
		"zero":  {0, 0}, "later": {now + 3600, now + 7200}, "upside down": {now + 600, now + 300},
	} {
		p, offered := r.offer()
		all = append(all, p)
		r.refused(p, name, p.pays(r, offered, func(m *payment) { m.After, m.Before = span[0], span[1] }))
	}
	for _, text := range []any{"-1", "1e9", 5, nil, strings.Repeat("9", 78)} {
		p, offered := r.offer()
		all = append(all, p)
		r.refused(p, fmt.Sprintf("written %.20v", text), p.pays(r, offered, func(m *payment) {
			m.change = func(_, a map[string]any) { a["validBefore"] = text }
		}))
	}
	r.nothing(before, all...)
}

func otherSignatures(r *trial) {
	before := r.goods()
	var all []*wallet
	try := func(name string, alter func(good []byte) []byte) {
		p, offered := r.offer()
		all = append(all, p)
		m := p.pays(r, offered)
		m.Signature = alter(m.Signature)
		r.refused(p, name, m)
	}
	try("its twin of high s", func(good []byte) []byte {
		s := new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(good[32:64]))
		return append(append(slices.Clone(good[:32]), word(s)...), 27+28-good[64])
	})
	try("compact", func(good []byte) []byte { return good[:64] })
	try("66 bytes", func(good []byte) []byte { return append(good, 0) })
	try("v 29", func(good []byte) []byte { return append(good[:64], 29) })
	try("zero", func([]byte) []byte { return make([]byte, 65) })
	try("ERC-1271", func([]byte) []byte { return make([]byte, 96) })
	try("none", func([]byte) []byte { return []byte{} })
	// ERC-6492 names a factory and its call data. Executing that is executing a stranger's code.
	trap := common.HexToAddress("0x00000000000000000000000000000000000fac70")
	r.rpc(nil, "anvil_setCode", trap.Hex(), "0x60016000556001600155")
	try("ERC-6492", func(good []byte) []byte {
		wrapped := slices.Concat(common.LeftPadBytes(trap[:], 32), number(96), number(160), number(4), make([]byte, 32),
			number(65), good, make([]byte, 31))
		return append(wrapped, common.Hex2Bytes(strings.Repeat("6492", 16))...)
	})
	var slot string
	if r.rpc(&slot, "eth_getStorageAt", trap.Hex(), "0x0", "latest"); strings.Trim(slot, "0x") != "" {
		r.Error("the factory was called")
	}
	for name, from := range map[string]string{
		"zero address": "0x0000000000000000000000000000000000000000",
		"a precompile": "0x0000000000000000000000000000000000000001", "the token": r.books.USDC, "the payee": r.books.PayTo,
	} {
		p, offered := r.offer()
		r.refused(p, "from "+name, p.pays(r, offered, func(m *payment) { m.From = common.HexToAddress(from) }))
	}
	r.nothing(before, all...)
}

func membersTwice(r *trial) {
	before := r.goods()
	p, offered := r.offer()
	good := p.pays(r, offered)
	text := decoded(r, good.header(r))
	value := `"value":"` + good.Value.String() + `"`
	for name, altered := range map[string]string{
		"value":         strings.Replace(text, value, `"value":"1",`+value, 1),
		"value, last":   strings.Replace(text, value, value+`,"value":"1"`, 1),
		"payload":       `{"payload":{},` + text[1:],
		"accepted":      `{"accepted":{},` + text[1:],
		"escaped":       strings.Replace(text, value, `"v\u0061lue":"1",`+value, 1),
		"another case":  strings.Replace(text, value, `"Value":"1",`+value, 1),
		"two documents": text + text,
		"mark":          "\ufeff" + text,
		"nesting": strings.Replace(text, `{"accepted"`,
			`{"extensions":`+strings.Repeat(`{"a":`, 5000)+`1`+strings.Repeat("}", 5000)+`,"accepted"`, 1),
	} {
		a := p.send(r.Context(), http.MethodPost, esimPath, keyed("twice"), headerPayment, encoded(altered))
		if a.status != http.StatusBadRequest && a.status != http.StatusRequestHeaderFieldsTooLarge {
			r.Errorf("%s: %d %.300s %v", name, a.status, a.body, a.err)
		}
	}
	r.nothing(before, p)
}

func otherNonces(r *trial) {
	p, offered := r.offer()
	made := p.pays(r, offered)
	first := keyed(uuid.NewString())
	p.offers(r.Context(), esimPath, first, made.header(r)).into(r, nil)
	plain := hex.EncodeToString(made.Nonce[:])
	for _, nonce := range []any{
		"0x" + strings.ToUpper(plain), plain, "0X" + plain, "0x00" + plain, "0x" + plain[2:],
		json.Number(new(big.Int).SetBytes(made.Nonce[:]).String()),
	} {
		spelt := made
		spelt.change = func(_, a map[string]any) { a["nonce"] = nonce }
		a := p.send(r.Context(), http.MethodPost, esimPath, keyed(uuid.NewString()), headerPayment, spelt.header(r))
		if a.status != http.StatusConflict && a.status != http.StatusBadRequest {
			r.Errorf("nonce %v: %d %.300s", nonce, a.status, a.body)
		}
	}
	r.exactly(p, 1)
}
