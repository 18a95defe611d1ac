//go:build mutant_validity_unbounded

package mutant

const planted = "validity_unbounded"
