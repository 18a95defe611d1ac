package sandbox

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/esim"
)

// historyPage is how many orders one answer holds.
const historyPage = 1000

// historyBody is a page of the orders that made, or may make, a profile, oldest first.
type historyBody struct {
	References []string `json:"references"`
	// Last is the seq of the last of them, where the next page begins; zero when there is none.
	Last int `json:"last"`
}

func (s *supplier) getHistory(c call) (any, error) {
	after, err := strconv.Atoi(c.request.URL.Query().Get("after"))
	if err != nil || after < 0 {
		return nil, invalid("after is the seq of an order")
	}
	b := s.books
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	if err := b.advance(now); err != nil {
		return nil, err
	}
	page := historyBody{References: []string{}}
	for _, row := range b.rows() {
		if row.Seq <= after || row.Status == cancelled || now.Before(row.HiddenUntil) {
			continue
		}
		if len(page.References) == historyPage {
			break
		}
		page.References, page.Last = append(page.References, row.Reference), row.Seq
	}
	return page, nil
}

type historyAnswer struct {
	References *[]string `json:"references"`
	Last       *int      `json:"last"`
}

var _ esim.Historian = (*Supplier)(nil)

// History implements esim.Historian.
func (s *Supplier) History(ctx context.Context) ([]esim.Ref, error) {
	var all []esim.Ref
	for after := 0; ; {
		var page historyAnswer
		err := s.call(ctx, request{
			op: "history", method: http.MethodGet, under: supplierFace, path: []string{"history"}, route: "/esim/v1/history",
			query: url.Values{"after": {strconv.Itoa(after)}},
		}, &page)
		if err != nil {
			return nil, fmt.Errorf("read the history: %w", err)
		}
		if page.References == nil || page.Last == nil || (*page.Last <= after) != (len(*page.References) == 0) {
			return nil, fmt.Errorf("read the history: %w", unclear("the page in the answer does not match the documentation"))
		}
		for _, text := range *page.References {
			ref, err := uuid.Parse(text)
			if err != nil {
				return nil, fmt.Errorf("read the history: %w", unclear("a reference in the answer is not ours"))
			}
			all = append(all, esim.Ref(ref))
		}
		if len(*page.References) < historyPage {
			return all, nil
		}
		after = *page.Last
	}
}
