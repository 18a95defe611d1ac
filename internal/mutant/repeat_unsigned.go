//go:build mutant_repeat_unsigned

package mutant

const planted = "repeat_unsigned"
