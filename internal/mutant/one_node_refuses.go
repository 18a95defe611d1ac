//go:build mutant_one_node_refuses

package mutant

const planted = "one_node_refuses"
