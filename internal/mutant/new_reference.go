//go:build mutant_new_reference

package mutant

const planted = "new_reference"
