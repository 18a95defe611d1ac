//go:build mutant_head_believed

package mutant

const planted = "head_believed"
