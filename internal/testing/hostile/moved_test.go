package hostile_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/testing/apptest"
)

// movedMoney are attacks with transfers that the service does not send.
func movedMoney() []attack {
	return []attack{
		{
			name: "payment-executed-by-a-third-party", ref: "A20", by: watcher, do: preempts,
			aim: "a buyer is told that no money moved, and pays a second time",
			defence: "a used nonce is looked up on the chain; the money that arrived pays for the payer's next " +
				"signature, which is not sent",
		},
		{
			name: "executed-payment-and-the-official-client", ref: "A20", by: watcher, do: preemptsTheClient,
			held:    "checkout TestCheckoutDerivedNonceProvesItsKey",
			aim:     "the client of an honest buyer pays twice, by itself",
			defence: "its nonce is derived from payer and key, which proves the caller: the order is claimed with what arrived",
		},
		{
			name: "goods-for-another's-arrived-money", ref: "A10", by: watcher, do: claimsForeignMoney,
			held:    "checkout TestCheckoutSpentAuthorizationProvesNobody",
			aim:     "somebody else's arrived money buys what the attacker chooses, or nothing at all",
			defence: "a spent authorization is public and proves nobody; only a signature or a session of the payer claims it",
		},
		{
			name: "arrived-money-claimed-twice", ref: "I2", by: payer, do: claimsTwice,
			held:    "store TestArrivedTransferIsClaimedOnce",
			aim:     "several goods for one arrived transfer",
			defence: "an arrival is claimed by a unique row in the claim's transaction",
		},
	}
}

// executes sends an authorization to the token, as anybody may.
func (w *world) executes(m payment) {
	w.t.Helper()
	call := slices.Concat(
		selector("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"),
		m.words(), number(uint64(m.Signature[64])), []byte(m.Signature[:64]))
	_, anybody := newKey(w.t)
	if _, worked := w.transact(anybody, w.books.USDC, call); !worked {
		w.t.Fatal("the transfer was not executed")
	}
}

func preempts(r *trial) {
	for _, path := range []string{esimPath, cardPath} {
		p := r.wallet(100)
		body := keyed(uuid.NewString())
		offered := p.terms(r, path, body)
		m := p.pays(r, offered)
		r.executes(m)
		paid := p.moved()
		a := p.offers(r.Context(), path, body, m.header(r))
		if a.status == http.StatusPaymentRequired && a.code() != "payment_unclaimed" || a.status == http.StatusOK ||
			bytes.Contains(a.body, []byte("LPA:")) {
			r.Errorf("%s with what is public: %d %.400s", path, a.status, a.body)
		}
		again := p.pays(r, offered)
		r.keep("a signature that must not be sent", "0x"+hex.EncodeToString(again.Signature))
		var o order
		r.await("the arrived money pays", func() error {
			a := p.offers(r.Context(), path, body, again.header(r))
			if a.status != http.StatusOK {
				return fmt.Errorf("%d %.300s", a.status, a.body)
			}
			a.into(r, &o)
			return nil
		})
		if r.used(again.authorization) || p.moved() != paid {
			r.Errorf("%s: the second signature was sent: %d units left the wallet, and %d before", path, p.moved(), paid)
		}
		r.exactly(p, 1)
	}
}

// tap is a transport that shows each payment before it is sent.
type tap struct {
	next http.RoundTripper
	once sync.Once
	see  func(header string)
}

func (c *tap) RoundTrip(req *http.Request) (*http.Response, error) {
	if header := req.Header.Get(headerPayment); header != "" {
		c.once.Do(func() { c.see(header) })
	}
	return c.next.RoundTrip(req)
}

