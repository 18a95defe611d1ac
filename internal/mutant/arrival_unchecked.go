//go:build mutant_arrival_unchecked

package mutant

const planted = "arrival_unchecked"
