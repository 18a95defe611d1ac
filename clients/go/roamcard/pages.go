package roamcard

import "iter"

// pages gives what is on one page after the other, each read when the one before is used up.
func pages[T any](read func(token *string) (items []T, next *string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for token := (*string)(nil); ; {
			items, next, err := read(token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			token = next
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
