//go:build mutant_hash_believed

package mutant

const planted = "hash_believed"
