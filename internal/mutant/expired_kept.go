//go:build mutant_expired_kept

package mutant

const planted = "expired_kept"
