//go:build mutant_arrived_submitted

package mutant

const planted = "arrived_submitted"
