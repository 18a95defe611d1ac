package limit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"time"
)

// Hit is one request to be counted over all processes: in the database, in the transaction of what the request writes,
// so that a request that writes nothing is not counted there.
type Hit struct {
	Class Class
	Name  string
	Rate  Rate
}

// Hit is a request of a caller, to be counted by whoever stores what it asks for; nothing when the class is not
// limited.
func (l *Limiter) Hit(class Class, name string) []Hit {
	rate, limited := l.limits(class)
	if !limited {
		return nil
	}
	return []Hit{{class, name, rate}}
}

// AddressHits are the hits for a class that is counted by address: of the client and of the Networks that it is in,
// which are stored only as keyed hashes.
func (l *Limiter) AddressHits(class Class, address string) (hits []Hit) {
	rate, limited := l.limits(class)
	if !limited {
		return nil
	}
	for _, in := range Networks(address) {
		hits = append(hits, Hit{class, l.Source(in.Name), rate.of(in)})
	}
	return hits
}

// Source is a keyed hash of an address, fit to be stored: it tells the requests of one address from those of others.
// It is empty without a limiter, which has the key.
func (l *Limiter) Source(address string) string {
	if l == nil {
		return ""
	}
	h := hmac.New(sha256.New, l.Key)
	h.Write([]byte("roamcard address v1\n" + address))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// Each is how long it takes until one more request is given back.
func (t Hit) Each() time.Duration { return t.Rate.each() }

// Refusal is the answer for a caller whose rate is full again after a time.
func (t Hit) Refusal(whole time.Duration) *Refusal {
	wait := max(whole+t.Each()-t.Each()*time.Duration(t.Rate.Count), time.Second)
	return tooOften(State{Limit: t.Rate.Count, Reset: max(whole, 0), RetryAfter: wait})
}

// Full is the Refusal of a caller who already has the maximum number of something.
func Full(most int, until time.Duration, detail string) *Refusal {
	return refusal(State{Limit: most, Reset: until, RetryAfter: max(until, time.Second)}, detail)
}
