//go:build mutant_supplier_not_asked

package mutant

const planted = "supplier_not_asked"
