//go:build mutant_arrived_unlocked

package mutant

const planted = "arrived_unlocked"
