//go:build mutant_one_node_buries

package mutant

const planted = "one_node_buries"
