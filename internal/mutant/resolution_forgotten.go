//go:build mutant_resolution_forgotten

package mutant

const planted = "resolution_forgotten"
