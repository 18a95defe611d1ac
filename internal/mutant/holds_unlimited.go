//go:build mutant_holds_unlimited

package mutant

const planted = "holds_unlimited"
