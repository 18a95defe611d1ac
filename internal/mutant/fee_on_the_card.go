//go:build mutant_fee_on_the_card

package mutant

const planted = "fee_on_the_card"
