//go:build mutant_recovered_twice

package mutant

const planted = "recovered_twice"
