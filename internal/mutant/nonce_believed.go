//go:build mutant_nonce_believed

package mutant

const planted = "nonce_believed"
