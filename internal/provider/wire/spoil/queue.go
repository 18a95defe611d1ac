package spoil

import "sync"

// Queue are the ways for requests to go wrong that are still to come, by operation. The zero Queue is empty. It is safe
// for concurrent use.
type Queue[Mode any] struct {
	mu    sync.Mutex
	modes map[string][]Mode
}

// Add makes one more request of an operation go wrong.
func (q *Queue[Mode]) Add(op string, mode Mode) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.modes == nil {
		q.modes = map[string][]Mode{}
	}
	q.modes[op] = append(q.modes[op], mode)
}

// Take is how a request of an operation goes wrong, the first that was added; ok is false when it does not.
func (q *Queue[Mode]) Take(op string) (mode Mode, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	modes := q.modes[op]
	if len(modes) == 0 {
		return mode, false
	}
	q.modes[op] = modes[1:]
	return modes[0], true
}

// Clear leaves all requests that are still to come as they are.
func (q *Queue[Mode]) Clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.modes = nil
}
