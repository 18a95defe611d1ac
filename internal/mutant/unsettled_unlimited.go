//go:build mutant_unsettled_unlimited

package mutant

const planted = "unsettled_unlimited"
