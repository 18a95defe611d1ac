//go:build mutant_adopted_forgotten

package mutant

const planted = "adopted_forgotten"
