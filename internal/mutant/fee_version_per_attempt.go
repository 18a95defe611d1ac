//go:build mutant_fee_version_per_attempt

package mutant

const planted = "fee_version_per_attempt"
