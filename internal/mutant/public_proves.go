//go:build mutant_public_proves

package mutant

const planted = "public_proves"
