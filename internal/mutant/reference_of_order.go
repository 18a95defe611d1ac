//go:build mutant_reference_of_order

package mutant

const planted = "reference_of_order"
