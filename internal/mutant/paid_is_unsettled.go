//go:build mutant_paid_is_unsettled

package mutant

const planted = "paid_is_unsettled"
