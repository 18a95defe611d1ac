//go:build mutant_holds_released_early

package mutant

const planted = "holds_released_early"
