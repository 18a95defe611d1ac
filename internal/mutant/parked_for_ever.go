//go:build mutant_parked_for_ever

package mutant

const planted = "parked_for_ever"
