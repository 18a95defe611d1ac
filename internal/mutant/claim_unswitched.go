//go:build mutant_claim_unswitched

package mutant

const planted = "claim_unswitched"
