//go:build mutant_amount_at_least

package mutant

const planted = "amount_at_least"
