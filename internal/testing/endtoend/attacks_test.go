package endtoend_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/x402"
)

// settlementOf reads PAYMENT-RESPONSE.
func settlementOf(t *testing.T, a answer) x402.Settlement {
	t.Helper()
	s, err := x402.DecodeSettlement(a.header.Get(x402.HeaderResponse))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRepeatedPurchaseReturnsSameOrder is A1 and A6: the same header again, another spelling of the
// same body, and a payment signed again.
func TestRepeatedPurchaseReturnsSameOrder(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 2)
	b := w.buyer()
	payment := header(t, b.payment())
	first := w.send(purchase("a", payment))
	var order paidOrder
	first.into(t, 200, &order)
	w.awaitSettled()
	after := w.footprint()

	surplus := b.payment()
	repeats := map[string]request{
		"the same":  purchase("a", payment),
		"once more": purchase("a", payment),
		"spaces": {path: purchasePath, body: " {\r\n\t\"idempotencyKey\" : \"a\" } \n",
			header: map[string]string{x402.HeaderSignature: payment}},
		"escapes": {path: purchasePath, body: `{"idempotencyKey":"\u0061"}`,
			header: map[string]string{x402.HeaderSignature: payment}},
		"signed anew": purchase("a", header(t, surplus)),
		"another instance": {at: w.instances[1], path: purchasePath, body: purchaseBody("a"),
			header: map[string]string{x402.HeaderSignature: payment}},
		"a trailing pad": purchase("a", strings.TrimRight(payment, "=")),
		"upper-case nonce": purchase("a",
			alteredHeader(t, b.payment(func(p *x402.Payment) {
				p.Authorization = decoded(t, payment).Authorization
			}), upperNonce)),
		"an expired one":    purchase("a", header(t, b.payment(func(p *x402.Payment) { p.Authorization.ValidBefore = 1 }))),
		"for another price": purchase("a", header(t, b.payment(func(p *x402.Payment) { p.Authorization.Value++ }))),
	}
	signed := map[string]bool{}
	for name, r := range repeats {
		a := w.send(r)
		var again paidOrder
		a.into(t, 200, &again)
		if again.OrderID != order.OrderID || again.Payment != order.Payment || !again.Replayed {
			t.Errorf("%s: %+v, want a replay of %+v", name, again, order)
		}
		got, want := settlementOf(t, a), settlementOf(t, first)
		signed[got.SignedReceipt()] = true
		got.Extensions, want.Extensions = nil, nil // the receipt is there once the card is
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: PAYMENT-RESPONSE (-first +now):\n%s", name, diff)
		}
	}
	if delete(signed, ""); len(signed) > 1 {
		t.Errorf("the order has %d receipts", len(signed))
	}
	if now := w.footprint(); now != after {
		t.Errorf("the repeats left a trace:\n was %s\n now %s", after, now)
	}
	// The surplus signature is live money: it is nowhere.
	if dump := w.dump(); strings.Contains(dump, hex.EncodeToString([]byte(surplus.Signature))) ||
		strings.Contains(dump, surplus.Authorization.Nonce.String()[2:]) {
		t.Error("a surplus authorization is stored")
	}
	if w.spent(surplus.Authorization) {
		t.Error("a surplus authorization was sent")
	}
	w.checkBooks()
}

func upperNonce(_, a map[string]any) { a["nonce"] = "0x" + strings.ToUpper(a["nonce"].(string)[2:]) }

func alteredHeader(t *testing.T, p x402.Payment, change func(m, authorization map[string]any)) string {
	t.Helper()
	m := paymentJSON(t, p)
	change(m, object(m, "payload")["authorization"].(map[string]any))
	return encodeHeader(t, m)
}

