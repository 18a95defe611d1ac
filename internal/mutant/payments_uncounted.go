//go:build mutant_payments_uncounted

package mutant

const planted = "payments_uncounted"
