//go:build mutant_paid_too_late

package mutant

const planted = "paid_too_late"
