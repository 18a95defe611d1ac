// Package paging cuts pages off lists.
package paging

// Cut takes the rows of a page that was read with one row more than its limit. It returns the page without that row
// and, when there was one, the cursor of the page's last row, after which the next page begins. Otherwise next is
// zero.
func Cut[T, C any](rows []T, limit int, cursor func(T) C) (page []T, next C) {
	if len(rows) <= limit {
		return rows, next
	}
	return rows[:limit], cursor(rows[limit-1])
}
