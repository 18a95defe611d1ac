//go:build mutant_turns_per_process

package mutant

const planted = "turns_per_process"
