//go:build mutant_any_amount_of_nonce

package mutant

const planted = "any_amount_of_nonce"
