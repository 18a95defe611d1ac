//go:build mutant_bumped_with_code

package mutant

const planted = "bumped_with_code"
