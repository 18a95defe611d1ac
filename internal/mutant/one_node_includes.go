//go:build mutant_one_node_includes

package mutant

const planted = "one_node_includes"
