//go:build mutant_payment_logged

package mutant

const planted = "payment_logged"
