package checkout

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/card"
	"github.com/roamcard/roamcard/internal/product/esim"
)

var (
	quoted  = order.Offer{Price: 2500, Item: json.RawMessage(`{"plan":"p"}`), Description: "a card"}
	request = order.FingerprintOf(card.Kind, json.RawMessage(`{}`))
)

// quotesAt makes quotes with a key at a time.
func quotesAt(key byte, at time.Time) quotes {
	return quotes{key: bytes.Repeat([]byte{key}, 32), now: func() time.Time { return at }}
}

var signedAt = time.Unix(1_790_000_000, 0)

func TestQuoteHoldsForItsRequestUntilItExpires(t *testing.T) {
	id := quotesAt(1, signedAt).sign(card.Kind, request, quoted)
	for _, after := range []time.Duration{0, time.Minute, quoteLifetime} {
		got, err := quotesAt(1, signedAt.Add(after)).open(id, card.Kind, request)
		if diff := cmp.Diff(quoted, got); err != nil || diff != "" {
			t.Errorf("after %s: %v\n%s", after, err, diff)
		}
	}
	other := order.FingerprintOf(card.Kind, json.RawMessage(`{"other":1}`))
	for name, open := range map[string]func() (order.Offer, error){
		"too late": func() (order.Offer, error) {
			return quotesAt(1, signedAt.Add(quoteLifetime+time.Second)).open(id, card.Kind, request)
		},
		"for another product":      func() (order.Offer, error) { return quotesAt(1, signedAt).open(id, esim.Kind, request) },
		"for another request":      func() (order.Offer, error) { return quotesAt(1, signedAt).open(id, card.Kind, other) },
		"at another service's key": func() (order.Offer, error) { return quotesAt(2, signedAt).open(id, card.Kind, request) },
	} {
		if got, err := open(); err == nil || got.Price != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestQuotesOfBothKeysHoldDuringARotation: each process signs with one key, and verifies what either has signed.
func TestQuotesOfBothKeysHoldDuringARotation(t *testing.T) {
	was, is, gone := quotesAt(1, signedAt), quotesAt(2, signedAt), quotesAt(2, signedAt)
	was.former, is.former = [][]byte{is.key}, [][]byte{was.key}
	for name, q := range map[string]quotes{"the former key": was, "the new key": is} {
		id := q.sign(card.Kind, request, quoted)
		for at, reader := range map[string]quotes{"before": was, "after": is} {
			if got, err := reader.open(id, card.Kind, request); err != nil || got.Price != quoted.Price {
				t.Errorf("signed with %s, read by the process %s: %v", name, at, err)
			}
		}
	}
	if _, err := gone.open(was.sign(card.Kind, request, quoted), card.Kind, request); err == nil {
		t.Error("a retired key still verifies")
	}
}

func TestQuoteWithAnyOtherBitIsRefused(t *testing.T) {
	id := quotesAt(1, signedAt).sign(card.Kind, request, quoted)
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	forge := func(change func([]byte) []byte) string {
		return base64.RawURLEncoding.EncodeToString(change(bytes.Clone(raw)))
	}
	forgeries := map[string]string{
		"nothing":    "",
		"no base64":  "!" + id[1:],
		"half":       id[:len(id)/2],
		"MAC alone":  forge(func(b []byte) []byte { return b[:macSize] }),
		"cheaper":    forge(func(b []byte) []byte { return bytes.Replace(b, []byte("2500"), []byte("0001"), 1) }),
		"other item": forge(func(b []byte) []byte { return bytes.Replace(b, []byte(`"p"}`), []byte(`"q"}`), 1) }),
		"no MAC":     forge(func(b []byte) []byte { return append(make([]byte, macSize), b[macSize:]...) }),
	}
	for name, forged := range forgeries {
		if got, err := quotesAt(1, signedAt).open(forged, card.Kind, request); err == nil {
			t.Errorf("%s: honoured as %+v", name, got)
		}
	}
	for i := range raw {
		forged := forge(func(b []byte) []byte { b[i] ^= 1; return b })
		if got, err := quotesAt(1, signedAt).open(forged, card.Kind, request); err == nil {
			t.Fatalf("bit of byte %d: honoured as %+v", i, got)
		}
	}
}
