//go:build mutant_scope_ignored

package mutant

const planted = "scope_ignored"
