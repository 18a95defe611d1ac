//go:build mutant_periodic_piles

package mutant

const planted = "periodic_piles"
