//go:build mutant_code_ignored

package mutant

const planted = "code_ignored"
