//go:build mutant_undecided_unlimited

package mutant

const planted = "undecided_unlimited"
