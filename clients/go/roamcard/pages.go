package roamcard

import "iter"

// Page is one page of a list.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is the token of the page after this one; empty on the last.
	Next string `json:"nextPageToken,omitempty"`
}

// page is what a page's answer holds.
func page[T any](items []T, next *string) *Page[T] {
	p := &Page[T]{Items: items}
	if next != nil {
		p.Next = *next
	}
	return p
}

// pages gives what is on one page after the other, each read when the one before is used up.
func pages[T any](read func(token string) (*Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for token := ""; ; {
			p, err := read(token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range p.Items {
				if !yield(item, nil) {
					return
				}
			}
			if p.Next == "" {
				return
			}
			token = p.Next
		}
	}
}

// Collect takes everything there is, or the error that ended it.
func Collect[T any](all iter.Seq2[T, error]) ([]T, error) {
	var taken []T
	for item, err := range all {
		if err != nil {
			return nil, err
		}
		taken = append(taken, item)
	}
	return taken, nil
}
