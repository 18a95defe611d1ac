package paging_test

import (
	"slices"
	"testing"

	"github.com/roamcard/roamcard/internal/paging"
)

func TestCutNamesTheNextPageOnlyWhenThereIsOne(t *testing.T) {
	for _, tt := range []struct {
		rows, page []int
		next       string
	}{
		{nil, nil, ""}, {[]int{7}, []int{7}, ""}, {[]int{7, 5}, []int{7, 5}, ""}, {[]int{7, 5, 3}, []int{7, 5}, "five"},
	} {
		page, next := paging.Cut(tt.rows, 2, func(n int) string { return map[int]string{5: "five", 3: "three"}[n] })
		if !slices.Equal(page, tt.page) || next != tt.next {
			t.Errorf("of %v: %v and %q, want %v and %q", tt.rows, page, next, tt.page, tt.next)
		}
	}
}
