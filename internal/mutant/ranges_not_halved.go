//go:build mutant_ranges_not_halved

package mutant

const planted = "ranges_not_halved"
