//go:build mutant_sold_before_caught_up

package mutant

const planted = "sold_before_caught_up"