func decoded(t *testing.T, payment string) x402.Payment {
	t.Helper()
	p, err := x402.DecodePayment(payment)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// spent is whether the token says that an authorization is used.
func (w *world) spent(a x402.Authorization) bool {
	w.t.Helper()
	var word hexutil.Bytes
	w.rpc(&word, "eth_call",
		map[string]any{"to": usdc().String(), "data": hexutil.Encode(x402.StateCall(a.From, a.Nonce))}, "latest")
	return bigInt(word).Sign() != 0
}

func orText(column string) string {
	if column == "" {
		return "t::text"
	}
	return column
}

// dump is every row of every table as text, but for the claimed signatures and the transactions that
// have them, which have to be kept to be sent again.
func (w *world) dump() string {
	w.t.Helper()
	var all strings.Builder
	named, err := w.db.Query(context.WithoutCancel(w.t.Context()),
		"SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
	if err != nil {
		w.t.Fatalf("list the tables: %v", err)
	}
	tables, err := pgx.CollectRows(named, pgx.RowTo[string])
	if err != nil || len(tables) < 12 {
		w.t.Fatalf("list the tables: %v (%v)", tables, err)
	}
	kept := map[string]string{
		"payments":     "(to_jsonb(t) - 'signature')::text",
		"transactions": "(to_jsonb(t) - 'variants')::text",
	}
	for _, table := range tables {
		all.WriteString(w.rows(table, orText(kept[table])))
	}
	return all.String()
}

// rows is what an expression shows of a table's rows t, a line each.
func (w *world) rows(table, row string) string {
	w.t.Helper()
	rows, err := w.db.Query(context.WithoutCancel(w.t.Context()), "SELECT "+row+" FROM "+table+" t")
	if err != nil {
		w.t.Fatalf("dump %s: %v", table, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatalf("dump %s: %v", table, err)
	}
	return strings.Join(lines, "\n")
}

// TestOneAuthorizationPaysForOneKey is A5, once the money has moved: the other keys learn nothing of the
// order, and are not told to pay again for what was paid.
func TestOneAuthorizationPaysForOneKey(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b := w.buyer()
	payment := header(t, b.payment())
	var order paidOrder
	w.send(purchase("mine", payment)).into(t, 200, &order)
	w.awaitSettled()
	for _, key := range []string{"other", "mine ", "Mine", "mine\u200b"} {
		a := w.send(purchase(key, payment))
		if a.status != 409 || !a.is(fault.AuthorizationAlreadyUsed) || a.problem.OrderID != "" {
			t.Errorf("key %q: %d %s", key, a.status, clipped(a.body))
		}
		if bytes.Contains(a.body, []byte(order.OrderID)) || bytes.Contains(a.body, []byte(order.Payment.Transaction)) {
			t.Errorf("key %q: the answer tells of the order: %s", key, a.body)
		}
	}
	w.checkBooks()
}

// TestKeyOfAnotherWalletRevealsNothing is A9: another wallet's key is treated as an unknown one, and makes an order of
// the payer's own.
func TestKeyOfAnotherWalletRevealsNothing(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	victim, thief := w.buyer(), w.buyer()
	order := victim.buyCard("the victim's key")
	known, unknown := w.send(purchase("the victim's key", "")), w.send(purchase("a key nobody has", ""))
	if diff := cmp.Diff(callInfoOf(t, unknown), callInfoOf(t, known)); diff != "" {
		t.Errorf("a used key shows in the challenge (-unknown +used):\n%s", diff)
	}
	// A payment that names the victim and is not signed by the victim.
	forged := victim.payment()
	forged.Signature = thief.payment().Signature
	a, b := w.send(purchase("the victim's key", header(t, forged))),
		w.send(purchase("a key nobody has", header(t, forged)))
	if diff := cmp.Diff(callInfoOf(t, b), callInfoOf(t, a)); diff != "" || a.status != 402 {
		t.Errorf("a used key shows in the refusal (-unknown +used):\n%s", diff)
	}
	var own paidOrder
	thief.buy("the victim's key").into(t, 200, &own)
	if own.OrderID == order.OrderID || own.Payment.Payer != thief.address.String() {
		t.Errorf("the thief got %+v", own)
	}
	// An order of another's and one that does not exist look the same, too.
	thief.signIn()
	a, b = thief.get("/api/orders/"+order.OrderID), thief.get("/api/orders/ord_"+uuid.NewString())
	if diff := cmp.Diff(callInfoOf(t, b), callInfoOf(t, a)); diff != "" || a.status != 404 {
		t.Errorf("another's order shows (-unknown +another's):\n%s", diff)
	}
	w.checkBooks()
}

var (
	uuids       = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	ofTheMoment = regexp.MustCompile(`"(quoteId|nonce|issuedAt|expirationTime)":"[^"]*"`)
	signedTerms = regexp.MustCompile(`eyJ[\w-]+\.(eyJ[\w-]+)\.[\w-]+`)
	validUntil  = regexp.MustCompile(`"validUntil":\d+`)
)

// callInfoOf is everything an answer shows but its ids, its time and what is signed over the time.
func callInfoOf(t *testing.T, a answer) string {
	t.Helper()
	h := maps.Clone(a.header)
	delete(h, "Date")
	if required := h.Get(x402.HeaderRequired); required != "" {
		raw, err := base64.StdEncoding.DecodeString(required)
		if err != nil {
			t.Fatal(err)
		}
		// A signed offer ends some seconds after it was made.
		unsigned := signedTerms.ReplaceAllStringFunc(string(raw), func(jws string) string {
			terms, err := base64.RawURLEncoding.DecodeString(signedTerms.FindStringSubmatch(jws)[1])
			if err != nil {
				t.Error(err)
			}
			return validUntil.ReplaceAllString(string(terms), "")
		})
		h.Set(x402.HeaderRequired, ofTheMoment.ReplaceAllString(unsigned, `"$1":""`))
	}
	var b strings.Builder
	fmt.Fprintln(&b, a.status)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintln(&b, name, h[name])
	}
	b.Write(a.body)
	return uuids.ReplaceAllString(b.String(), "an id")
}

// TestPaymentRebuiltFromChainRevealsNothing is A10: a settled signature is public, and whoever rebuilds the
// header from the call data learns nothing without the key, and no secret with it.
func TestPaymentRebuiltFromChainRevealsNothing(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b := w.buyer()
	order := b.buyCard("k")
	var tx struct {
		Input hexutil.Bytes `json:"input"`
	}
	w.rpc(&tx, "eth_getTransactionByHash", order.Payment.Transaction)
	rebuilt := b.payment()
	rebuilt.Authorization = x402.Authorization{
		From: x402.Address(tx.Input[16:36]), To: x402.Address(tx.Input[48:68]),
		Value:      moneyOf(bigInt(tx.Input[68:100]).Int64()),
		ValidAfter: bigInt(tx.Input[100:132]).Uint64(), ValidBefore: bigInt(tx.Input[132:164]).Uint64(),
		Nonce: x402.Hash(tx.Input[164:196]),
	}
	rebuilt.Signature = x402.KeySignature(tx.Input[228:292], tx.Input[227]-27)
	if curve.Verify(domain(), rebuilt.Authorization, rebuilt.Signature) != nil {
		t.Fatal("the header was not rebuilt")
	}
	for _, key := range []string{"a", "K", "1", "key"} {
		if a := w.send(purchase(key, header(t, rebuilt))); a.status != 409 || bytes.Contains(a.body, []byte("ord_")) {
			t.Errorf("guessed key %q: %d %s", key, a.status, clipped(a.body))
		}
	}
	a := w.send(purchase("k", header(t, rebuilt)))
	a.into(t, 200, nil)
	for _, secret := range []string{"number", "securityCode", "400000", "lpa", "iccid", "accessToken", "token\""} {
		if bytes.Contains(a.body, []byte(secret)) {
			t.Errorf("the right key shows %s: %s", secret, a.body)
		}
	}
	w.checkBooks()
}

// TestQuoteCannotLowerThePrice is A4 and A11: a quote is honoured as it was made, and nothing in it or
// next to it lowers a price.
func TestQuoteCannotLowerThePrice(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	b := w.buyer()
	required, err := x402.DecodeRequired(w.send(purchase("t", "")).header.Get(x402.HeaderRequired))
	if err != nil {
		t.Fatal(err)
	}
	quote, _ := required.Accepts[0].Extra["quoteId"].(string)
	cheap := func(id any) x402.Payment {
		return b.payment(func(p *x402.Payment) {
			p.Accepted.Extra["quoteId"], p.Accepted.Amount, p.Authorization.Value = id, "10000", 10_000
		})
	}
	raw, err := base64.RawURLEncoding.DecodeString(quote)
	if err != nil {
		t.Fatal(err)
	}
	swapped := base64.RawURLEncoding.EncodeToString(append(raw[:16:16],
		bytes.Replace(raw[16:], []byte(`"p":2500`), []byte(`"p":1`), 1)...))
	unsigned := base64.RawURLEncoding.EncodeToString(append(make([]byte, 16),
		bytes.Replace(raw[16:], []byte(`"p":2500`), []byte(`"p":1`), 1)...))
	var cases refusals
	for name, id := range map[string]any{
		"genuine":       quote,
		"price swapped": swapped,
		"unsigned":      unsigned,
		"number":        5,
		"object":        map[string]any{},
		"long":          strings.Repeat("A", 4000),
		"none":          nil,
	} {
		cases.add("cheap, quote "+name, purchase("t", header(t, cheap(id))), 402, fault.PaymentRejected)
	}
	w.wantRefusals(cases)
	// At the right price an unknown quote does no harm.
	for name, id := range map[string]any{"genuine": quote, "swapped": swapped, "foreign": "q_123", "number": 7} {
		b := w.buyer()
		a := w.send(purchase("t", header(t, b.payment(func(p *x402.Payment) { p.Accepted.Extra["quoteId"] = id }))))
		wantStatus(t, fmt.Sprintf("full price, quote %s", name), a, 200)
	}
	w.checkBooks()
}

// TestAccountsWithCodeCannotPay is A28: the token asks such an account's code, which may change its mind.
func TestAccountsWithCodeCannotPay(t *testing.T) {
	t.Parallel()
	w := borrowWorld(t, 1)
	var cases refusals
	for name, code := range map[string]string{
		"7702 delegation": "0xef0100" + strings.Repeat("11", 20),
		"reverts":         "0x60006000fd",
		"stops":           "0x00",
	} {
		b := w.buyer()
		w.rpc(nil, "anvil_setCode", b.address.String(), code)
		cases.add(name, purchase("code", header(t, b.payment())), 403, fault.PayerKindNotAccepted)
	}
	w.wantRefusals(cases)
}
