//go:build mutant_purchase_key_not_unique

package mutant

const planted = "purchase_key_not_unique"
