package roamcardtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/x402"
)

// sent is an authorization that left a process.
type sent struct {
	key, header, nonce    string
	amount                int64
	signedAt, validBefore time.Time
	// sentAt is by the world's time.
	sentAt time.Time
}

// backdate is how far clients put validAfter back.
const backdate = 10 * time.Minute

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// sentCount counts what was sent, and says whether some of it was for a key.
func (w *world) sentCount(key string) (all int, some bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sent), slices.ContainsFunc(w.sent, func(s sent) bool { return strings.HasSuffix(s.key, " "+key) })
}

// seen watches a payment leave a process.
func (w *world) seen(path, key, header string) {
	p, err := x402.DecodePayment(header)
	if err != nil {
		w.fail("a payment that cannot be read was sent: %v", err)
		return
	}
	a := p.Authorization
	one := sent{
		key: path + " " + key, header: header, nonce: a.Nonce.String(), amount: int64(a.Value),
		signedAt: time.Unix(int64(a.ValidAfter), 0).Add(backdate), validBefore: time.Unix(int64(a.ValidBefore), 0),
		sentAt: w.now(),
	}
	if a.To.String() != w.service.PayTo() {
		w.fail("%s: %s was to be paid", one.key, a.To)
	}
	w.mu.Lock()
	known := false
	for _, s := range w.sent {
		known = known || s.header == header
	}
	if !known {
		w.sent = append(w.sent, one)
	}
	w.mu.Unlock()
	if !known {
		// One that is over may come again from a process that had it before another one signed again.
		if !w.kept(header) {
			w.fail("%s: an authorization was sent that the journal does not have", one.key)
		}
		w.holdsOne(one)
		w.holdsCap(one)
	}
}

func (w *world) kept(header string) bool {
	b, err := w.disk.Read(context.Background())
	if err != nil {
		return false
	}
	for _, e := range b.Purchases {
		if e.Header == header {
			return true
		}
	}
	return false
}

// holdsOne checks that no other authorization of the key could still be taken.
func (w *world) holdsOne(one sent) {
	w.mu.Lock()
	var live int
	for _, s := range w.sent {
		if s.key == one.key && one.sentAt.Before(s.validBefore) {
			live++
		}
	}
	w.mu.Unlock()
	if live > 1 {
		w.fail("%s has %d live authorizations", one.key, live)
	}
}

// holdsCap checks what was signed in every day that ends with an authorization. The token takes a nonce once: of those
// that share one, the largest counts.
func (w *world) holdsCap(one sent) {
	if one.amount > 2500*10_000 {
		w.fail("%s: %d units were signed for in one payment", one.key, one.amount)
	}
	w.mu.Lock()
	all := slices.Clone(w.sent)
	w.mu.Unlock()
	for _, last := range all {
		most, sum := map[string]int64{}, int64(0)
		for _, s := range all {
			if ago := last.signedAt.Sub(s.signedAt); ago >= 0 && ago < 24*time.Hour {
				sum += max(0, s.amount-most[s.nonce])
				most[s.nonce] = max(most[s.nonce], s.amount)
			}
		}
		if sum > int64(w.cap)*10_000 {
			w.fail("%d units were signed for in the day before %s, and the cap is %s", sum, last.signedAt, w.cap)
		}
	}
}

// look checks what the token took: what was sent, and of a key only one, unless the service called the one before dead
// and its time was over when the next one was sent, as the clients' rules have it.
func (w *world) look() {
	w.mu.Lock()
	byNonce, last, count := map[string]sent{}, map[string]sent{}, map[string]int{}
	for _, s := range w.sent {
		// The token takes whichever of a nonce is presented; the last to end is what counts.
		if known, ok := byNonce[s.nonce]; !ok || known.validBefore.Before(s.validBefore) {
			byNonce[s.nonce] = s
		}
	}
	w.mu.Unlock()
	for _, moved := range w.service.Token.Transfers() {
		s, ok := byNonce[moved.Nonce]
		if !ok {
			w.fail("the token took %s, which nobody sent", moved.Nonce)
			continue
		}
		before, again := last[s.key]
		last[s.key] = s
		count[s.key]++
		overlap := s.sentAt.Before(before.validBefore) && before.sentAt.Before(s.validBefore)
		if again && (count[s.key] > 1+w.dead[s.key] || overlap) {
			w.fail("%s has %d transfers, and %d of its payments were called dead", s.key, count[s.key], w.dead[s.key])
		}
	}
}

// bought names the purchase that a request makes.
func bought(path string, body []byte) (operation, key string) {
	var asked struct {
		IdempotencyKey string `json:"idempotencyKey"`
	}
	_ = json.Unmarshal(body, &asked) // then there is no key
	for method, operation := range map[string]string{"PurchaseCard": roamcard.OpCard, "TopUpCard": roamcard.OpTopup,
		"PurchaseEsim": roamcard.OpESIM} {
		if strings.HasSuffix(path, method) {
			return operation, asked.IdempotencyKey
		}
	}
	return "", ""
}
