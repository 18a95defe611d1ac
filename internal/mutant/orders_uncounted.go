//go:build mutant_orders_uncounted

package mutant

const planted = "orders_uncounted"
