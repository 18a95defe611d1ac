//go:build mutant_switch_ignored

package mutant

const planted = "switch_ignored"
