//go:build mutant_one_node_delivers

package mutant

const planted = "one_node_delivers"
