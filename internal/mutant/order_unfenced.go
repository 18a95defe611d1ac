//go:build mutant_order_unfenced

package mutant

const planted = "order_unfenced"