func preemptsTheClient(r *trial) {
	for _, card := range []bool{false, true} {
		p := r.wallet(100)
		signer, err := roamcard.NewKeySigner(common.Bytes2Hex(crypto.FromECDSA(p.key)))
		if err != nil {
			r.Fatal(err)
		}
		client, err := roamcard.New(roamcard.Config{
			BaseURL: r.base, Signer: signer, Poll: 100 * time.Millisecond,
			HTTP: &tap{next: r.from(r.address()), see: func(header string) { r.executesHeader(header) }},
			Policy: roamcard.Policy{
				Mode: roamcard.Autonomous, MaxPerPayment: 25_000, MaxPerDay: 30_000, Asset: r.world.books.USDC,
				PayTo: r.world.books.PayTo,
			},
		})
		if err != nil {
			r.Fatal(err)
		}
		ctx := apptest.Context(r)
		if card {
			_, err = client.Cards.Purchase(ctx, roamcard.NewKey())
		} else {
			_, err = client.ESIM.Purchase(ctx, "", roamcard.NewKey())
		}
		if err != nil {
			r.Errorf("the honest client, card %t: %v", card, err)
		}
		r.exactly(p, 1)
	}
}

// executesHeader executes the payment of a header.
func (r *trial) executesHeader(header string) {
	r.Helper()
	var seen struct {
		Payload struct {
			Signature     string
			Authorization struct{ From, To, Value, ValidAfter, ValidBefore, Nonce string }
		}
	}
	unmarshal(r, decoded(r, header), &seen)
	a := seen.Payload.Authorization
	value, _ := new(big.Int).SetString(a.Value, 10)
	after, _ := new(big.Int).SetString(a.ValidAfter, 10)
	before, _ := new(big.Int).SetString(a.ValidBefore, 10)
	r.executes(payment{
		authorization: authorization{
			From: common.HexToAddress(a.From), To: common.HexToAddress(a.To), Value: value,
			After: after.Uint64(), Before: before.Uint64(), Nonce: [32]byte(common.FromHex(a.Nonce)),
		},
		Signature: common.FromHex(seen.Payload.Signature),
	})
}

func claimsForeignMoney(r *trial) {
	victim, thief := r.wallet(100), r.wallet(100)
	body := keyed(uuid.NewString())
	offered := victim.terms(r, esimPath, body)
	m := victim.pays(r, offered)
	r.executes(m)
	before := r.goods()
	for _, key := range []any{body["idempotencyKey"], "mine", uuid.NewString()} {
		a := thief.send(r.Context(), http.MethodPost, esimPath, keyed(key.(string)), headerPayment, m.header(r))
		if a.status == http.StatusOK || bytes.Contains(a.body, []byte("ord_")) {
			r.Errorf("key %v: %d %.300s", key, a.status, a.body)
		}
	}
	thief.signsIn(r)
	if a := thief.send(r.Context(), http.MethodPost, esimPath, keyed("s"),
		append(thief.bearer(), headerPayment, m.header(r))...); a.status == http.StatusOK {
		r.Errorf("with a session of the thief's: %.300s", a.body)
	}
	if now := r.goods(); now != before {
		r.Errorf("the providers made %+v, and had %+v", now, before)
	}
	// The thief's own purchase is paid by the thief, and the victim's money waits for the victim.
	thief.buys(r, esimPath)
	if thief.moved() == 0 {
		r.Error("the thief's purchase was paid with the victim's money")
	}
	r.await("the victim gets what the victim paid for", func() error {
		if a := victim.offers(r.Context(), esimPath, body, victim.pays(r, offered).header(r)); a.status != http.StatusOK {
			return fmt.Errorf("%d %.300s", a.status, a.body)
		}
		return nil
	})
	r.exactly(victim, 1)
	r.exactly(thief, 1)
}

func claimsTwice(r *trial) {
	for range sized(1, 10) {
		p := r.wallet(100)
		offered := p.terms(r, esimPath, keyed("k"))
		m := p.pays(r, offered)
		r.executes(m)
		p.offers(r.Context(), esimPath, keyed("first"), m.header(r))
		made := make([]string, 6)
		for i := range made {
			made[i] = p.pays(r, offered).header(r)
		}
		got := map[string]bool{}
		for _, a := range race(len(made), func(i int) answer {
			return p.offers(r.Context(), esimPath, keyed(fmt.Sprint("k", i)), made[i])
		}) {
			var o order
			if a.status == http.StatusOK {
				a.into(r, &o)
				got[o.Payment.Transaction] = true
			}
		}
		r.rest()
		has := r.has(p)
		if has.Esims != has.Transfers || len(got) > has.Transfers {
			r.Errorf("%d eSIMs for %d transfers, %d transactions told", has.Esims, has.Transfers, len(got))
		}
	}
}
