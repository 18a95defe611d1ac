//go:build mutant_nonce_forgotten

package mutant

const planted = "nonce_forgotten"
