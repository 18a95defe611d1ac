//go:build mutant_unknown_is_402

package mutant

const planted = "unknown_is_402"
