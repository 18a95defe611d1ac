//go:build mutant_forged_quote

package mutant

const planted = "forged_quote"
