package checkout

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// watchTokenLifetime is long enough for a delivery that is on its way, and for somebody who waits for it.
	watchTokenLifetime = time.Hour
	watchTokenPrefix   = "owt_"
	// maxWatchToken bounds what is decoded; a token has about 125 characters.
	maxWatchToken = 256
)

// WatchToken lets whoever paid an order watch it without a session. It is signed and not stored.
func (c *Checkout) WatchToken(o order.Order) (token secret.Text, until time.Time) {
	until = c.Now().Add(watchTokenLifetime).Truncate(time.Second)
	body := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))
	body = append(append(body, o.Owner[:]...), o.ID...)
	signed := append(macOf(c.QuoteKey, watchContext, body), body...)
	return secret.New(watchTokenPrefix + base64.RawURLEncoding.EncodeToString(signed)), until
}

// OpenWatchToken is the order that a token is for, and its owner. Every failure is the same session_invalid.
func (c *Checkout) OpenWatchToken(token secret.Text) (order.ID, x402.Address, error) {
	invalid := fault.New(fault.SessionInvalid,
		"The watch token is not valid, or has expired. Repeat the payment's request.")
	text, ok := strings.CutPrefix(token.Reveal(), watchTokenPrefix)
	if !ok || len(text) > maxWatchToken {
		return "", x402.Address{}, invalid
	}
	const head = 8 + len(x402.Address{})
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) <= macSize+head || !isSigned(raw, watchContext, c.QuoteKey, c.FormerQuoteKeys) {
		return "", x402.Address{}, invalid
	}
	body := raw[macSize:]
	if until := time.Unix(int64(binary.BigEndian.Uint64(body)), 0); !c.Now().Before(until) {
		return "", x402.Address{}, invalid
	}
	return order.ID(body[head:]), x402.Address(body[8:head]), nil
}
