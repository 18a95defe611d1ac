//go:build mutant_challenge_reused

package mutant

const planted = "challenge_reused"
