//go:build mutant_simulated_for_nothing

package mutant

const planted = "simulated_for_nothing"
