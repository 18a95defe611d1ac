//go:build mutant_expired_accepted

package mutant

const planted = "expired_accepted"
