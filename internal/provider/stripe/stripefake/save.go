package stripefake

import (
	"encoding/json"
	"fmt"
)

// Save is the books as Restore takes them. What Elements show is not among them.
func (s *Server) Save() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return json.Marshal(s.books)
}

// Restore puts books in the place of those of a new Server.
func (s *Server) Restore(saved []byte) error {
	all := books{Keys: map[string]kept{}, Executed: map[string]int{}}
	if err := json.Unmarshal(saved, &all); err != nil {
		return fmt.Errorf("read the books: %w", err)
	}
	s.change(func() { s.books = all })
	return nil
}
