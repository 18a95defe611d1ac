//go:build mutant_quorum_of_one

package mutant

const planted = "quorum_of_one"
