//go:build mutant_reverts_unbounded

package mutant

const planted = "reverts_unbounded"
