//go:build mutant_order_of_anyone

package mutant

const planted = "order_of_anyone"
