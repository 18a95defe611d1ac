//go:build mutant_reorg_ignored

package mutant

const planted = "reorg_ignored"
