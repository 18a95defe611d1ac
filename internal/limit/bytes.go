package limit

import "sync"

// Bytes bounds what is held in memory for callers at once, by caller, by the networks of each, and in all. It is safe
// for concurrent use.
type Bytes struct {
	// Each and All are the most of one caller and of all of them; set before the first use.
	Each, All int64

	mu    sync.Mutex
	total int64
	held  map[string]int64
}

// Take holds n bytes more for a caller; false, and nothing is held, above a bound.
func (b *Bytes) Take(caller string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total+n > b.All {
		return false
	}
	for _, in := range Networks(caller) {
		if b.held[in.Name]+n > b.Each*int64(in.AtOnce) {
			return false
		}
	}
	if b.held == nil {
		b.held = map[string]int64{}
	}
	b.total += n
	for _, in := range Networks(caller) {
		b.held[in.Name] += n
	}
	return true
}

// Give returns what Take has held.
func (b *Bytes) Give(caller string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total -= n
	for _, in := range Networks(caller) {
		if b.held[in.Name] -= n; b.held[in.Name] <= 0 {
			delete(b.held, in.Name)
		}
	}
}

// Held is how much is held in all.
func (b *Bytes) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}
