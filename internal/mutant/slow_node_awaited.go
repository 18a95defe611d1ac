//go:build mutant_slow_node_awaited

package mutant

const planted = "slow_node_awaited"
