//go:build mutant_payer_not_told

package mutant

const planted = "payer_not_told"
