//go:build mutant_horizon_ignored

package mutant

const planted = "horizon_ignored"
