//go:build mutant_resend_unknown

package mutant

const planted = "resend_unknown"
