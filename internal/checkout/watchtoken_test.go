package checkout_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roamcard/roamcard/internal/checkout/checkouttest"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/secret"
)

func TestWatchTokenOpensItsOrderUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := checkouttest.Open(t, checkouttest.Options{})
		b := s.NewBuyer(t)
		o := mustCreate(t, s, newOrder(b, "k"))
		token, until := s.WatchToken(o)
		if left := time.Until(until); left > time.Hour || left < 50*time.Minute {
			t.Errorf("the token lasts %s", left)
		}
		id, owner, err := s.OpenWatchToken(token)
		if err != nil || id != o.ID || owner != b.Address {
			t.Errorf("opened %s of %s, %v", id, owner, err)
		}
		another := o
		another.ID = order.NewID(time.Now())
		if other, _ := s.WatchToken(another); other.Reveal() == token.Reveal() {
			t.Error("another order has the same token")
		}
		raw := strings.TrimPrefix(token.Reveal(), "owt_")
		bytes, err := base64.RawURLEncoding.DecodeString(raw)
		if err != nil {
			t.Fatal(err)
		}
		for i := range bytes {
			bytes[i] ^= 1
			forged := secret.New("owt_" + base64.RawURLEncoding.EncodeToString(bytes))
			if id, _, err := s.OpenWatchToken(forged); fault.Of(err) != fault.SessionInvalid {
				t.Errorf("byte %d changed: opened %q, %v", i, id, err)
			}
			bytes[i] ^= 1
		}
		for _, wrong := range []string{"", "owt_", raw, "rcs_" + raw, token.Reveal() + "=", token.Reveal()[:40],
			"owt_" + strings.Repeat("A", 10_000)} {
			if _, _, err := s.OpenWatchToken(secret.New(wrong)); fault.Of(err) != fault.SessionInvalid {
				t.Errorf("%.20q: %v", wrong, err)
			}
		}
		s.Offset.Store(int64(time.Hour))
		if _, _, err := s.OpenWatchToken(token); fault.Of(err) != fault.SessionInvalid {
			t.Errorf("after its end: %v", err)
		}
	})
}
