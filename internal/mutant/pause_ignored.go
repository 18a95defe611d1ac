//go:build mutant_pause_ignored

package mutant

const planted = "pause_ignored"
