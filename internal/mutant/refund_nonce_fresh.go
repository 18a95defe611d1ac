//go:build mutant_refund_nonce_fresh

package mutant

const planted = "refund_nonce_fresh"
