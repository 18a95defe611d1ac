//go:build mutant_retry_same_reference

package mutant

const planted = "retry_same_reference"
