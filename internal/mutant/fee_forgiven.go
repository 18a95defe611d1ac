//go:build mutant_fee_forgiven

package mutant

const planted = "fee_forgiven"
