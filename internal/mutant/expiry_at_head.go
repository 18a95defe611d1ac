//go:build mutant_expiry_at_head

package mutant

const planted = "expiry_at_head"
