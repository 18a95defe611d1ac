//go:build mutant_receipt_trusted

package mutant

const planted = "receipt_trusted"
