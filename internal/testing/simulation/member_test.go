package simulation_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/roamcard/roamcard/internal/devtools/devnet"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/x402"
)

// member is a wallet that does more than buy: it signs in, and asks by its session or without one.
type member struct {
	*buyer
	session string
}

// told is what somebody was answered.
type told struct {
	status int
	header http.Header
	text   []byte
	// code and again are those of a problem, and order is the order that the answer is about.
	code, order string
	again       bool
}

// into reads a 200.
func (t told) into(v any) bool { return t.status == http.StatusOK && json.Unmarshal(t.text, v) == nil }

// terms are those of a challenge.
func (t told) terms() (terms x402.PaymentRequired, asked bool) {
	terms, err := x402.DecodeRequired(t.header.Get(x402.HeaderRequired))
	return terms, err == nil && t.status == http.StatusPaymentRequired && len(terms.Accepts) > 0
}

// own is the same wallet with dice and keys of its own, for what it does besides its purchases.
func (b *buyer) own(seed uint64) *buyer {
	return &buyer{
		world: b.world, nth: b.nth, rng: diceOf(b.world.plan.seed, seed+uint64(b.nth)), key: b.key, address: b.address,
		account: b.account,
		bought:  ownKeys,
	}
}

// ownKeys is the number of the first key of what a wallet buys besides its first purchases.
const ownKeys = 1000

// ask asks one of the processes, by the session if there is one. An error is a connection that ended without an answer.
func (m *member) ask(method, path string, header map[string]string, body any) (told, error) {
	with := m.signed()
	maps.Copy(with, header)
	return m.askAs(method, path, with, body)
}

// signed is the header of its session; empty without one.
func (m *member) signed() map[string]string {
	if m.session == "" {
		return map[string]string{}
	}
	return map[string]string{"Authorization": "Bearer " + m.session}
}

// askAs asks one of the processes without a session.
func (m *member) askAs(method, path string, header map[string]string, body any) (t told, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return t, err
		}
	}
	return m.send(method, path, header, text)
}

// buys asks for a purchase, with a payment or without one, by the session if there is one, and notes nothing of it.
func (m *member) buys(p *purchase, payment string) (t told, err error) {
	text, err := p.body()
	if err != nil {
		return t, err
	}
	header := m.signed()
	if payment != "" {
		header[x402.HeaderSignature] = payment
	}
	return m.send(http.MethodPost, p.path, header, text)
}

func (m *member) send(method, path string, header map[string]string, text []byte) (t told, err error) {
	r, err := http.NewRequestWithContext(context.Background(), method, site+path, bytes.NewReader(text))
	if err != nil {
		return t, err
	}
	r.RemoteAddr, r.RequestURI = fmt.Sprintf("10.0.%d.%d:40000", m.nth/250, m.nth%250+1), r.URL.RequestURI()
	if len(text) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	response, err := m.world.front(r.Context(), m.rng.Int(), r)
	if err != nil {
		return t, err
	}
	if t.text, err = io.ReadAll(response.Body); err != nil {
		return t, err
	}
	t.status, t.header = response.StatusCode, response.Header
	var said struct {
		Code, OrderID  string
		SafeToPayAgain bool
	}
	_ = json.Unmarshal(t.text, &said) // a list is about no order
	t.code, t.order, t.again = said.Code, said.OrderID, said.SafeToPayAgain
	m.world.bus.note("wallet %.8s %s %s: %d %s", m.address, method, path, t.status, t.code)
	return t, nil
}

// until asks until it is answered, or for long enough.
func (m *member) until(method, path string, header map[string]string, body any) (t told, err error) {
	for range 5 {
		t, err = m.ask(method, path, header, body)
		if err == nil && t.status == http.StatusUnauthorized && m.session != "" {
			m.session = ""
			m.signIn()
			continue
		}
		if err == nil && t.status < http.StatusInternalServerError {
			return t, nil
		}
		time.Sleep(time.Duration(m.rng.Int64N(int64(2 * time.Second))))
	}
	return t, err
}

// signIn begins a session, if it can.
func (m *member) signIn() bool {
	for range 3 {
		if m.session != "" {
			return true
		}
		t, err := m.askAs(http.MethodPost, "/api/auth/challenge", nil, map[string]any{"address": m.address.String()})
		var ch struct{ IntentID, Message string }
		if err != nil || !t.into(&ch) {
			continue
		}
		t, err = m.askAs(http.MethodPost, "/api/auth/verify", nil, map[string]any{
			"address": m.address.String(), "intentId": ch.IntentID, "message": ch.Message, "signature": m.signText(ch.Message),
		})
		var made struct{ AccessToken string }
		if err == nil && t.into(&made) {
			m.session = made.AccessToken
		}
	}
	return m.session != ""
}

// signText signs a message as wallets do.
func (b *buyer) signText(message string) string {
	digest := handshake.PersonalDigest(message)
	if b.account != nil {
		return b.account.signed(digest).Hex()
	}
	signature, err := crypto.Sign(digest[:], b.key)
	if err != nil {
		panic(err)
	}
	signature[64] += 27
	return "0x" + hex.EncodeToString(signature)
}

// cancelCall is the call by which a payer takes an authorization back.
func (b *buyer) cancelCall(nonce x402.Hash) []byte {
	typeHash := crypto.Keccak256([]byte("CancelAuthorization(address authorizer,bytes32 nonce)"))
	word, separator := b.address.Word(), domain().Separator()
	structHash := crypto.Keccak256(typeHash, word[:], nonce[:])
	digest := crypto.Keccak256([]byte{0x19, 1}, separator[:], structHash)
	if b.account != nil {
		return b.account.cancelled(nonce, x402.Hash(digest))
	}
	sig, err := crypto.Sign(digest, b.key)
	if err != nil {
		panic(err)
	}
	data := crypto.Keccak256([]byte("cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)"))[:4]
	data = append(append(data, word[:]...), nonce[:]...)
	data = append(append(data, make([]byte, 31)...), sig[64]+27)
	return append(data, sig[:64]...)
}

// block makes the token's issuer block a wallet, or no longer.
func (w *world) block(wallet x402.Address, blocked bool) common.Hash {
	name := "unBlacklist(address)"
	if blocked {
		name = "blacklist(address)"
	}
	word := wallet.Word()
	call := append(crypto.Keccak256([]byte(name))[:4], word[:]...)
	return w.transact(x402.Address(common.HexToAddress(devnet.WalletsOf(devnet.RoleAdmin)[0].Address)), call)
}
