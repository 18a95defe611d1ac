//go:build mutant_settle_failure_ignored

package mutant

const planted = "settle_failure_ignored"
