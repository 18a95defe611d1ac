//go:build mutant_findings_block_all

package mutant

const planted = "findings_block_all"
