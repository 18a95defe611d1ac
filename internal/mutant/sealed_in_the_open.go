//go:build mutant_sealed_in_the_open

package mutant

const planted = "sealed_in_the_open"
