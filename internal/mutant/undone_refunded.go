//go:build mutant_undone_refunded

package mutant

const planted = "undone_refunded"
