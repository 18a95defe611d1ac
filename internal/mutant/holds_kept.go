//go:build mutant_holds_kept

package mutant

const planted = "holds_kept"
