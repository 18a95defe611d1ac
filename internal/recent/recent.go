// Package recent remembers what was used last, and no more than so much of it.
package recent

import "sync"

// Map keeps entries by their keys. Of those that were neither put nor found for longest, it forgets: it has at least
// half of Most entries once there were as many, and never more than Most. It is safe for concurrent use. A Map is not
// copied once it is used.
type Map[K comparable, V any] struct {
	// Most bounds the entries; it is set before the first use.
	Most int

	mu sync.Mutex
	// young is what was used since it was empty, old what was young before.
	young, old map[K]V
}

// Get finds an entry.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.get(key)
}

func (m *Map[K, V]) get(key K) (value V, ok bool) {
	if value, ok = m.young[key]; ok {
		return value, true
	}
	if value, ok = m.old[key]; ok {
		m.put(key, value)
	}
	return value, ok
}

// Put adds or replaces an entry.
func (m *Map[K, V]) Put(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key, value)
}

func (m *Map[K, V]) put(key K, value V) {
	if _, replaced := m.young[key]; !replaced && (m.young == nil || len(m.young) >= m.Most/2) {
		m.young, m.old = map[K]V{}, m.young
	}
	m.young[key] = value
}

// GetOrPut finds an entry, or adds the one that create makes.
func (m *Map[K, V]) GetOrPut(key K, create func() V) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.get(key)
	if !ok {
		value = create()
		m.put(key, value)
	}
	return value
}

// Delete forgets an entry.
func (m *Map[K, V]) Delete(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.young, key)
	delete(m.old, key)
}
